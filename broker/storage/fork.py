"""Copies a data directory of Ottla or Apache Kafka to a new data directory (a fork), also while a broker uses the original.

Invariants:
- The original is only read. Both directories share the bytes of closed segments: by reflinks where the file system has them, otherwise by
  hard links, which Ottla never writes through (`Files.break_hard_links`). All other files are copied.
- A copy of a directory in use is like the directory after a crash of its broker. Checkpoints are read first, because a log may
  have more records than its checkpoint says, but not fewer. Then the size of all logs is taken at (nearly) one moment, and bytes appended
  later are not copied.
- The copy is consistent: it has the metadata and the transaction state that its records depend on. The metadata log and the transaction
  log (DEPENDED_ON_LOGS) must have the same length before and after the other logs are measured; otherwise all are measured again.
- The new directory gets its name when it is complete.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from ottla.broker.storage.copying import copy_file
from ottla.broker.storage.dir_lock import LOCK_FILE
from ottla.broker.storage.dir_names import FUTURE_SUFFIX, STRAY_SUFFIX, parse_partition_dir
from ottla.broker.storage.log_dir import CLEAN_SHUTDOWN
from ottla.broker.storage.meta_properties import FILE_NAME as META_PROPERTIES

DEPENDED_ON_LOGS: Final = ("__cluster_metadata-", "__transaction_state-")
"""Name prefixes of the logs on which the records of other logs depend: the metadata log says which topics exist, the transaction log which
transactions are open."""
MEASURED_FIRST: Final = ("__consumer_offsets-", "__share_group_state-")
"""Name prefixes of the logs whose records have offsets of other logs. They are measured before those logs, so that no offset in the copy is
beyond the end of its log."""
SETTLE_S: Final = 2.0
"""The maximum time in seconds that is spent on measuring the logs again, because the metadata log or the transaction log has changed
meanwhile. Even under load, milliseconds are enough."""
ATTEMPTS: Final = 5
"""The maximum number of attempts to copy a data directory. An attempt fails if a file is removed meanwhile."""
_DELETED: Final = ".deleted"


class ForkRefused(Exception):
    """Raised when a data directory cannot be forked (copied); the message says why and what to do."""


@dataclass(slots=True)
class ForkReport:
    """The result of a fork, a copy of a data directory: the numbers and sizes of its files. `linked` files share their bytes with the
    original by hard links, `cloned` ones by reflinks, `copied` ones share none."""

    source: Path
    target: Path
    nodes: int = 0
    partitions: int = 0
    linked: int = 0
    linked_bytes: int = 0
    cloned: int = 0
    cloned_bytes: int = 0
    copied: int = 0
    copied_bytes: int = 0
    clean: bool = False
    """Whether the original had been shut down cleanly and was not in use."""
    consistent: bool = True
    """Whether no transaction and no topic changed while the lengths of all logs were taken."""
    seconds: float = 0.0


@dataclass(slots=True)
class _Partition:
    """A partition's directory that is to be copied: the inode and size (bytes) of each of its files, except those with the suffix
    `.deleted`."""

    path: Path
    files: dict[str, tuple[int, int]] = field(default_factory=dict)
    active: str = ""
    """The name of the newest segment."""
    measured_bytes: int = 0
    """The size in bytes to which the active segment is copied."""

    def list_files(self) -> None:
        """List the directory's files, and find the active (newest) segment and its size in bytes. `active` is empty if there are no
        segments.
        """
        self.files = {}
        with os.scandir(self.path) as entries:
            for entry in entries:
                if entry.is_file(follow_symlinks=False) and not entry.name.endswith(_DELETED):
                    found = entry.stat(follow_symlinks=False)
                    self.files[entry.name] = found.st_ino, found.st_size
        self.active = max((name for name in self.files if name.endswith(".log")), default="")
        self.measure()

    def measure(self) -> int:
        """Set `measured_bytes` to the active segment's present size in bytes, and return it."""
        self.measured_bytes = self.active_size()
        return self.measured_bytes

    def active_size(self) -> int:
        """Return the active segment's present size in bytes, 0 without one."""
        return (self.path / self.active).stat().st_size if self.active else 0

    def segments(self) -> dict[str, int]:
        """Return the inode of each `.log` file, including the `.swap` files of a compaction that is replacing segments."""
        return {name: inode for name, (inode, _) in self.files.items() if ".log" in name and not name.endswith(".cleaned")}


@dataclass(slots=True)
class _Node:
    """The data directory of one node, as it was found before it is copied."""

    path: Path
    small: dict[str, bytes]
    """The contents, by file name, of the checkpoints and meta.properties, which lie beside the partitions' directories."""
    marker: tuple[int, int] | None
    """Inode and modification time (ns) of the clean-shutdown marker, None without one."""
    partitions: list[_Partition]


