"""Parses every kind of file in a log directory of Ottla or Apache Kafka into rows, without trusting the contents.

Rules:
- A file is only read, never repaired.
- A row is a dict whose keys are the columns.
- Bytes that cannot be parsed become a `Corruption` row with their position; parsing continues after them if the format allows it.
"""

from __future__ import annotations

import json
import mmap
import re
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import javaproperties

from ottla.broker.cli.internal_records import control_row, describe_record
from ottla.protocol.errors import ProtocolError
from ottla.protocol.records.batch import MAGIC_V2, BatchHeader, crc_ok, split_batches
from ottla.protocol.records.crc32c import crc32c
from ottla.protocol.records.record import Record, iter_records

Row = dict[str, Any]
OFFSET_ENTRY = struct.Struct(">ii")
TIME_ENTRY = struct.Struct(">qi")
TXN_ENTRY = struct.Struct(">hqqqq")
SNAPSHOT_HEAD = struct.Struct(">hIi")
SNAPSHOT_CRC_END = 6
SNAPSHOT_VERSION = 1
SMALL_FILE_BYTES = 16 << 20
"""The largest text file (checkpoint or properties file), in bytes, that is read: enough for a checkpoint of 200,000 partitions."""
SNAPSHOT_ENTRY = struct.Struct(">qhiqiqiq")
SEGMENT_NAME = re.compile(r"(\d{20})\.(log|index|timeindex|txnindex|snapshot)(\.deleted|\.cleaned|\.swap)?")
OFFSET_CHECKPOINTS = (
    "recovery-point-offset-checkpoint",
    "log-start-offset-checkpoint",
    "replication-offset-checkpoint",
    "cleaner-offset-checkpoint",
)
PARTITION_DIR = re.compile(r"(?P<topic>.+)-\d+(\.[0-9a-f]{32}-(delete|future|stray))?")


@dataclass(frozen=True, slots=True)
class Corruption:
    """A place in a file with bytes that violate the file's format. `position` counts from the start of the file, in bytes."""

    position: int
    reason: str


@dataclass(frozen=True, slots=True)
class Options:
    """Options of `ottla dump-log` that determine the rows for a file. With `records`, a segment gives one row for each record instead of
    one for each batch."""

    records: bool = False


Reader = Callable[[Path, Options], Iterator[Row | Corruption]]


def reader_of(path: Path) -> tuple[str, Reader] | None:
    """Return the kind of a file, judged by its name, and its parser; None if it does not belong to a log directory."""
    if match := SEGMENT_NAME.fullmatch(path.name):
        return _BY_SUFFIX[match[2]]
    return _BY_NAME.get(path.name)


@contextmanager
def _mapped(path: Path) -> Iterator[memoryview]:
    """Provide the contents of a file as a memory map in a context, because a segment may be larger than memory."""
    with path.open("rb") as source:
        if not path.stat().st_size:
            yield memoryview(b"")
            return
        mapped = mmap.mmap(source.fileno(), 0, access=mmap.ACCESS_READ)
    # The map is closed with its last view, so it is not closed here: the caller's rows copy what they need.
    yield memoryview(mapped)


def _base_offset(path: Path) -> int:
    return int(path.name.partition(".")[0])


def topic_of(path: Path) -> str:
    """Return the topic of the partition directory (`TOPIC-PARTITION`) that contains the file; empty if the file is not in one."""
    match = PARTITION_DIR.fullmatch(path.resolve().parent.name)
    return match["topic"] if match else ""


def read_log(path: Path, options: Options) -> Iterator[Row | Corruption]:
    """Yield the rows of a segment: one for each batch, or, with the option `records`, one for each record."""
    topic, end, expected = topic_of(path), 0, _base_offset(path)
    with _mapped(path) as data:
        try:
            for position, header in split_batches(data):
                end = position + header.size_bytes
                batch = data[position:end]
                if header.base_offset < expected:
                    yield Corruption(position, f"base offset {header.base_offset} after offset {expected - 1}")
                expected = header.next_offset
                good = header.magic < MAGIC_V2 or crc_ok(batch, header)
                if not good:
                    yield Corruption(position, f"batch at offset {header.base_offset}: its bytes do not match the CRC in its header")
                if options.records and good:
                    yield from _record_rows(topic, position, header, batch)
                elif not options.records:
                    yield _batch_row(position, header, good)
        except ProtocolError as error:
            yield Corruption(end, str(error))
            return
        if end < len(data):
            yield Corruption(end, f"{len(data) - end} bytes after the last whole batch")


