"""A whole verification: which scenarios run, what is reported, and what cannot be judged."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.broker.testing.anomalies import by_key
from ottla.broker.verification.judge import Guarantee, ScenarioOutcome
from ottla.broker.verification.program import CannotStart, Program
from ottla.broker.verification.scenario import Baseline, Scenario, always
from ottla.broker.verification.stage import NEVER, RunLimits, Script, Stage
from ottla.broker.verification.verification import CannotVerify
from ottla.protocol.api_keys import ApiKey
from tests.support.verifications import program, verification


def test_baseline_run_is_first_and_inapplicable_scenarios_are_not_run(tmp_path: Path) -> None:
    begun: list[str] = []
    found = list(verification(tmp_path, program("plain"), "transaction-timeout", "leader-unavailable").run(begun.append))
    assert begun == ["calm", "leader-unavailable"]
    assert [(each.name, each.outcome) for each in found] == [
        ("calm", ScenarioOutcome.HELD),
        ("leader-unavailable", ScenarioOutcome.HELD),
        ("transaction-timeout", ScenarioOutcome.DOES_NOT_APPLY),
    ]
    assert found[2].note == "it uses no transactions"


@pytest.mark.parametrize(
    ("mode", "why"),
    [
        ("nothing", "wrote no readable record"),
        ("fails", "no such luck"),
        ("alike", "what identifies them"),
        ("varying", "two runs without faults produce different records"),
    ],
)
def test_unjudgeable_program_is_reported_with_the_reason(tmp_path: Path, mode: str, why: str) -> None:
    run = verification(tmp_path, program(mode), "leader-unavailable", limits=RunLimits(30, 1, 400))
    with pytest.raises(CannotVerify, match=why):
        list(run.run())


def test_program_that_hangs_without_faults_cannot_be_judged(tmp_path: Path) -> None:
    with pytest.raises(CannotVerify, match="did not end within 0 s; Does it use OTTLA_BOOTSTRAP_SERVERS"):
        list(verification(tmp_path, program("hangs"), limits=RunLimits(0.2, 0, 0)).run())


def test_duplicate_or_missing_effects_cannot_be_judged(tmp_path: Path) -> None:
    words = program("consumer")
    with pytest.raises(CannotVerify, match="effects occur twice"):
        list(verification(tmp_path, program("consumer", result=["printf", "done\\ndone\\n"]), "lost-ack").run())
    with pytest.raises(CannotVerify, match="reported no effects"):
        list(verification(tmp_path / "none", Program(words.command, words.role, records=40), "lost-ack").run())


def test_varying_values_are_judged_by_key(tmp_path: Path) -> None:
    run = verification(tmp_path, program("varying"), "lost-ack", by=lambda _, value: (value or b"").rsplit(b"-", 1)[0])
    assert [each.of(Guarantee.ONCE) is not None for each in run.run()] == [False, True]
    assert by_key(b"k", b"v") == b"k"


def test_missing_command_ends_the_verification(tmp_path: Path) -> None:
    with pytest.raises(CannotStart, match="/no/such/program"):
        list(verification(tmp_path, Program(["/no/such/program"])).run())


def test_missing_and_unexpected_records_of_a_deterministic_program_are_broken(tmp_path: Path) -> None:
    def swaps(on: Stage, _: Baseline) -> Script:
        on.program = program("varying")
        on.start()
        on.program = program("plain")
        yield from ()

    run = verification(tmp_path, program("plain"))
    found = list(type(run)(run.program, tmp_path, [Scenario("swaps", "other values", swaps, always)]).run())
    assert {each.guarantee for each in found[1].breaches} == {Guarantee.COMPLETE, Guarantee.ONCE}


def test_scenario_not_met_half_way_is_retried_from_the_start(tmp_path: Path) -> None:
    tried: list[int] = []

    def too_late(on: Stage, baseline: Baseline) -> Script:
        tried.append(baseline.part_way(ApiKey.PRODUCE))
        on.start()
        if len(tried) == 1:
            yield NEVER

    def never(on: Stage, _: Baseline) -> Script:
        on.start()
        yield NEVER

    scenarios = [Scenario("too-late", "", too_late, always), Scenario("never", "", never, always)]
    run = verification(tmp_path, program("plain"))
    found = list(type(run)(run.program, tmp_path, scenarios).run())
    assert tried == [5, 0]
    assert [each.outcome for each in found] == [ScenarioOutcome.HELD, ScenarioOutcome.HELD, ScenarioOutcome.NOT_MET]


def test_directories_are_removed_unless_they_are_kept(tmp_path: Path) -> None:
    list(verification(tmp_path / "gone", program("plain"), "lost-ack").run())
    assert list((tmp_path / "gone").iterdir()) == []
    _, broken = verification(tmp_path / "kept", program("plain"), "lost-ack", keep=True).run()
    assert broken.note == f"kept in {tmp_path / 'kept' / 'lost-ack'}"
    assert {each.name for each in (tmp_path / "kept" / "lost-ack").iterdir()} == {
        "data",
        "work",
        "instance-1-run-1.out",
        "instance-1-run-1.err",
    }
