"""The short form of `make crash`: SIGKILLs under idempotent load from two real clients."""

from __future__ import annotations

from pathlib import Path

from client_compat.crash.run import crash

KILLS = 5
SEED = 20_130_101


def test_every_acknowledged_value_is_once_at_its_offset_after_sigkills(tmp_path: Path) -> None:
    run = crash(tmp_path, KILLS, SEED)
    assert run.kills.done >= KILLS
    assert run.kills.while_starting >= 1
    assert run.good, run.verdict