def _batch_row(position: int, header: BatchHeader, crc_good: bool) -> Row:
    try:
        codec = header.codec.name.lower()
    except ProtocolError:
        codec = f"unknown ({header.attributes & 7})"
    flags = [name for name, on in (("transactional", header.is_transactional), ("control", header.is_control)) if on]
    return {
        "position": position,
        "base offset": header.base_offset,
        "last offset": header.last_offset,
        "count": header.record_count,
        "producer": header.producer_id,
        "epoch": header.producer_epoch,
        "base seq": header.base_sequence,
        "last seq": header.last_sequence,
        "leader epoch": header.partition_leader_epoch,
        "codec": codec,
        "max timestamp": header.max_timestamp,
        "size": header.size_bytes,
        "magic": header.magic,
        "crc": "ok" if crc_good else "BAD",
        "flags": " ".join(flags),
    }


def _record_rows(topic: str, position: int, header: BatchHeader, batch: memoryview) -> Iterator[Row | Corruption]:
    if header.magic < MAGIC_V2:
        yield Corruption(position, f"records of magic {header.magic} (before Kafka 0.11) are not supported")
        return
    try:
        for record in iter_records(batch):
            yield _record_row(topic, header, record)
    except ProtocolError as error:
        yield Corruption(position, f"batch at offset {header.base_offset}: {error}")


def _record_row(topic: str, header: BatchHeader, record: Record) -> Row:
    row: Row = {"offset": record.offset, "timestamp": record.timestamp}
    if header.is_control:
        return row | control_row(record)
    return row | describe_record(topic, record)


def read_index(path: Path, _options: Options) -> Iterator[Row | Corruption]:
    """Yield a row for each entry of an offset index: an offset, and the position of its batch in the segment."""
    base = _base_offset(path)
    for position, (relative, at) in _entries(path, OFFSET_ENTRY):
        if position and relative == 0:
            return  # Kafka preallocates indexes with zeros
        yield {"offset": base + relative, "position": at}


def read_timeindex(path: Path, _options: Options) -> Iterator[Row | Corruption]:
    """Yield a row for each entry of a time index: a timestamp, and the offset of its record."""
    base, last = _base_offset(path), -1
    for position, (timestamp, relative) in _entries(path, TIME_ENTRY):
        if position and timestamp == 0 and relative == 0:
            return
        if timestamp < last:
            yield Corruption(position, f"timestamp {timestamp} after {last}")
        last = timestamp
        yield {"timestamp": timestamp, "offset": base + relative}


def read_txnindex(path: Path, _options: Options) -> Iterator[Row | Corruption]:
    """Yield a row for each entry of a transaction index: an aborted transaction that ends in the segment."""
    for position, (version, producer, first, last, stable) in _entries(path, TXN_ENTRY):
        if version != 0:
            yield Corruption(position, f"entry of version {version}")
        yield {"producer": producer, "first offset": first, "last offset": last, "last stable offset": stable}
    yield from _torn_tail(path, TXN_ENTRY)


def _entries(path: Path, entry: struct.Struct) -> Iterator[tuple[int, tuple[int, ...]]]:
    with _mapped(path) as data:
        for position in range(0, len(data) - len(data) % entry.size, entry.size):
            yield position, entry.unpack_from(data, position)


def _torn_tail(path: Path, entry: struct.Struct) -> Iterator[Corruption]:
    size = path.stat().st_size
    if torn := size % entry.size:
        yield Corruption(size - torn, f"{torn} bytes after the last whole entry of {entry.size}")


def read_snapshot(path: Path, _options: Options) -> Iterator[Row | Corruption]:
    """Yield a row for each producer in a producer snapshot: its state at the offset in the file's name."""
    with _mapped(path) as data:
        yield from _snapshot_rows(data)


def _snapshot_rows(data: memoryview) -> Iterator[Row | Corruption]:
    if len(data) < SNAPSHOT_HEAD.size:
        yield Corruption(0, f"{len(data)} bytes are too few for a producer snapshot")
        return
    version, crc, count = SNAPSHOT_HEAD.unpack_from(data)
    if version != SNAPSHOT_VERSION:
        yield Corruption(0, f"producer snapshot of unknown version {version}")
        return
    if crc32c(data[SNAPSHOT_CRC_END:]) != crc:
        yield Corruption(2, "its bytes do not match its CRC")
    if not 0 <= count * SNAPSHOT_ENTRY.size == len(data) - SNAPSHOT_HEAD.size:
        yield Corruption(SNAPSHOT_CRC_END, f"{count} producers in {len(data)} bytes")
        return
    for producer, epoch, sequence, offset, delta, timestamp, coordinator_epoch, txn_start in SNAPSHOT_ENTRY.iter_unpack(
        data[SNAPSHOT_HEAD.size :]
    ):
        yield {
            "producer": producer,
            "epoch": epoch,
            "last seq": sequence,
            "last offset": offset,
            "offset delta": delta,
            "timestamp": timestamp,
            "coordinator epoch": coordinator_epoch,
            "open transaction from": None if txn_start == -1 else txn_start,
        }


