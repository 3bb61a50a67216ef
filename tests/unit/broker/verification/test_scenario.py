from __future__ import annotations

import pytest

from ottla.broker.verification.program import Role
from ottla.broker.verification.request_observer import Ended, RequestObserver
from ottla.broker.verification.scenario import (
    BROKER_SET_SESSION_MS,
    Baseline,
    always,
    to_idempotent,
    to_members,
    to_transactional,
    to_transactions_in_a_row,
    to_writers,
)
from ottla.broker.verification.scenarios import SCENARIOS
from ottla.protocol.api_keys import ApiKey

END = Ended(5, True, None, ())


def baseline_with(ends: int = 0, *, idempotent: bool = False, session_ms: int = 0, **calls: int) -> Baseline:
    observer = RequestObserver(ends=[END] * ends, idempotent=idempotent, session_timeout_ms=session_ms)
    observer.calls.update({ApiKey[name]: count for name, count in calls.items()})
    return Baseline(Role.STREAM, observer)


@pytest.mark.parametrize(
    ("baseline", "api"),
    [
        (baseline_with(PRODUCE=1, OFFSET_COMMIT=9), ApiKey.PRODUCE),
        (baseline_with(OFFSET_COMMIT=2, FETCH=9), ApiKey.OFFSET_COMMIT),
        (baseline_with(OFFSET_COMMIT=1, FETCH=9), ApiKey.FETCH),
    ],
)
def test_progress_is_measured_by_writes_then_commits_then_reads(baseline: Baseline, api: ApiKey) -> None:
    assert baseline.progress_api is api


@pytest.mark.parametrize(("count", "half"), [(0, 0), (1, 0), (2, 1), (9, 4)])
def test_half_way_leaves_at_least_one_request(count: int, half: int) -> None:
    baseline = baseline_with(PRODUCE=count)
    assert baseline.part_way(ApiKey.PRODUCE) == half
    assert half < count or count == 0
    assert baseline.with_faults_from_the_start().part_way(ApiKey.PRODUCE) == 0


def test_session_timeout_is_the_members_or_the_brokers() -> None:
    assert baseline_with().session_ms == 0
    assert baseline_with(JOIN_GROUP=1, session_ms=6_000).session_ms == 6_000
    assert baseline_with(CONSUMER_GROUP_HEARTBEAT=3).session_ms == BROKER_SET_SESSION_MS
    assert baseline_with(SHARE_GROUP_HEARTBEAT=3).session_ms == BROKER_SET_SESSION_MS


def test_inapplicable_scenario_gives_a_reason() -> None:
    nothing = baseline_with()
    assert always(nothing) is None
    for applies in (to_writers, to_idempotent, to_transactional, to_transactions_in_a_row, to_members):
        assert applies(nothing)
    assert to_writers(baseline_with(PRODUCE=1)) is None
    assert to_idempotent(baseline_with(idempotent=True)) is None
    assert to_transactional(baseline_with(1)) is None
    assert to_transactions_in_a_row(baseline_with(1))
    assert to_transactions_in_a_row(baseline_with(2)) is None
    assert to_members(baseline_with(JOIN_GROUP=1)) is None
    assert to_members(baseline_with(CONSUMER_GROUP_HEARTBEAT=1)) is None


def test_scenario_names_are_unique() -> None:
    assert len({each.name for each in SCENARIOS}) == len(SCENARIOS)
    assert "calm" not in {each.name for each in SCENARIOS}
