from __future__ import annotations

from pathlib import Path

import pytest

from ottla.broker.verification.judge import Guarantee, ScenarioOutcome
from ottla.broker.verification.scenarios.delivery import SCENARIOS
from ottla.broker.verification.stage import RunLimits
from tests.support.verifications import broken, outcomes, program, results

NAMES = [each.name for each in SCENARIOS]


def test_idempotent_producer_holds_in_all_delivery_scenarios(tmp_path: Path) -> None:
    assert outcomes(tmp_path, program("idempotent"), *NAMES) == dict.fromkeys(NAMES, ScenarioOutcome.HELD)


def test_producer_without_a_producer_id_writes_retries_twice(tmp_path: Path) -> None:
    found = results(tmp_path, program("plain"), *(name for name in NAMES if name != "late-ack"))
    # The program's timeout (2 s) is long enough for a busy machine, but shorter than the delay of the response (3 s).
    found |= results(
        tmp_path / "late", program("plain", "--timeout=2"), "late-ack", limits=RunLimits(timeout_s=30, restarts=3, late_ms=3_000)
    )
    for name in ("lost-ack", "late-ack", "duplicate-delivery", "window-overflow"):
        breach = found[name].of(Guarantee.ONCE)
        assert breach is not None, name
        assert "without a producer id" in breach.explanation.lower()
    assert found["leader-unavailable"].outcome is ScenarioOutcome.HELD
    assert found["producer-state-lost"].outcome is ScenarioOutcome.DOES_NOT_APPLY


@pytest.mark.parametrize(("mode", "guarantee"), [("careless", Guarantee.COMPLETE), ("postponing", Guarantee.ORDER)])
def test_unhandled_rejection_breaks_a_guarantee(tmp_path: Path, mode: str, guarantee: Guarantee) -> None:
    assert broken(tmp_path, program(mode), "leader-unavailable") == {"leader-unavailable": [guarantee]}


def test_producer_with_a_single_request_holds_in_all_delivery_scenarios(tmp_path: Path) -> None:
    names = [name for name in NAMES if name != "producer-state-lost"]  # which has no effect on a single request
    assert outcomes(tmp_path, program("single"), *names) == dict.fromkeys(names, ScenarioOutcome.HELD)


def test_consumer_holds_and_a_stream_without_transactions_duplicates(tmp_path: Path) -> None:
    names = ("lost-ack", "late-ack", "duplicate-delivery", "leader-unavailable")
    assert outcomes(tmp_path, program("consumer"), *names) == dict.fromkeys(names, ScenarioOutcome.HELD)
    found = results(tmp_path / "stream", program("stream", "--plain"), "lost-ack", "window-overflow")
    assert all(each.of(Guarantee.ONCE) for each in found.values())


def test_window_overflow_does_not_apply_to_a_consumer(tmp_path: Path) -> None:
    assert outcomes(tmp_path, program("consumer"), "window-overflow") == {"window-overflow": ScenarioOutcome.DOES_NOT_APPLY}
