"""The short form of `make crash`: SIGKILLs under idempotent load from two real clients."""

from __future__ import annotations

from pathlib import Path

from client_compat.crash.run import crash
from client_compat.support.verdict import AckVerdict

KILLS = 5
SEED = 20_130_101


def test_after_sigkills_every_acknowledged_value_stands_once_at_its_offset(tmp_path: Path) -> None:
    run = crash(tmp_path / "crash", KILLS, SEED, on_kill=lambda _: None)
    assert run.kills >= KILLS
    assert run.kills_while_starting >= 1
    assert run.verdict.good, run.verdict


def test_a_verdict_without_a_single_acknowledgement_is_not_good() -> None:
    assert not AckVerdict().good
    assert AckVerdict(acked=1).good
    assert not AckVerdict(acked=1, doubled=1).good
