"""Logs with index files and producer snapshots in which one entry is wrong."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from ottla.protocol.producer_snapshot import COUNT, ENTRY, HEAD, VERSION
from ottla.protocol.records.batch import split_batches
from ottla.protocol.records.control import parse_marker
from ottla.protocol.records.crc32c import crc32c
from ottla.spark_jobs.corpus.case import Case
from ottla.spark_jobs.corpus.writer import T0, PartitionWriter, checkpoint

DAY_MS = 86_400_000
OFFSET_ENTRY = struct.Struct(">ii")
TIME_ENTRY = struct.Struct(">qi")
ABORTED_ENTRY = struct.Struct(">hqqqq")


@dataclass
class Producer:
    """The state of one producer, as an entry of a producer snapshot. `open_from`: the first offset of its open transaction, -1 if none is
    open."""

    epoch: int
    last_sequence: int
    last_offset: int
    open_from: int = -1


@dataclass
class SideFiles:
    """The contents of the files beside one segment. `index`: (offset, position) of the offset index; `times`: (timestamp, offset) of the
    time index; `aborted`: (producer id, first offset, marker's offset) of the transaction index; `epochs`: (leader epoch, start offset) of
    the leader epoch checkpoint; `junk`: bytes to append after the offset index."""

    index: list[tuple[int, int]] = field(default_factory=list)
    times: list[tuple[int, int]] = field(default_factory=list)
    aborted: list[tuple[int, int, int]] = field(default_factory=list)
    epochs: list[tuple[int, int]] = field(default_factory=list)
    producers: dict[int, Producer] = field(default_factory=dict)
    junk: bytes = b""
    snapshot_junk: bytes = b""

    def write(self, segment: Path, end_offset: int) -> None:
        """Write all side files of the segment, including the producer snapshot `<end_offset>.snapshot`."""
        base = int(segment.stem)
        offsets = b"".join(OFFSET_ENTRY.pack(offset - base, position) for offset, position in self.index)
        segment.with_suffix(".index").write_bytes(offsets + self.junk)
        segment.with_suffix(".timeindex").write_bytes(b"".join(TIME_ENTRY.pack(at, offset - base) for at, offset in self.times))
        if self.aborted:
            entries = [ABORTED_ENTRY.pack(0, pid, first, last, last + 1) for pid, first, last in self.aborted]
            segment.with_suffix(".txnindex").write_bytes(b"".join(entries))
        lines = [f"{epoch} {start}" for epoch, start in self.epochs]
        (segment.parent / "leader-epoch-checkpoint").write_text("\n".join(["0", str(len(lines)), *lines]) + "\n")
        body = COUNT.pack(len(self.producers)) + b"".join(
            ENTRY.pack(pid, one.epoch, one.last_sequence, one.last_offset, 0, T0, 0, one.open_from) for pid, one in self.producers.items()
        )
        content = HEAD.pack(VERSION, crc32c(body)) + body + self.snapshot_junk
        (segment.parent / f"{end_offset:020d}.snapshot").write_bytes(content)


def describe(segment: Path) -> tuple[SideFiles, int]:
    """Return the side files (indexes, leader epochs, producer states) that belong to a segment, and its end offset. They are derived from
    the segment's batches, so they are correct."""
    data = segment.read_bytes()
    side_files, end, latest = SideFiles(), int(segment.stem), -1
    open_from: dict[int, int] = {}
    for position, header in split_batches(data):
        if position:
            side_files.index.append((header.last_offset, position))
        if header.max_timestamp > latest:
            latest = header.max_timestamp
            side_files.times.append((latest, header.last_offset))
        if not side_files.epochs or header.partition_leader_epoch > side_files.epochs[-1][0]:
            side_files.epochs.append((header.partition_leader_epoch, header.base_offset))
        end = header.next_offset
        if header.producer_id < 0:
            continue
        if header.is_control:
            marker = parse_marker(data[position : position + header.size_bytes])
            first = open_from.pop(header.producer_id, None)
            if first is not None and marker.type is not None and marker.type.name == "ABORT":
                side_files.aborted.append((header.producer_id, first, header.base_offset))
            known = side_files.producers.get(header.producer_id)
            if known is not None:
                known.open_from = -1
            if known is None or known.epoch != header.producer_epoch:
                side_files.producers[header.producer_id] = Producer(header.producer_epoch, -1, -1)
        else:
            if header.is_transactional:
                open_from.setdefault(header.producer_id, header.base_offset)
            open_at = open_from.get(header.producer_id, -1)
            side_files.producers[header.producer_id] = Producer(header.producer_epoch, header.last_sequence, header.last_offset, open_at)
    return side_files, end


def case(change: Callable[[SideFiles], None], *, clean: bool = True, old: bool = False, swapped: str = "") -> Callable[[Path], None]:
    """Return a function that writes a log with all side files to a directory, and applies `change` to the side files of its first segment.

    `clean`: the broker was stopped cleanly. `old`: a second segment follows the first one. `swapped`: the side files with this suffix, such
    as `.txnindex`, are exchanged between the two segments; empty: none are.
    """

    def write(root: Path) -> None:
        log = PartitionWriter(root, "t", 0)
        log.data(5, pid=1, seq=0)
        log.data(5, pid=1, seq=5, at=T0 + 10)
        log.data(2, pid=2, epoch=0, seq=0, transactional=True)
        log.marker(2, epoch=1, committed=False)
        log.data(5, pid=1, seq=10, leader_epoch=1)
        log.data(5, pid=1, seq=15, leader_epoch=1)
        segments = [log.file]
        if old:
            log.roll()
            log.data(5, leader_epoch=1)
            segments.append(log.file)
        for at, segment in enumerate(segments):
            side_files, end = describe(segment)
            if at == 0:
                change(side_files)
                epochs = side_files.epochs
            side_files.epochs = epochs
            side_files.write(segment, end)
        if swapped:
            first, second = (segment.with_suffix(swapped) for segment in segments)
            first.rename(root / "first")
            if second.exists():
                second.rename(first)
            (root / "first").rename(second)
        if clean:
            (root / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":1}')

    return write


def nothing(_side_files: SideFiles) -> None:
    pass


def inside_a_batch(side_files: SideFiles) -> None:
    offset, position = side_files.index[1]
    side_files.index[1] = (offset, position + 7)


def at_the_next_batch(side_files: SideFiles) -> None:
    side_files.index[0] = (side_files.index[0][0], side_files.index[1][1])


def sparse(side_files: SideFiles) -> None:
    del side_files.index[1:3]
    del side_files.times[0]


def preallocated(side_files: SideFiles) -> None:
    side_files.junk = bytes(4096)


def cut_entry(side_files: SideFiles) -> None:
    side_files.junk = b"\1\2\3"


def time_too_early(side_files: SideFiles) -> None:
    side_files.times[-1] = (T0 + 3, side_files.times[-1][1])


def time_of_no_record(side_files: SideFiles) -> None:
    side_files.times[-1] = (T0 + DAY_MS, side_files.times[-1][1])


def times_in_no_order(side_files: SideFiles) -> None:
    side_files.times.reverse()


def aborted_beyond_the_log(side_files: SideFiles) -> None:
    side_files.aborted.append((2, 500, 510))


def aborted_forgotten(side_files: SideFiles) -> None:
    side_files.aborted.clear()
    side_files.aborted.append((7, 0, 4))


def aborted_from_too_late_on(side_files: SideFiles) -> None:
    pid, first, marker = side_files.aborted[0]
    side_files.aborted[0] = (pid, first + 1, marker)


def beyond_the_segment(side_files: SideFiles) -> None:
    side_files.index[-1] = (side_files.index[-1][0] + 100, side_files.index[-1][1])


def epoch_too_early(side_files: SideFiles) -> None:
    side_files.epochs[1] = (1, 10)


def other_sequence(side_files: SideFiles) -> None:
    side_files.producers[1].last_sequence = 14


def other_epoch(side_files: SideFiles) -> None:
    side_files.producers[2].epoch = 0


def other_last_offset(side_files: SideFiles) -> None:
    side_files.producers[1].last_offset = 17


def producer_of_another_log(side_files: SideFiles) -> None:
    side_files.producers[7] = Producer(0, 4, 9)


def producer_whose_batches_were_deleted(root: Path) -> None:
    log = PartitionWriter(root, "t", 0, start=100)
    log.data(5, pid=1, seq=0)
    side_files, end = describe(log.file)
    side_files.producers[7] = Producer(0, 4, 99)
    side_files.write(log.file, end)
    (root / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":1}')


def producer_expired(side_files: SideFiles) -> None:
    del side_files.producers[1]


def other_open_transaction(side_files: SideFiles) -> None:
    side_files.producers[2].open_from = 10


def began_before_the_log_start(root: Path) -> None:
    log = PartitionWriter(root, "t", 0)
    for seq in (0, 5):
        log.data(5, pid=1, seq=seq, transactional=True)
    side_files, end = describe(log.file)
    side_files.write(log.file, end)
    checkpoint(root, "log-start-offset-checkpoint", [("t", 0, 7)])
    (root / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":1}')


def snapshot_damaged(side_files: SideFiles) -> None:
    side_files.snapshot_junk = b"\0"


SIDE_FILES: dict[str, Case] = {
    "side_files": Case(case(nothing), []),
    "side_files_of_two_segments": Case(case(nothing, old=True), []),
    "side_files_sparse": Case(case(sparse), []),
    "side_files_preallocated": Case(case(preallocated, clean=False), []),
    "snapshot_without_an_expired_producer": Case(case(producer_expired), []),
    "index_into_a_batch": Case(case(inside_a_batch), [("indexes", "violation", "points to no batch", "t-0@11")]),
    "index_to_the_next_batch": Case(case(at_the_next_batch), [("indexes", "violation", "points to another batch", "t-0@9")]),
    "index_cut": Case(case(cut_entry), [("indexes", "violation", "unreadable index", "t-0@?")]),
    "index_after_a_kill": Case(case(inside_a_batch, clean=False), [("indexes", "info", "points to no batch", "t-0@11")]),
    "index_of_an_old_segment_after_a_kill": Case(
        case(inside_a_batch, clean=False, old=True), [("indexes", "warning", "points to no batch", "t-0@11")]
    ),
    "time_index_too_early": Case(case(time_too_early), [("indexes", "violation", "a later record lies before", "t-0@9")]),
    "time_index_of_no_record": Case(case(time_of_no_record), [("indexes", "violation", "no record has this time", "t-0@9")]),
    "time_index_in_no_order": Case(case(times_in_no_order), [("indexes", "violation", "entries out of order", "t-0@4")]),
    "aborted_index_beyond_the_log": Case(
        case(aborted_beyond_the_log), [("indexes", "violation", "no such aborted transaction", "t-0@510")]
    ),
    "aborted_index_of_another_segment": Case(
        case(nothing, old=True, swapped=".txnindex"), [("indexes", "violation", "aborted transaction not in its index", "t-0@12")]
    ),
    "aborted_index_wrong": Case(
        case(aborted_forgotten),
        [
            ("indexes", "violation", "no such aborted transaction", "t-0@4"),
            ("indexes", "violation", "aborted transaction not in its index", "t-0@12"),
        ],
    ),
    "aborted_index_from_too_late_on": Case(
        case(aborted_from_too_late_on), [("indexes", "violation", "aborted transaction begins elsewhere", "t-0@12")]
    ),
    "index_beyond_the_segment": Case(case(beyond_the_segment), [("indexes", "violation", "points to another batch", "t-0@122")]),
    "leader_epoch_noted_too_early": Case(
        case(epoch_too_early),
        [("indexes", "violation", "another leader epoch", "t-0@10")],
    ),
    "snapshot_of_another_sequence": Case(case(other_sequence), [("producer-snapshots", "violation", "another sequence", "t-0@23")]),
    "snapshot_of_another_epoch": Case(case(other_epoch), [("producer-snapshots", "violation", "another epoch", "t-0@23")]),
    "snapshot_of_another_offset": Case(case(other_last_offset), [("producer-snapshots", "violation", "another last offset", "t-0@23")]),
    "snapshot_of_an_open_transaction": Case(
        case(other_open_transaction), [("producer-snapshots", "violation", "another open transaction", "t-0@23")]
    ),
    "snapshot_of_a_transaction_from_before_the_log_start": Case(
        began_before_the_log_start, [("hanging-transaction", "info", "open", "t-0@5")]
    ),
    "snapshot_of_another_log": Case(case(producer_of_another_log), [("producer-snapshots", "violation", "no such producer", "t-0@23")]),
    "snapshot_of_a_producer_below_the_log_start": Case(producer_whose_batches_were_deleted, []),
    "snapshot_damaged": Case(case(snapshot_damaged), [("producer-snapshots", "violation", "unreadable snapshot", "t-0@23")]),
}
