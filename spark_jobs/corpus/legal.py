"""Unusual but legal logs, as compaction, retention, expiry, old formats and exhausted epochs leave them. They have no violations."""

from __future__ import annotations

from pathlib import Path

from ottla.protocol.records.batch import DELETE_HORIZON, HEADER_BYTES, LOG_APPEND_TIME
from ottla.protocol.records.compression import Codec
from ottla.protocol.records.control import end_txn_marker
from ottla.protocol.records.record import DECOMPRESSED_MAX_BYTES, SimpleRecord, build_batch
from ottla.spark_jobs.corpus.case import Case
from ottla.spark_jobs.corpus.writer import T0, PartitionWriter, checkpoint, cleaned, numbered, old_message, reheaded
from ottla.spark_jobs.segment_reader import RECORDS_MAX

DAY_MS = 86_400_000
EPOCH_MAX = 32_767


def any_sequence_after_a_long_silence(root: Path) -> None:
    log = PartitionWriter(root, "t", 0)
    log.data(5, pid=1, epoch=2, seq=0)
    log.data(5, pid=1, epoch=2, seq=50, at=T0 + DAY_MS)
    log.data(5, pid=1, epoch=0, seq=3, at=T0 + 3 * DAY_MS)


def markers_of_unknown_producers(root: Path) -> None:
    log = PartitionWriter(root, "t", 0)
    log.marker(7, epoch=3, committed=False)
    log.data(5, pid=1, seq=0)
    log.marker(8, epoch=0, committed=False)
    log.marker(7, epoch=4, committed=False)


def emptied_markers(root: Path) -> None:
    log = PartitionWriter(root, "t", 0)
    for committed in (True, False):
        marker = end_txn_marker(committed=committed, producer_id=1, producer_epoch=1, coordinator_epoch=0, timestamp=T0)
        log.batch(reheaded(marker[:HEADER_BYTES], record_count=0))
    log.data(5, pid=2, seq=40)
    checkpoint(root, "cleaner-offset-checkpoint", [("t", 0, 2)])


def delete_horizons(root: Path) -> None:
    log = PartitionWriter(root, "t", 0)
    plain = build_batch(numbered(3))
    horizon = reheaded(plain, attributes=DELETE_HORIZON, base_timestamp=T0 + DAY_MS, max_timestamp=T0 + DAY_MS)
    log.batch(horizon)
    log.data(5, offset=20)
    checkpoint(root, "cleaner-offset-checkpoint", [("t", 0, 20)])


def old_formats(root: Path) -> None:
    log = PartitionWriter(root, "t", 0)
    for offset in range(3):
        log.raw(old_message(offset, b"ok"))
    log.next_offset = 3
    log.data(5, pid=1, seq=0)


def old_formats_compressed(root: Path) -> None:
    log = PartitionWriter(root, "t", 0)
    for last_offset in (9, 19, 29):  # a compressed message has the offset of its last inner message
        log.raw(old_message(last_offset, b"gz", attributes=1))
    log.next_offset = 30
    log.data(5, pid=1, seq=0)


def compacted_where_no_checkpoint_says_so(root: Path) -> None:
    log = PartitionWriter(root, "t", 0)
    log.data(5, pid=1, seq=0)
    log.batch(cleaned(build_batch(numbered(5), producer_id=1, producer_epoch=0, base_sequence=5), 0, 3))
    log.data(5, pid=1, seq=30, offset=30)


def sequences_far_apart_behind_compaction(root: Path) -> None:
    removed = 1_500_000_000
    for partition, first in enumerate((0, 1_000_000_000)):  # the second producer's sequences wrap among the removed ones
        log = PartitionWriter(root, "t", partition)
        log.data(5, pid=1, seq=first)
        log.data(5, pid=1, seq=(first + removed) % 2**31, offset=removed)
        log.data(5, pid=1, seq=(first + removed + 5) % 2**31)
    checkpoint(root, "cleaner-offset-checkpoint", [("t", 0, removed), ("t", 1, removed)])


