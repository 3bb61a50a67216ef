"""Writes partition logs of given batches, sound or damaged, with the files of a broker's data directory."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path

from ottla.protocol.records.batch import HEADER_BYTES, BatchHeader, pack_header, read_header, stamp
from ottla.protocol.records.compression import Codec
from ottla.protocol.records.control import end_txn_marker
from ottla.protocol.records.record import SimpleRecord, build_batch, encode_record, iter_records

T0 = 1_700_000_000_000


class PartitionWriter:
    """Writes the directory of one partition. By default, batches are appended to the newest segment at the next offset."""

    def __init__(self, root: Path, topic: str, partition: int, start: int = 0) -> None:
        self.directory = root / f"{topic}-{partition}"
        self.directory.mkdir(parents=True)
        self.next_offset = start
        self._written = 0
        self.roll()

    def roll(self) -> None:
        """Start a new segment at the next offset."""
        self.file = self.directory / f"{self.next_offset:020d}.log"
        self.file.touch()

    def raw(self, data: bytes) -> int:
        """Append bytes unchanged to the segment, and return their position in it."""
        position = self.file.stat().st_size
        with self.file.open("ab") as out:
            out.write(data)
        return position

    def batch(self, batch: bytes, offset: int | None = None, leader_epoch: int = 0) -> int:
        """Append one batch to the current segment with the base offset `offset` (None: the next offset), and return this offset."""
        base = self.next_offset if offset is None else offset
        head, tail = stamp(batch, base, leader_epoch)
        self.raw(head + bytes(tail))
        self.next_offset = max(self.next_offset, read_header(batch).last_offset_delta + 1 + base)
        return base

    def data(
        self,
        count: int = 5,
        *,
        pid: int = -1,
        epoch: int = -1,
        seq: int = -1,
        rows: Sequence[object] | None = None,
        at: int = T0,
        offset: int | None = None,
        codec: Codec = Codec.NONE,
        transactional: bool = False,
        leader_epoch: int = 0,
    ) -> int:
        """Append a batch of records, and return its base offset. Each record has a JSON value with the field `row`. `rows`: the values of
        this field, one for each record; None: `count` records with unique values. `at`: the records' timestamp in ms. A producer id without
        an epoch gets epoch 0."""
        values = rows if rows is not None else [f"{self.directory.name}-{self._written + i}" for i in range(count)]
        self._written += len(values)
        records = [SimpleRecord(b"k", json.dumps({"row": row, "n": {"id": row}}).encode(), at) for row in values]
        epoch = 0 if pid >= 0 and epoch < 0 else epoch
        made = build_batch(records, codec=codec, producer_id=pid, producer_epoch=epoch, base_sequence=seq, transactional=transactional)
        return self.batch(made, offset, leader_epoch)

    def marker(
        self, pid: int, *, epoch: int = 0, committed: bool = True, at: int = T0, coordinator_epoch: int = 0, leader_epoch: int = 0
    ) -> int:
        """Append a transaction marker of the producer `pid`, a commit if `committed`, else an abort; return its offset."""
        made = end_txn_marker(committed=committed, producer_id=pid, producer_epoch=epoch, coordinator_epoch=coordinator_epoch, timestamp=at)
        return self.batch(made, leader_epoch=leader_epoch)


def cleaned(batch: bytes, *kept: int) -> bytes:
    """Return the batch as the log cleaner leaves it: with only the records at the indexes `kept`, and its original offset range."""
    records = [encode_record(r.offset_delta, r.timestamp_delta, r.key, r.value, r.headers) for r in iter_records(batch)]
    section = b"".join(records[i] for i in kept)
    return pack_header(read_header(batch)._replace(record_count=len(kept)), section) + section


def old_message(offset: int, value: bytes, attributes: int = 0) -> bytes:
    """Return a message of format v1 (magic 1) without a key. If `attributes` contain a compression codec, `value` must hold the compressed
    inner messages, and `offset` is that of the last one."""
    body = struct.pack(">bbqii", 1, attributes, T0, -1, len(value)) + value
    return struct.pack(">qiI", offset, 4 + len(body), zlib.crc32(body)) + body


def reheaded(batch: bytes, **fields: int) -> bytes:
    """Return the batch with other values of the header fields in `fields`, and with a CRC that matches them."""
    header: BatchHeader = read_header(batch)._replace(**fields)
    tail = batch[HEADER_BYTES:]
    return pack_header(header, tail) + tail


def numbered(count: int) -> list[SimpleRecord]:
    """Return `count` records, each with a different small JSON value."""
    return [SimpleRecord(b"k", b'{"row": "h%d"}' % i, T0) for i in range(count)]


def flip(file: Path, position: int, bit: int = 0x10) -> None:
    """Damage a file: in the byte at `position`, invert the bits that are set in the mask `bit`."""
    content = bytearray(file.read_bytes())
    content[position] ^= bit
    file.write_bytes(content)


def checkpoint(root: Path, name: str, rows: Iterable[tuple[str, int, int]]) -> None:
    """Write an offset checkpoint file `name` in Kafka's format, with a row (topic, partition, offset) per partition."""
    lines = [f"{topic} {partition} {offset}" for topic, partition, offset in rows]
    (root / name).write_text("\n".join(["0", str(len(lines)), *lines]) + "\n")
