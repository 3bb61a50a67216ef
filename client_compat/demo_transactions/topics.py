"""Writes the input of the demo's pipeline, and reads its output. The clients used here are not those of the pipeline."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from client_compat.demo.flights import read_rows
from client_compat.demo_transactions.counting import Counts, Increment, count
from client_compat.demo_transactions.instance import INPUT, INPUT_PARTITIONS
from client_compat.support.producers import Feed, Item, send_with_confluent
from client_compat.support.reading import Consumed, ends, read_with_aiokafka, read_with_confluent
from client_compat.support.workers import RunFailed

SHOW_EVERY = 2_000
DELIVERY_TIMEOUT_MS = 90_000
OUTPUT_PARTITIONS = 3


class _Flights(Feed):
    """The flights that the producer sends as the pipeline's input. Rejected flights are not recorded: `load` notices them, because the
    partitions then have too few records."""

    def __init__(self, rows: Sequence[tuple[bytes, bytes]], on_progress: Callable[[int], None]) -> None:
        self._rows, self._on_progress, self._acked = rows, on_progress, 0

    def records(self) -> Iterator[Item | None]:
        yield from ((number, *row) for number, row in enumerate(self._rows))

    def acked(self, number: int, partition: int, offset: int) -> None:
        self._acked += 1
        if self._acked % SHOW_EVERY == 0:
            self._on_progress(self._acked)

    def failed(self, number: int, error: object) -> None:
        pass


def load(bootstrap: str, rows: Path, on_progress: Callable[[int], None]) -> tuple[Counts, list[int]]:
    """Write all flights with an idempotent producer; return the correct counts and each partition's number of records. Raises `RunFailed`
    if not all flights are in the log then."""
    flights = read_rows(rows)
    settings = {
        "bootstrap.servers": bootstrap,
        "enable.idempotence": True,
        "partitioner": "murmur2_random",
        "linger.ms": 20,
        "batch.size": 262_144,
        "delivery.timeout.ms": DELIVERY_TIMEOUT_MS,
    }
    send_with_confluent(_Flights(flights, on_progress), INPUT, settings)
    sizes = ends(bootstrap, INPUT, INPUT_PARTITIONS)
    on_progress(sum(sizes))
    if sum(sizes) != len(flights):
        raise RunFailed(f"of {len(flights):,} flights {sum(sizes):,} were loaded")
    return count(flights), sizes


def committed_by_confluent(bootstrap: str, topic: str) -> list[Increment]:
    """Return all records of the output topic that confluent-kafka's read_committed consumer receives. Raises `RunFailed` if that takes too
    long."""
    return _increments(read_with_confluent(bootstrap, topic, OUTPUT_PARTITIONS, "read_committed"))


def committed_by_aiokafka(bootstrap: str, topic: str) -> list[Increment]:
    """Return all records of the output topic that aiokafka's read_committed consumer receives. Raises `RunFailed` if that takes too
    long."""
    return _increments(read_with_aiokafka(bootstrap, topic, OUTPUT_PARTITIONS, "read_committed"))


def written(bootstrap: str, topic: str) -> list[Increment]:
    """Return all output records in the log, including those of aborted transactions. Raises `RunFailed` if reading them takes too long."""
    return _increments(read_with_confluent(bootstrap, topic, OUTPUT_PARTITIONS, "read_uncommitted"))


def _increments(records: list[Consumed]) -> list[Increment]:
    return [Increment.parse(record.value) for record in records]