def _read_checkpoint(path: Path, columns: tuple[str, ...]) -> Iterator[Row | Corruption]:
    """Yield the rows of a checkpoint file: a line with the version 0, a line with a count, and as many lines of blank-separated `columns`.
    The last two columns are numbers; if there are three, the first is a name. Yield Corruption for each line that has another form."""
    position, lines = 0, path.read_bytes().splitlines(keepends=True)
    header = [line.strip() for line in lines[:2]]
    if len(header) < 2 or header[0] != b"0" or not header[1].isdigit():
        yield Corruption(0, "it does not begin with version 0 and a count of lines")
        return
    for number, line in enumerate(lines):
        cells = line.decode(errors="replace").split()
        if number > 1:
            names, numbers = cells[: len(columns) - 2], cells[len(columns) - 2 :]
            if len(cells) != len(columns) or not all(re.fullmatch(r"-?\d+", cell) for cell in numbers):
                yield Corruption(position, f"line {line.strip()!r}")
            else:
                yield dict(zip(columns, [*names, *map(int, numbers)], strict=True))
        position += len(line)
    if len(lines) - 2 != int(header[1]):
        yield Corruption(position, f"{len(lines) - 2} lines, but the file's count is {int(header[1])}")


def read_epochs(path: Path, _options: Options) -> Iterator[Row | Corruption]:
    """Yield the rows of the leader-epoch checkpoint: the start offset of each leader epoch."""
    yield from _read_checkpoint(path, ("epoch", "start offset"))


def read_offset_checkpoint(path: Path, _options: Options) -> Iterator[Row | Corruption]:
    """Yield a row for each partition in a checkpoint file: its topic, number and offset."""
    yield from _read_checkpoint(path, ("topic", "partition", "offset"))


def read_properties(path: Path, _options: Options) -> Iterator[Row | Corruption]:
    """Yield a row for each name in a meta.properties or partition.metadata file, with its value."""
    text = path.read_text(errors="replace")
    try:
        found = javaproperties.loads(text)
    except ValueError as error:
        yield Corruption(0, str(error))
        return
    for name, value in sorted(found.items()):
        yield {"name": name, "value": value}


def read_shutdown_marker(path: Path, _options: Options) -> Iterator[Row | Corruption]:
    """Yield the row of `.kafka_cleanshutdown`, the file that marks a clean shutdown: its contents as JSON."""
    try:
        found = json.loads(path.read_bytes() or b"{}")
    except ValueError as error:
        yield Corruption(0, str(error))
        return
    yield {"name": "clean shutdown", "value": json.dumps(found)}


def _small(read: Reader) -> Reader:
    """Wrap a parser that loads the whole file into memory: a file above SMALL_FILE_BYTES gives one Corruption row instead."""

    def bounded(path: Path, options: Options) -> Iterator[Row | Corruption]:
        size = path.stat().st_size
        if size > SMALL_FILE_BYTES:
            yield Corruption(0, f"{size} bytes: a file of this kind is read only up to {SMALL_FILE_BYTES} bytes")
            return
        yield from read(path, options)

    return bounded


_BY_SUFFIX: dict[str, tuple[str, Reader]] = {
    "log": ("segment", read_log),
    "index": ("offset index", read_index),
    "timeindex": ("time index", read_timeindex),
    "txnindex": ("transaction index", read_txnindex),
    "snapshot": ("producer snapshot", read_snapshot),
}
_BY_NAME: dict[str, tuple[str, Reader]] = {
    "leader-epoch-checkpoint": ("leader epochs", _small(read_epochs)),
    "partition.metadata": ("partition metadata", _small(read_properties)),
    "meta.properties": ("broker metadata", _small(read_properties)),
    ".kafka_cleanshutdown": ("clean-shutdown marker", _small(read_shutdown_marker)),
    **dict.fromkeys(OFFSET_CHECKPOINTS, ("offset checkpoint", _small(read_offset_checkpoint))),
}