def times_of_no_calendar(root: Path) -> None:
    log = PartitionWriter(root, "t", 0)
    log.data(1, pid=1, seq=0, at=-1)
    log.data(1, pid=1, seq=1, at=2**63 - 1)
    log.data(1, pid=2, seq=0, at=-1, transactional=True)
    log.marker(2, epoch=1)
    log.data(rows=["same"], pid=3, seq=0, at=-1)
    log.data(1, pid=3, seq=1, at=T0 * 1_000_000)
    for at in (-(2**63), 2**63 - 1):
        log.batch(reheaded(build_batch([SimpleRecord(b"k", b"{}", T0)]), attributes=LOG_APPEND_TIME, max_timestamp=at))


def too_large_to_open(root: Path) -> None:
    log = PartitionWriter(root, "t", 0)
    log.batch(build_batch([SimpleRecord(b"k", bytes(DECOMPRESSED_MAX_BYTES), T0)], codec=Codec.ZSTD))
    log.data(5)


def too_many_records_to_open(root: Path) -> None:
    log = PartitionWriter(root, "t", 0)
    log.batch(reheaded(build_batch(numbered(1), codec=Codec.ZSTD), record_count=RECORDS_MAX + 1, last_offset_delta=RECORDS_MAX))
    log.data(5)


def exhausted_epochs(root: Path) -> None:
    log = PartitionWriter(root, "t", 0)
    log.data(5, pid=1, epoch=EPOCH_MAX - 1, seq=0, transactional=True)
    log.marker(1, epoch=EPOCH_MAX)
    log.data(5, pid=2, epoch=0, seq=0, transactional=True)
    log.marker(2, epoch=1)


def fenced_by_a_new_instance(root: Path) -> None:
    log = PartitionWriter(root, "t", 0)
    log.data(5, pid=1, epoch=0, seq=0, transactional=True)
    log.marker(1, epoch=1, committed=False)
    log.data(5, pid=1, epoch=2, seq=0, transactional=True)
    log.marker(1, epoch=2)
    log.data(5, pid=1, epoch=2, seq=5, transactional=True)
    log.marker(1, epoch=2, committed=False)


def segments_of_a_retained_tail(root: Path) -> None:
    log = PartitionWriter(root, "t", 0, start=1000)
    log.data(5, pid=1, epoch=0, seq=35, leader_epoch=4)
    log.roll()
    log.data(5, pid=1, epoch=0, seq=40, leader_epoch=4)
    checkpoint(root, "log-start-offset-checkpoint", [("t", 0, 1002)])


def empty_partitions(root: Path) -> None:
    PartitionWriter(root, "t", 0)
    PartitionWriter(root, "t", 1, start=77)
    PartitionWriter(root, "u", 0).data(1)


LEGAL: dict[str, Case] = {
    "any_sequence_after_a_long_silence": Case(any_sequence_after_a_long_silence, []),
    "markers_of_unknown_producers": Case(markers_of_unknown_producers, []),
    "emptied_markers": Case(emptied_markers, []),
    "delete_horizons": Case(delete_horizons, [("offsets", "info", "offset gap", "t-0@20")]),
    "old_formats": Case(old_formats, []),
    "old_formats_compressed": Case(old_formats_compressed, []),
    "compacted_where_no_checkpoint_says_so": Case(compacted_where_no_checkpoint_says_so, [("offsets", "info", "offset gap", "t-0@30")]),
    "sequences_far_apart_behind_compaction": Case(
        sequences_far_apart_behind_compaction,
        [("offsets", "info", "offset gap", "t-0@1500000000"), ("offsets", "info", "offset gap", "t-1@1500000000")],
    ),
    "times_of_no_calendar": Case(times_of_no_calendar, []),
    "too_large_to_open": Case(too_large_to_open, [("counts", "warning", "records not opened", "t-0@0")]),
    "too_many_records_to_open": Case(too_many_records_to_open, [("counts", "warning", "records not opened", "t-0@0")]),
    "exhausted_epochs": Case(exhausted_epochs, []),
    "fenced_by_a_new_instance": Case(fenced_by_a_new_instance, []),
    "segments_of_a_retained_tail": Case(segments_of_a_retained_tail, []),
    "empty_partitions": Case(empty_partitions, []),
}
