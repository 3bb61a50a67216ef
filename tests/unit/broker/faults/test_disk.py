from __future__ import annotations

import errno
from pathlib import Path

import pytest

from ottla.broker.faults.disk import FillableFiles
from ottla.broker.faults.engine import Faults
from ottla.broker.faults.rules import parse_rule
from ottla.broker.sim.memory_files import MemoryFiles


def test_disk_full_rule_fills_only_the_named_logs_for_the_given_times(tmp_path: Path) -> None:
    faults = Faults()
    files = FillableFiles(faults)
    files.apply_rules()
    for name in ("a-0", "b-0"):
        (tmp_path / name).mkdir()
    full, other = (files.open(tmp_path / name / "00000000000000000000.log") for name in ("a-0", "b-0"))
    index = files.open(tmp_path / "a-0" / "00000000000000000000.index")
    faults.add(parse_rule("disk-full:topic=a,times=1"))
    with pytest.raises(OSError, match="No space left") as raised:
        files.pwrite(full, [b"x"], 0)
    assert raised.value.errno == errno.ENOSPC
    for fd in (full, other, index):
        files.pwrite(fd, [b"x"], 0)
        files.close(fd)
    assert (tmp_path / "a-0" / "00000000000000000000.log").read_bytes() == b"x"


def test_writes_are_unwrapped_without_a_disk_full_rule() -> None:
    faults = Faults()
    files = FillableFiles(faults)
    files.apply_rules()
    plain = files.pwrite
    faults.add(parse_rule("disk-full:name=f"))
    assert files.pwrite != plain
    faults.remove("f")
    assert files.pwrite == plain


def test_disk_full_rule_works_on_any_files_and_an_in_memory_disk_touches_no_real_file(tmp_path: Path) -> None:
    faults, below = Faults(), MemoryFiles()
    files = FillableFiles(faults, below)
    files.apply_rules()
    files.make_dir(tmp_path / "a-0")
    log = tmp_path / "a-0" / "00000000000000000000.log"
    full = files.open(log)
    files.pwrite(full, [b"x"], 0)
    files.write_atomic(tmp_path / "a-0" / "checkpoint", b"y")
    faults.add(parse_rule("disk-full:topic=a"))
    with pytest.raises(OSError, match="No space left"):
        files.pwrite(full, [b"z"], 1)
    assert (below.read_bytes(log), files.read_bytes(tmp_path / "a-0" / "checkpoint")) == (b"x", b"y")
    assert not (tmp_path / "a-0").exists()
