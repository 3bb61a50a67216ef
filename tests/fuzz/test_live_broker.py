"""The short form of `make fuzz`: a few seconds of attack on a live broker, open and locked, with well-behaved clients beside it."""

from __future__ import annotations

from pathlib import Path

from client_compat.fuzz.run import MEBIBYTE, FuzzRun, fuzz

SECONDS = 8
SEED = 4_242


def test_attacks_harm_neither_the_broker_nor_its_good_clients(tmp_path: Path) -> None:
    run = FuzzRun(SEED, rss_limit=512 * MEBIBYTE, wait_limit_s=5.0)
    fuzz(tmp_path / "fuzz", SECONDS, run, on_look=lambda _: None)
    assert run.counts["frames"] > 100
    assert run.good, run


def test_attacks_on_a_locked_broker_let_nobody_in_and_leave_nothing(tmp_path: Path) -> None:
    run = FuzzRun(SEED, locked=True, failed_logins=500, rss_limit=512 * MEBIBYTE, wait_limit_s=5.0)
    fuzz(tmp_path / "fuzz", SECONDS, run, on_look=lambda _: None)
    assert run.counts["failed log-ins"] > 500
    assert run.counts["log-ins: token"] > 10
    assert run.counts["frames of a guest"] > 10
    assert run.good, run
