"""Reads the levels (kinds of rows) `snapshots` and `indexes`: the entries of the files that Kafka keeps beside a segment, so that rules can
compare them with the log.

Invariants:
- An entry is returned as it is in the file, neither corrected nor compared.
- Bytes that are not a valid entry become a row with `error`.
- Layouts follow Kafka's OffsetIndex, TimeIndex, TransactionIndex, LeaderEpochCheckpointFile and ProducerStateManager.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa

from ottla.protocol.errors import ProtocolError
from ottla.protocol.producer_snapshot import ENTRY, entries_of
from ottla.protocol.records.batch import HEADER_BYTES
from ottla.spark_jobs.filesystem import SNAPSHOT_BYTES_MAX, RandomAccess, place
from ottla.spark_jobs.log_directory import LEADER_EPOCHS, SideFile
from ottla.spark_jobs.log_files import OFFSET_MAX
from ottla.spark_jobs.tables.build import to_arrow

ROWS_MAX: Final = 1 << 16
EPOCH_MAX: Final = 2**31 - 1
WINDOW_BYTES: Final = 4 << 20
INDEX_BYTES_MAX: Final = 2**31 - 1
"""The maximum size of an index file: Kafka's setting segment.index.bytes is a 32-bit integer."""
PRODUCERS: Final = np.dtype(
    [
        ("producer_id", ">i8"),
        ("producer_epoch", ">i2"),
        ("last_sequence", ">i4"),
        ("last_offset", ">i8"),
        ("offset_delta", ">i4"),
        ("timestamp", ">i8"),
        ("coordinator_epoch", ">i4"),
        ("current_txn_first_offset", ">i8"),
    ]
)
assert PRODUCERS.itemsize == ENTRY.size
INDEXES: Final = {
    "index": np.dtype([("offset", ">i4"), ("log_position", ">i4")]),
    "timeindex": np.dtype([("timestamp", ">i8"), ("offset", ">i4")]),
    "txnindex": np.dtype(
        [("version", ">i2"), ("producer_id", ">i8"), ("first_offset", ">i8"), ("offset", ">i8"), ("last_stable_offset", ">i8")]
    ),
}
RELATIVE: Final = frozenset({"index", "timeindex"})
"""The kinds of index files that store offsets relative to the segment's base offset."""