def node_directories(directory: Path) -> list[Path]:
    """Return the nodes' directories: `directory` itself if it has a meta.properties, otherwise its subdirectories that have one.

    Raises ForkRefused if there are none.
    """
    if (directory / META_PROPERTIES).is_file():
        return [directory]
    if not directory.is_dir():
        raise ForkRefused(f"{directory} is not a directory")
    found = sorted(child for child in directory.iterdir() if (child / META_PROPERTIES).is_file())
    if not found:
        raise ForkRefused(f"{directory} is no data directory: neither it nor a directory in it has the file {META_PROPERTIES}")
    return found


def fork(source: Path, target: Path, *, links: bool = True, finish: Callable[[Path], object] = lambda _: None) -> ForkReport:
    """Copy a data directory of one node, or of several (`ottla serve --brokers 3`), to `target`, which must not exist.

    Pass `links=False`, which makes no hard links, for a copy that Apache Kafka will use: Kafka truncates closed segments in place, which
    would change the original. `finish` is called with the path of the complete copy, before that is renamed to `target`. Raises ForkRefused
    if `source` is not a data directory, if `target` exists or lies inside it, or if a file cannot be copied.
    """
    began = time.monotonic()
    source, target = source.absolute(), target.absolute()
    directories = node_directories(source)
    if os.path.lexists(target):
        raise ForkRefused(f"{target} exists already: give the copy a new name")
    if target.resolve().is_relative_to(source.resolve()):
        raise ForkRefused(f"{target} is inside {source}: put the copy beside it")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        partial = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    except OSError as error:
        raise ForkRefused(f"{target} cannot be created: {error.strerror}") from error
    try:
        report = _copied(source, directories, partial, links=links)
        finish(partial)
        partial.chmod(source.stat().st_mode & 0o777)
        partial.rename(target)
    except OSError as error:
        raise ForkRefused(f"{source} cannot be copied: {error}") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    report.target, report.seconds = target, time.monotonic() - began
    return report


def _copied(source: Path, directories: list[Path], partial: Path, *, links: bool) -> ForkReport:
    if _has_reflinks(directories[0], partial):
        links = False
    else:
        _check_space(directories, partial, links=links)
    for attempt in range(1, ATTEMPTS + 1):
        report = ForkReport(source, partial, nodes=len(directories))
        try:
            nodes = [_surveyed(directory) for directory in directories]
            report.consistent = _measure_logs(nodes)
            for node in nodes:
                _copy_node(node, partial / node.path.relative_to(source), report, links=links)
        except FileNotFoundError as error:  # retention, compaction or a deleted topic
            shutil.rmtree(partial)
            partial.mkdir(mode=0o700)
            if attempt == ATTEMPTS:
                raise ForkRefused(f"{source} changes too fast: {error.filename} was removed while it was copied; try again") from error
            continue
        markers = [_copy_marker(node, partial / node.path.relative_to(source)) for node in nodes]
        report.clean = all(markers)
        return report
    raise AssertionError("the last attempt returns or raises")


# --- listing the files to copy ---------------------------------------------------------------------------------------------------------


def _surveyed(directory: Path) -> _Node:
    """List the partitions of a node's directory, and read its small files, before anything is copied."""
    marker, small = _identity(directory / CLEAN_SHUTDOWN), {}
    for entry in sorted(directory.iterdir()):
        if entry.name not in {LOCK_FILE, CLEAN_SHUTDOWN} and not entry.name.endswith(".tmp") and entry.is_file():
            with suppress(FileNotFoundError):  # removed at this moment
                small[entry.name] = entry.read_bytes()
    return _Node(directory, small, marker, _partitions(directory))


def _partitions(directory: Path) -> list[_Partition]:
    """Return the partitions in a node's directory: live, stray and future ones, but not deleted ones."""
    found = sorted(
        entry for entry in directory.iterdir() if parse_partition_dir(entry.name) or entry.name.endswith((STRAY_SUFFIX, FUTURE_SUFFIX))
    )
    return [_Partition(entry) for entry in found if entry.is_dir()]


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_mtime_ns


