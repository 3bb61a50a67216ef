"""Power loss of the disk in memory; tests/unit/broker/storage/test_files.py tests every kind of files alike."""

from __future__ import annotations

from pathlib import Path
from random import Random

from ottla.broker.sim.memory_files import MemoryFiles

FILE = Path("/d/f")


def after_a_power_loss(seed: int) -> bytes:
    """Write four bytes, sync, write four more; return the file's content after a power loss."""
    files = MemoryFiles()
    files.make_dir(FILE.parent)
    fd = files.open(FILE)
    files.pwrite(fd, [b"sync"], 0)
    files.fsync(fd)
    files.sync_dir(FILE.parent)
    files.pwrite(fd, [b"lost"], 4)
    files.power_loss(Random(seed))
    return files.read_bytes(FILE)


def test_power_loss_keeps_synced_bytes_and_any_prefix_or_zeros_of_the_rest() -> None:
    left = {after_a_power_loss(seed) for seed in range(200)}
    assert {b"sync", b"synclost", b"synclo", b"sync\0\0\0\0"} <= left
    assert all(each.startswith(b"sync") and b"synclost\0".startswith(each.rstrip(b"\0")) for each in left)


def test_power_loss_may_remove_a_name_whose_directory_was_not_synced() -> None:
    def is_there(seed: int) -> bool:
        files = MemoryFiles()
        files.make_dir(FILE.parent)
        files.write(FILE, b"x", sync=True)
        files.power_loss(Random(seed))
        return files.exists(FILE)

    assert {is_there(seed) for seed in range(20)} == {True, False}