def snapshot_rows(file: SideFile, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield one row per producer in a `.snapshot` file (see SNAPSHOT_COLUMNS)."""
    try:
        entries = np.frombuffer(entries_of(place(file.log_dir).read(file.path, SNAPSHOT_BYTES_MAX)), PRODUCERS)
    except ProtocolError as e:
        yield _one(file, schema, {"snapshot_offset": file.base_offset, "error": str(e)})
        return
    if not len(entries):
        yield _one(file, schema, {"snapshot_offset": file.base_offset})
    for start in range(0, len(entries), ROWS_MAX):
        yield _entries(file, schema, entries[start : start + ROWS_MAX], {"snapshot_offset": file.base_offset})


def index_rows(file: SideFile, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield one row per entry of an index file, and one per range of invalid bytes (see INDEX_COLUMNS)."""
    if file.kind == LEADER_EPOCHS:
        yield from _epoch_rows(file, schema, place(file.log_dir).read(file.path))
        return
    if file.size_bytes > INDEX_BYTES_MAX:
        yield _one(file, schema, {"kind": file.kind, "position": 0, "error": f"{file.size_bytes} bytes: no index has 2 GiB"})
        return
    layout = INDEXES[file.kind]
    with place(file.log_dir).open(file.path) as data:
        size, used = _sizes(data, file.size_bytes)
        count = min(-(-used // layout.itemsize), size // layout.itemsize)
        if count == 0 and used == 0:
            yield _one(file, schema, {"kind": file.kind})
        max_entries = count if file.segment_bytes < 0 else min(count, file.segment_bytes // HEADER_BYTES + 1)
        for start in range(0, max_entries, ROWS_MAX):
            rows = min(ROWS_MAX, max_entries - start)
            entries = np.frombuffer(data.read_at(start * layout.itemsize, rows * layout.itemsize), layout, rows)
            yield _index_entries(file, schema, entries, start)
    error = None
    if max_entries < count:
        error = f"{count} entries for a segment that has room for {max_entries} batches"
    elif used > count * layout.itemsize or (size % layout.itemsize and used == size):
        error = "the file ends inside an entry"
    if error is not None:
        yield _one(file, schema, {"kind": file.kind, "position": max_entries * layout.itemsize, "error": error})


def _sizes(data: RandomAccess, listed_bytes: int) -> tuple[int, int]:
    """Return the file's actual size, and its size without the zero bytes at its end (Kafka preallocates indexes). At most WINDOW_BYTES
    are in memory."""
    size = end = 0
    for position in range(0, listed_bytes, WINDOW_BYTES):
        window = data.read_at(position, min(WINDOW_BYTES, listed_bytes - position))
        size = position + len(window)
        content = np.frombuffer(window, np.uint8)
        if content.any():
            end = position + int(np.flatnonzero(content)[-1]) + 1
        if len(window) < WINDOW_BYTES:
            break
    return size, end


def _index_entries(file: SideFile, schema: pa.Schema, entries: Any, first: int) -> pa.RecordBatch:
    numbers = np.arange(first, first + len(entries))
    known = {"kind": file.kind, "entry": numbers.astype(np.int32), "position": numbers * entries.dtype.itemsize}
    if file.kind in RELATIVE:
        known["offset"] = entries["offset"].astype(np.int64) + file.base_offset
    return _entries(file, schema, entries, known)


def _entries(file: SideFile, schema: pa.Schema, entries: Any, known: dict[str, Any]) -> pa.RecordBatch:
    columns: dict[str, Any] = {}
    for field in schema:
        if field.name in known:
            value = known[field.name]
            columns[field.name] = value if isinstance(value, np.ndarray) else pa.repeat(pa.scalar(value, field.type), len(entries))
        elif field.name in (entries.dtype.names or ()):
            columns[field.name] = pa.array(entries[field.name].astype(entries.dtype[field.name].newbyteorder("="))).cast(field.type)
        elif not _is_constant(file, field.name):
            columns[field.name] = pa.nulls(len(entries), field.type)
    return to_arrow(file, schema, columns, len(entries))


def _one(file: SideFile, schema: pa.Schema, known: dict[str, Any]) -> pa.RecordBatch:
    columns = {f.name: [known.get(f.name)] for f in schema if f.name in known or not _is_constant(file, f.name)}
    return to_arrow(file, schema, columns, 1)


def _is_constant(file: SideFile, name: str) -> bool:
    return name in {"segment", "file"} or (name != "kind" and hasattr(file, name))


def _epoch_rows(file: SideFile, schema: pa.Schema, data: bytes) -> Iterator[pa.RecordBatch]:
    """Yield one row per entry of a leader-epoch-checkpoint: line `0` (the version), a line with the count, then `<epoch> <start offset>`
    lines."""
    try:
        lines = data.decode("ascii").splitlines()
        rows = [tuple(map(int, line.split())) for line in lines[2:]]
        if lines and (lines[0] != "0" or len(rows) != int(lines[1]) or any(len(row) != 2 for row in rows)):
            raise ValueError("version or count")
        if any(abs(epoch) > EPOCH_MAX or abs(offset) > OFFSET_MAX for epoch, offset in rows):
            raise ValueError("a number that no log has")
    except (ValueError, IndexError) as e:
        yield _one(file, schema, {"kind": file.kind, "error": f"damaged: {e}"})
        return
    if not rows:
        yield _one(file, schema, {"kind": file.kind})
    for start in range(0, len(rows), ROWS_MAX):
        epochs, offsets = np.array(rows[start : start + ROWS_MAX], np.int64).T
        known = {"kind": file.kind, "entry": np.arange(start, start + len(epochs), dtype=np.int32)}
        known |= {"leader_epoch": epochs.astype(np.int32), "offset": offsets}
        yield _entries(file, schema, epochs, known)