def _measure_logs(nodes: list[_Node]) -> bool:
    """Measure the size of each log, up to which it will be copied; repeat this until the metadata and transaction logs have not changed
    meanwhile. Return False if they still changed after SETTLE_S: the copy may be inconsistent.
    """
    for partition in (partition for node in nodes for partition in node.partitions):
        partition.list_files()
    deadline = time.monotonic() + SETTLE_S
    while True:
        partitions = [partition for node in nodes for partition in node.partitions]
        depended_on = [partition for partition in partitions if partition.path.name.startswith(DEPENDED_ON_LOGS)]
        others = [partition for partition in partitions if not partition.path.name.startswith(DEPENDED_ON_LOGS)]
        before = [partition.measure() for partition in depended_on]
        for partition in sorted(others, key=lambda partition: not partition.path.name.startswith(MEASURED_FIRST)):
            partition.measure()
        after = [partition.active_size() for partition in depended_on]
        changed = [_list_again(node) for node in nodes]  # a list, because `any` would stop at the first changed node
        if before == after and not any(changed):
            return True
        if time.monotonic() > deadline:
            return False


def _list_again(node: _Node) -> bool:
    """List the node's partitions and files again. Return whether a partition or segment was added, removed or replaced since the last
    listing. An unchanged partition keeps its measured size."""
    known = {partition.path: partition for partition in node.partitions}
    node.partitions = [known.get(partition.path, partition) for partition in _partitions(node.path)]
    changed = known.keys() != {partition.path for partition in node.partitions}
    for partition in node.partitions:
        before, measured_bytes = partition.segments(), partition.measured_bytes
        partition.list_files()
        if partition.segments() == before:
            partition.measured_bytes = measured_bytes
        else:
            changed = True
    return changed


def _check_space(directories: list[Path], target: Path, *, links: bool) -> None:
    needed = 0
    for partition in (partition for directory in directories for partition in _partitions(directory)):
        partition.list_files()
        for name in partition.files:
            if not links or not _is_closed(partition, name):
                with suppress(FileNotFoundError):
                    needed += _used_bytes(partition.path / name)
    free = shutil.disk_usage(target).free
    if needed > free:
        raise ForkRefused(f"{target.parent} has {free / 1e6:,.0f} MB of free space, and the copy needs {needed / 1e6:,.0f} MB")


def _used_bytes(path: Path) -> int:
    found = path.stat()
    return min(found.st_size, found.st_blocks * 512) if hasattr(found, "st_blocks") else found.st_size


def _has_reflinks(directory: Path, target: Path) -> bool:
    """Return whether files of `directory` can be copied to `target` as reflinks, which share the bytes on disk until one of them is
    written."""
    trial = target / META_PROPERTIES
    try:
        return copy_file(directory / META_PROPERTIES, trial)
    finally:
        trial.unlink(missing_ok=True)


def _is_closed(partition: _Partition, name: str) -> bool:
    return name.endswith(".log") and name != partition.active


# --- copying ---------------------------------------------------------------------------------------------------------------------------


def _copy_node(node: _Node, target: Path, report: ForkReport, *, links: bool) -> None:
    target.mkdir(parents=True, exist_ok=True)
    for name, content in node.small.items():
        (target / name).write_bytes(content)
    report.partitions += len(node.partitions)
    for partition in node.partitions:
        directory = target / partition.path.name
        directory.mkdir()
        for name in _in_order(partition):
            _copy(partition, name, directory / name, report, links=links)


def _in_order(partition: _Partition) -> Iterator[str]:
    """Yield the names of the partition's files in the order of copying, `.log` files last: an index or snapshot may cover less than the
    log, but not more.
    """
    yield from sorted(partition.files, key=lambda name: (".log" in name, name))


def _copy(partition: _Partition, name: str, target: Path, report: ForkReport, *, links: bool) -> None:
    source = partition.path / name
    size = partition.measured_bytes if name == partition.active else None
    if links and _is_closed(partition, name) and _link(partition, name, target):
        report.linked += 1
        report.linked_bytes += partition.files[name][1]
        return
    used = _used_bytes(source)
    if copy_file(source, target, size):
        report.cloned += 1
        report.cloned_bytes += used
    else:
        report.copied += 1
        report.copied_bytes += used


def _link(partition: _Partition, name: str, target: Path) -> bool:
    """Make a hard link to a closed segment in the directory `target`. Return False if the system refuses: `target` is on another file
    system, or another user owns the file. Raises FileNotFoundError if the segment was removed."""
    try:
        os.link(partition.path / name, target)
    except FileNotFoundError:
        raise
    except OSError:
        return False
    return True


def _copy_marker(node: _Node, target: Path) -> bool:
    """Copy the clean-shutdown marker if it existed unchanged during the whole copy, and return whether it did. If so, no broker was
    running, because a broker removes the marker at its start, before it changes anything."""
    if node.marker is None or _identity(node.path / CLEAN_SHUTDOWN) != node.marker:
        return False
    shutil.copy2(node.path / CLEAN_SHUTDOWN, target / CLEAN_SHUTDOWN)
    return True
