"""The short form of `make fuzz`: ten seconds of attack on a live broker with well-behaved clients beside it."""

from __future__ import annotations

from pathlib import Path

from client_compat.fuzz.run import MEBIBYTE, FuzzRun, fuzz

SECONDS = 10
SEED = 4_242


def test_attacks_harm_neither_the_broker_nor_its_good_clients(tmp_path: Path) -> None:
    run = FuzzRun(SEED, rss_limit=512 * MEBIBYTE, wait_limit_s=5.0)
    fuzz(tmp_path / "fuzz", SECONDS, run, on_look=lambda _: None)
    assert run.counts["frames"] > 100
    assert run.good, run
