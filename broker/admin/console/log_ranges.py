"""Reads ranges of a log as whole batches, with a limit on the bytes that are read at once."""

from __future__ import annotations

from typing import Final

from ottla.broker.storage.log_values import Isolation
from ottla.broker.storage.partition_log import PartitionLog
from ottla.protocol.records.batch import BatchHeader, split_batches

PIECES_MAX: Final = 32
"""The maximum number of segments from which one range of a log is read. With a small segment.bytes, a range may lie in many segments."""


def read_range(log: PartitionLog, offset: int, max_bytes: int, isolation: Isolation = Isolation.LOG_END) -> tuple[bytes, list[BatchHeader]]:
    """Return whole batches, as bytes and as parsed headers, from the batch that contains `offset`, up to about `max_bytes`; the first batch
    is returned whatever its size. Only the part of the log that `isolation` makes visible is read.

    Raises Rejected if `offset` is below the log start offset or the log is offline, RecordsError for a damaged batch.
    """
    pieces: list[bytes] = []
    headers: list[BatchHeader] = []
    left, at, end = max_bytes, offset, log.visible_end_offset(isolation)
    while at < end and left > 0 and len(pieces) < PIECES_MAX:
        data = log.read(at, left, isolation=isolation, min_one_batch=not pieces).records
        batches = list(split_batches(data))
        if not batches:
            break
        position, last = batches[-1]
        pieces.append(data[: position + last.size_bytes])
        headers += [header for _, header in batches]
        left, at = left - len(data), last.next_offset
    return b"".join(pieces), headers


def read_tail(log: PartitionLog, count: int, max_bytes: int, isolation: Isolation = Isolation.LOG_END) -> tuple[bytes, list[BatchHeader]]:
    """Return the log's last batches, as bytes and as parsed headers, from the batch that contains the `count`th offset before the end. If
    these exceed `max_bytes`, return fewer: those of the last `count / 2`, `count / 4`, … offsets.

    Raises Rejected if the log is offline, RecordsError for a damaged batch.
    """
    end = log.visible_end_offset(isolation)
    while True:
        data, headers = read_range(log, max(log.log_start_offset, end - count), max_bytes, isolation)
        if count <= 1 or not headers or headers[-1].next_offset >= end:
            return data, headers
        count //= 2
