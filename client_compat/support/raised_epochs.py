"""Finds values that a client stored twice by itself: under two epochs of one producer id.

librdkafka raises its epoch while requests to other partitions are unanswered, and sends their records again with sequence 0 (librdkafka
issue 4953, open; `make known-bugs ARGS=epoch-bump` shows it on any broker). To a broker, such a batch is a new one. Duplicates in one
epoch, or under two producer ids, are the broker's fault or the program's, and still count.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from client_compat.support.places import partition_and_offset
from client_compat.support.verdict import AckVerdict
from ottla.protocol.records.batch import BatchHeader, split_batches

CLIENTS: Final = frozenset({"confluent-kafka"})
"""Clients that store a record twice under two epochs of one producer id (librdkafka issue 4953)."""


def excuse(verdict: AckVerdict, directory: Path, topic: str) -> None:
    """Count the values that a client itself stored twice as `excused` in `verdict`, no longer as `doubled`. `directory` belongs to a broker
    that has all partitions of the topic and no longer writes to them."""
    for double in list(verdict.doubles):
        if double.client in CLIENTS and _raised([_batch_at(directory, topic, place) for place in double.places]):
            verdict.excuse(double)


def _raised(batches: Sequence[BatchHeader | None]) -> bool:
    writers = [(batch.producer_id, batch.producer_epoch) for batch in batches if batch is not None and batch.producer_id >= 0]
    return len(writers) == len(batches) == len(set(writers)) and len({producer for producer, _ in writers}) == 1


def _batch_at(directory: Path, topic: str, place: int) -> BatchHeader | None:
    partition, offset = partition_and_offset(place)
    for segment in sorted((directory / f"{topic}-{partition}").glob("*.log"), reverse=True):
        if int(segment.stem) <= offset:
            headers = (header for _, header in split_batches(segment.read_bytes()))
            return next((header for header in headers if header.base_offset <= offset < header.next_offset), None)
    return None
