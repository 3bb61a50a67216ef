from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from ottla.broker.testing.anomalies import by_value
from ottla.broker.verification.judge import Breach, Guarantee, achieved, breaches, identity_of, undetectable_by_client
from ottla.broker.verification.program import Program, Role
from ottla.broker.verification.request_observer import Ended, RequestObserver
from ottla.broker.verification.scenario import Baseline
from ottla.broker.verification.scenarios.transactions import LATE
from ottla.broker.verification.stage import Ending, Script, Stage
from ottla.protocol.error_codes import ErrorCode
from tests.support.verifications import program, stage


def once(on: Stage) -> Script:
    on.start()
    yield from ()


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """Yield the stage after a producer has written `record-0` … `record-19` in order."""
    with stage(tmp_path_factory.mktemp("played"), program("idempotent")) as on:
        on.play(once(on))
        on.quiesce()
        yield on


def expecting(values: Sequence[str]) -> Baseline:
    return Baseline(Role.PRODUCER, RequestObserver(), frozenset({"output"}), frozenset(value.encode() for value in values))


def named(found: list[Breach]) -> list[tuple[Guarantee, str]]:
    return [(each.guarantee, each.summary) for each in found]


ALL = [f"record-{number}" for number in range(20)]


def test_run_with_the_expected_results_breaks_nothing(played: Stage) -> None:
    assert breaches(played, expecting(ALL), by_value) == []


def test_baseline_run_yields_the_expected_results(played: Stage) -> None:
    topics, effects, found = achieved(played, by_value)
    assert topics == {"output"}
    assert effects == Counter(value.encode() for value in ALL)
    assert (found.anomalies, found.findings) == ([], [])


def test_missing_and_unexpected_records_are_distinguished(played: Stage) -> None:
    found = breaches(played, expecting([*ALL[1:], "never-1", "never-2"]), by_value)
    assert named(found) == [(Guarantee.COMPLETE, "2 missing"), (Guarantee.ONCE, "1 unexpected")]
    assert "record-0 was not expected" in found[1].explanation


def test_identity_that_excludes_every_record_yields_no_effects(played: Stage) -> None:
    _, effects, _ = achieved(played, identity_of("json:id"))
    assert effects == {}


@pytest.mark.parametrize(
    ("by", "value", "identity"),
    [
        ("value", b"v", b"v"),
        ("key", b"v", b"k"),
        ("json:id", b'{"id": 7}', 7),
        ("json:order.id", b'{"order": {"id": "a"}}', "a"),
        ("json:order", b'{"order": [1]}', "[1]"),
        ("json:id", b"no json", None),
        ("json:id", b"[]", None),
        ("json:id", None, None),
    ],
)
def test_records_are_identified_by_value_key_or_json_field(by: str, value: bytes | None, identity: object) -> None:
    assert identity_of(by)(b"k", value) == identity


@pytest.mark.parametrize("by", ["", "values", "json", "json:", "key:x"])
def test_unknown_identity_is_rejected(by: str) -> None:
    with pytest.raises(ValueError, match="identifies no records"):
        identity_of(by)


def test_given_up_or_overdue_run_is_unfinished(played: Stage) -> None:
    before = played.ending
    try:
        played.ending = Ending(gave_up=True, restarts=3, failures=["instance 1 ended with exit code 1: no"] * 4)
        (found,) = breaches(played, expecting(ALL), by_value)
        assert (found.guarantee, found.summary) == (Guarantee.FINISHED, "it failed 4 times and was not restarted again")
        assert found.explanation == "  instance 1 ended with exit code 1: no (4 times)"
        played.ending = Ending(overdue=True)
        (found,) = breaches(played, expecting(ALL), by_value)
        assert (found.guarantee, found.summary) == (Guarantee.FINISHED, "it did not end within 30 s")
        assert "Pitfalls of clients" in found.explanation
    finally:
        played.ending = before


def consumer(*lines: str) -> Program:
    result = [sys.executable, "-c", f"print({chr(10).join(lines)!r})"]
    return Program([sys.executable, "-c", "import signal; signal.pause()"], Role.CONSUMER, records=20, result=result)


@pytest.mark.parametrize(
    ("effects", "expected"),
    [
        (("in-0", "in-1"), []),
        (("in-0",), [(Guarantee.COMPLETE, "1 effects are missing")]),
        (("in-0", "in-1", "in-1"), [(Guarantee.ONCE, "1 effects occur twice, 0 are unexpected")]),
        (
            ("in-0", "aborted-7"),
            [(Guarantee.COMPLETE, "1 effects are missing"), (Guarantee.ONCE, "0 effects occur twice, 1 are unexpected")],
        ),
    ],
)
def test_a_consumer_is_judged_by_its_effects(tmp_path: Path, effects: tuple[str, ...], expected: list[tuple[Guarantee, str]]) -> None:
    with stage(tmp_path, consumer(*effects)) as on:
        found = breaches(on, Baseline(Role.CONSUMER, RequestObserver(), achieved=frozenset({"in-0", "in-1"})), by_value)
        assert named(found) == expected
        if found and found[0].summary.startswith("1 effects are missing"):
            assert found[0].explanation.strip() == "in-1 (of input-1@0)"


def test_reading_uncommitted_records_is_reported_with_their_places(tmp_path: Path) -> None:
    with stage(tmp_path, program("stream", "--uncommitted")) as on:
        on.play(once(on))
        topics, effects, _ = achieved(on, by_value)
        assert topics == {"output"}  # the input is the verification's own
        found = {each.guarantee: each for each in breaches(on, Baseline(Role.STREAM, on.observer, topics, frozenset(effects)), by_value)}
        assert set(found) == {Guarantee.COMMITTED}
        assert "aborted-10-0: of an aborted transaction" in found[Guarantee.COMMITTED].explanation


@pytest.mark.parametrize(
    ("end", "is_exposed"),
    [
        (Ended(4, True, ErrorCode.NONE, (LATE,)), True),
        (Ended(5, True, ErrorCode.NONE, (LATE,)), False),
        (Ended(4, True, ErrorCode.PRODUCER_FENCED, (LATE,)), False),
        (Ended(4, True, None, (LATE,)), False),
        (Ended(4, True, ErrorCode.NONE, ()), False),
    ],
)
def test_only_an_effective_late_end_txn_of_an_old_version_is_exposed(played: Stage, end: Ended, is_exposed: bool) -> None:
    before = played.observer
    try:
        played.observer = RequestObserver(ends=[end])
        assert bool(undetectable_by_client(played)) is is_exposed
    finally:
        played.observer = before
