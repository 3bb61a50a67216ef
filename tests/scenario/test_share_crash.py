"""The short form of `make share-crash`: SIGKILLs while two members of a share group accept and release records."""

from __future__ import annotations

from pathlib import Path

from client_compat.share_crash.member import Delivery
from client_compat.share_crash.run import ShareCrashRun, judge, share_crash

KILLS = 5
SEED = 20_261_124
FIRST, SECOND, THIRD = (0, 1), (0, 2), (0, 3)


def test_after_sigkills_no_accepted_record_is_delivered_again_and_none_is_lost(tmp_path: Path) -> None:
    directory = tmp_path / "crash"
    directory.mkdir()
    run = share_crash(directory, KILLS, SEED, on_kill=lambda _: None)
    assert run.kills == KILLS
    assert run.good, run


def test_the_verdict_names_lost_records_and_those_delivered_after_their_acceptance() -> None:
    run = ShareCrashRun(seed=0)
    deliveries = [
        Delivery(FIRST, sent=1.0, accepts=True, accepted=2.0),
        Delivery(FIRST, sent=1.5, accepts=True),
        Delivery(SECOND, sent=1.0, accepts=True, accepted=2.0),
        Delivery(SECOND, sent=3.0, accepts=False),
        Delivery(THIRD, sent=1.0, accepts=False),
    ]
    judge(run, {FIRST, SECOND, THIRD}, deliveries)
    assert (run.lost, run.again, run.good) == ([THIRD], [SECOND], False)


def test_a_record_whose_acceptance_was_not_answered_is_not_lost() -> None:
    run = ShareCrashRun(seed=0)
    judge(run, {FIRST, SECOND}, [Delivery(FIRST, 1.0, accepts=True), Delivery(SECOND, 1.0, accepts=True, accepted=2.0)])
    assert run.good
