from __future__ import annotations

import fcntl
from pathlib import Path

import pytest

from client_compat.support.locks import locked


def test_lock_is_exclusive_while_held_and_free_afterwards(tmp_path: Path) -> None:
    path = tmp_path / "made" / "lock"
    with locked(path), path.open("w") as other, pytest.raises(BlockingIOError):
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    with path.open("w") as other:
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
