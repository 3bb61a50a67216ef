"""Makes valid logs of any size fast: one batch is built, and copied again and again with new offsets, sequences and CRCs in its header."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from ottla.protocol.records.batch import HEADER_BYTES, BatchHeader, pack_header, read_header
from ottla.protocol.records.record import SimpleRecord, build_batch

T0: Final = 1_700_000_000_000
SEGMENT_BYTES: Final = 1 << 30
INDEX_INTERVAL_BYTES: Final = 4096
RECORDS_16K: Final = 150
"""The number of 100-byte records in a batch of 16 KB."""


def big(root: Path, size_bytes: int, partitions: int = 2) -> int:
    """Write the topic `big`: 16-KB batches of 100-byte records, by one idempotent producer a partition. Return the number of records."""
    records = 0
    for partition in range(partitions):
        records += _partition(root / f"big-{partition}", size_bytes // partitions, producer_id=partition)
    return records


def many_partitions(root: Path, partitions: int) -> int:
    """Write the topic `many` with this number of partitions of 64 KB each. Return the number of records."""
    return sum(_partition(root / f"many-{partition}", 64 << 10, producer_id=partition) for partition in range(partitions))


def many_producers(root: Path, producers: int) -> int:
    """Write a topic `ids` of two partitions, in which each of `producers` producer ids has written one record. Return the number of
    records."""
    template = build_batch([SimpleRecord(None, b"x" * 100, T0)], producer_id=0, producer_epoch=0, base_sequence=0, leader_epoch=0)
    for partition in range(2):
        _write(root / f"ids-{partition}", _stamped(template, 1, range(partition, producers, 2)), 1)
    return producers


def _partition(directory: Path, size_bytes: int, producer_id: int) -> int:
    records = [SimpleRecord(None, bytes([65 + i % 26]) * 100, T0 + i) for i in range(RECORDS_16K)]
    template = build_batch(records, producer_id=producer_id, producer_epoch=0, base_sequence=0, leader_epoch=0)
    count = max(1, size_bytes // len(template))
    _write(directory, _stamped(template, RECORDS_16K, (producer_id for _ in range(count)), one_producer=True), RECORDS_16K)
    return count * RECORDS_16K


def _stamped(template: bytes, records: int, producers: Iterator[int] | range, *, one_producer: bool = False) -> Iterator[bytes]:
    head: BatchHeader = read_header(template)
    tail = template[HEADER_BYTES:]
    for i, producer in enumerate(producers):
        offset = i * records
        sequence = offset % 2**31 if one_producer else 0
        yield pack_header(head._replace(base_offset=offset, producer_id=producer, base_sequence=sequence), tail) + tail


def _write(directory: Path, batches: Iterator[bytes], records: int) -> None:
    """Write the batches, of `records` records each, to the partition directory `directory`, as segments with offset indexes."""
    directory.mkdir(parents=True)
    offset = 0
    batch = next(batches, b"")
    while batch:
        base, position, indexed, entries = offset, 0, 0, bytearray()
        path = directory / f"{base:020d}.log"
        with path.open("wb") as log:
            while batch and position + len(batch) <= SEGMENT_BYTES:
                if position - indexed > INDEX_INTERVAL_BYTES:
                    entries += struct.pack(">ii", offset + records - 1 - base, position)
                    indexed = position
                log.write(batch)
                position += len(batch)
                offset += records
                batch = next(batches, b"")
        path.with_suffix(".index").write_bytes(entries)
