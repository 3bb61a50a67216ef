"""The short form of `make share-crash`: SIGKILLs while two members of a share group accept and release records."""

from __future__ import annotations

from pathlib import Path

import pytest

from client_compat.crash.member import Delivery
from client_compat.crash.share import judge, share_crash

KILLS = 5
SEED = 20_261_124
FIRST, SECOND, THIRD = (0, 1), (0, 2), (0, 3)


def test_no_accepted_record_is_redelivered_and_none_is_lost_after_sigkills(tmp_path: Path) -> None:
    run = share_crash(tmp_path, KILLS, SEED)
    assert run.kills.done >= KILLS
    assert run.good, run


@pytest.mark.slow
def test_killed_cluster_brokers_lose_no_record_and_redeliver_no_accepted_one(tmp_path: Path) -> None:
    run = share_crash(tmp_path, KILLS, SEED, brokers=3)
    assert run.kills.done >= KILLS
    assert run.good, run


def test_verdict_names_lost_records_and_those_delivered_after_acceptance() -> None:
    deliveries = [
        Delivery(FIRST, sent=1.0, accepts=True, accepted=2.0),
        Delivery(FIRST, sent=1.5, accepts=True),
        Delivery(SECOND, sent=1.0, accepts=True, accepted=2.0),
        Delivery(SECOND, sent=3.0, accepts=False),
        Delivery(THIRD, sent=1.0, accepts=False),
    ]
    verdict = judge({FIRST, SECOND, THIRD}, deliveries)
    assert not verdict.good
    assert verdict.samples == ["partition 0, offset 3: lost", "partition 0, offset 2: delivered after its acceptance"]


def test_record_whose_acceptance_was_not_answered_does_not_count_as_lost() -> None:
    assert judge({FIRST, SECOND}, [Delivery(FIRST, 1.0, accepts=True), Delivery(SECOND, 1.0, accepts=True, accepted=2.0)]).good
