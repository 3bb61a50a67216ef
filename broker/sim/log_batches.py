"""Iterates over the batches of a partition's log, for the code that checks a simulation's invariants."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ottla.broker.storage.log_values import Isolation
from ottla.broker.storage.partition_log import PartitionLog
from ottla.protocol.records.batch import split_batches

_READ_BYTES: Final = 4 << 20


def batches_of(log: PartitionLog, start: int, end: int) -> Iterator[tuple[int, int, bytes]]:
    """Yield (base offset, next offset, bytes) of each batch between the offsets `start` and `end`."""
    end = min(end, log.log_end_offset)
    while start < end:
        data = log.read(start, _READ_BYTES, isolation=Isolation.LOG_END, min_one_batch=True).records
        before = start
        for position, header in split_batches(data):
            if header.base_offset >= end:
                return
            yield header.base_offset, header.next_offset, bytes(data[position : position + header.size_bytes])
            start = header.next_offset
        if start == before:
            return
