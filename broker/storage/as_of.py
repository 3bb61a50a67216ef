"""Truncates the logs in a copy of a data directory to their state at an earlier moment.

Invariants:
- A log keeps the batches before the first one whose newest record is later than the moment. The time of a record is its timestamp, which
  the producer sets in topics with CreateTime, and the broker in internal topics and in the metadata log.
- The metadata log is truncated, too, so topics, settings, ACLs and users are those of the moment. A moment before its oldest record is
  refused.
- Records that retention, compaction or a deletion removed after the moment are not restored.
- The copy has the state of a data directory after a clean shutdown.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple

from ottla.broker.cluster.snapshots import SnapshotId
from ottla.broker.cluster.topic_names import CLUSTER_METADATA
from ottla.broker.core.settings import BrokerSettings
from ottla.broker.storage.files import FILES, Files
from ottla.broker.storage.fork import ForkRefused
from ottla.broker.storage.log_dir import Key, LogDir
from ottla.broker.storage.meta_properties import FILE_NAME as META_PROPERTIES
from ottla.broker.storage.meta_properties import decode_meta
from ottla.broker.storage.partition_log import PartitionLog

_METADATA: Final[Key] = (CLUSTER_METADATA, 0)


class AtOffset(NamedTuple):
    """A moment given as an offset: the moment at which the end offset of one partition's log became `offset`."""

    topic: str
    partition: int
    offset: int


def truncate_at_moment(directory: Path, moment: int | AtOffset, now_ms: int, *, files: Files = FILES) -> int:
    """Truncate all logs in one node's directory to their state at `moment`: a Unix time in ms, or the end offset of one log. Return the
    moment in ms.

    No broker may be using the directory. Raises ForkRefused if the moment is in the future, or if the directory has no data of that moment,
    and LogDirRefused, OSError or RecordsError if the directory cannot be opened or read.
    """
    meta = decode_meta((directory / META_PROPERTIES).read_bytes())
    log_dir = LogDir.open(directory, BrokerSettings(node_id=meta.node_id), now_ms, files=files)
    try:
        named = None
        if isinstance(moment, AtOffset):
            named = log = _log_at(log_dir, moment)
            moment_ms = min(_time_before(log, moment.offset), now_ms)
            _truncate_log(log, moment.offset, now_ms)
        elif moment > now_ms:
            raise ForkRefused("the moment is in the future")
        else:
            moment_ms = moment
        _truncate_metadata_log(log_dir, moment_ms, now_ms)
        for log in list(log_dir.logs.values()):
            if log is not named:  # already truncated by offset; by time it might lose more, because its timestamps need not increase
                _truncate_log(log, first_later(log, moment_ms), now_ms)
    except BaseException:
        log_dir.close(clean=False)
        raise
    log_dir.close(clean=True)
    return moment_ms


def first_later(log: PartitionLog, moment_ms: int) -> int:
    """Return the base offset of the first batch whose maximum timestamp is greater than `moment_ms`; the log's end if there is none."""
    for segment in log.segments:
        if segment.max_timestamp > moment_ms:
            start = segment.offset_index.lookup(segment.time_index.lookup(moment_ms + 1))
            for _, header in segment.batches(start):
                if header.max_timestamp > moment_ms:
                    return header.base_offset
    return log.log_end_offset


def _log_at(log_dir: LogDir, at: AtOffset) -> PartitionLog:
    log = log_dir.logs.get((at.topic, at.partition))
    if log is None:
        raise ForkRefused(f"{log_dir.path} has no partition {at.partition} of a topic {at.topic}")
    if not log.log_start_offset <= at.offset <= log.log_end_offset:
        raise ForkRefused(f"{at.topic}-{at.partition} has the offsets from {log.log_start_offset} to {log.log_end_offset}, not {at.offset}")
    return log


def _time_before(log: PartitionLog, offset: int) -> int:
    """Return the maximum timestamp (ms) of the batch that has the record before `offset`.

    If no batch begins before `offset`, return 1 ms less than the first batch's timestamp. Raises ForkRefused if the log has no records.
    """
    wanted = max(offset - 1, log.log_start_offset)
    for segment in log.segments.from_offset(wanted):
        if (found := segment.find(wanted)) is not None:
            _, header = found
            return header.max_timestamp if header.base_offset < offset else header.max_timestamp - 1
    raise ForkRefused(f"{log.topic}-{log.partition} has no records, which would tell the time")


def _truncate_log(log: PartitionLog, offset: int, now_ms: int) -> None:
    if offset < log.log_end_offset:
        log.truncate_to(offset, now_ms)


def _truncate_metadata_log(log_dir: LogDir, moment_ms: int, now_ms: int) -> None:
    """Truncate the metadata log at the moment (Unix time in ms), and remove the snapshots beyond its new end. Raises ForkRefused if the log
    begins after the moment."""
    log = log_dir.logs.get(_METADATA)
    if log is None:  # only partitions were copied here: the broker's start creates topics for them
        return
    end = first_later(log, moment_ms)
    if end <= log.log_start_offset:
        first = next((header for segment in log.segments for _, header in segment.batches()), None)
        raise ForkRefused(
            f"the metadata of that moment ({text_of(moment_ms)}) was removed, or is older than the node"
            + ("" if first is None else f": the oldest is of {text_of(first.max_timestamp)}")
        )
    _truncate_log(log, end, now_ms)
    for path in log.directory.glob("*.checkpoint"):
        found = SnapshotId.of_file(path.name)
        if found is not None and found.end_offset > log.log_end_offset:
            path.unlink()


def text_of(moment_ms: int) -> str:
    """Return a Unix time in ms as ISO 8601 in UTC."""
    return datetime.fromtimestamp(moment_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
