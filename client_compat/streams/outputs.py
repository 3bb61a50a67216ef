"""Reads the output topics of the Kafka Streams application, which counts flights, with a read_committed consumer. The updates of a key's
count must be 1, 2, 3, …, each once."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, IsolationLevel, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined] # the client's stubs do not export OffsetSpec

from client_compat.streams.application import StreamsFailed
from client_compat.streams.flights import Key
from client_compat.support.counted import Counted

TOPICS = ("by-airline", "by-route", "by-origin")
PARTITIONS = 2
POLL_S = 0.02
RECORDS_AT_ONCE = 2_000
READ_TIMEOUT_S = 120.0
ADMIN_TIMEOUT_S = 30.0


@dataclass(slots=True)
class Counts(Counted):
    """The updates of the counts that a consumer received. The correct updates of a key are 1, 2, 3, …. `last`: the highest update of each
    key; `doubled`: updates that repeat an earlier value; `missed`: values that were skipped."""

    JUDGED = "updates"
    WRONG = ("doubled", "missed")
    last: dict[Key, int] = field(default_factory=dict)
    updates: int = 0
    doubled: int = 0
    missed: int = 0

    def take(self, key: Key, count: int) -> None:
        before = self.last.get(key, 0)
        self.updates += 1
        self.last[key] = max(before, count)
        if count != before + 1:
            self.doubled += count <= before
            self.missed += max(0, count - before - 1)
            self.note(f"{key[0]} {key[1]}: {count} came after {before}")

    def wrong(self, expected: Mapping[Key, int]) -> int:
        """Return the number of keys whose last count differs from `expected`, and keep descriptions of some of them for the report."""
        keys = [key for key in {*expected, *self.last} if self.last.get(key, 0) != expected.get(key, 0)]
        for key in keys:
            self.note(f"{key[0]} {key[1]} is {self.last.get(key, 0)} and should be {expected.get(key, 0)}")
        return len(keys)


class Outputs:
    """A read_committed consumer of the application's output topics, which starts at the beginning. `counts` has the updates that it has
    received so far."""

    def __init__(self, bootstrap: str, topics: Sequence[str] = TOPICS) -> None:
        self.counts = Counts()
        self._partitions = len(topics) * PARTITIONS
        self._at_end: set[tuple[str, int | None]] = set()
        settings = {
            "bootstrap.servers": bootstrap,
            "group.id": "judge",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "auto.offset.reset": "error",
            "enable.partition.eof": True,
            "reconnect.backoff.max.ms": 500,
        }
        self._consumer = Consumer(settings, logger=logging.getLogger("outputs"))
        self._consumer.assign([TopicPartition(topic, index, OFFSET_BEGINNING) for topic in topics for index in range(PARTITIONS)])

    def step(self) -> None:
        """Read the available updates into `counts`, or wait POLL_S seconds if there are none. Raises `StreamsFailed` after an error that
        cannot be retried."""
        for message in self._consumer.consume(RECORDS_AT_ONCE, POLL_S):
            place = (str(message.topic()), message.partition())
            if (error := message.error()) is None:
                self._at_end.discard(place)
                self.counts.take((place[0], (message.key() or b"").decode()), int.from_bytes(message.value() or b"", "big"))
            elif error.code() == KafkaError._PARTITION_EOF:
                self._at_end.add(place)
            elif not error.retriable():
                raise StreamsFailed(f"the consumer of {place[0]}-{place[1]} was refused: {error}")

    def read_to_the_end(self) -> Counts:
        """Read until the end of every partition, and return the counts. Raises `StreamsFailed` after READ_TIMEOUT_S seconds."""
        deadline = time.monotonic() + READ_TIMEOUT_S
        while len(self._at_end) < self._partitions:
            if time.monotonic() > deadline:
                raise StreamsFailed(f"the outputs could not be read within {READ_TIMEOUT_S:.0f} s")
            self.step()
        return self.counts

    def close(self) -> None:
        self._consumer.close()


def read_all(bootstrap: str, topics: Sequence[str] = TOPICS) -> Counts:
    """Read all committed updates of the topics with a new consumer, and return the counts. Raises `StreamsFailed` if the consumer fails or
    does not reach the end in time."""
    outputs = Outputs(bootstrap, topics)
    try:
        return outputs.read_to_the_end()
    finally:
        outputs.close()


def open_transactions(bootstrap: str) -> list[str]:
    """Return the partitions of all topics that have an open transaction, as text: their last stable offset is below the high watermark.
    Raises KafkaException if a request fails."""
    admin = AdminClient({"bootstrap.servers": bootstrap}, logger=logging.getLogger("outputs"))
    topics = admin.list_topics(timeout=ADMIN_TIMEOUT_S).topics
    latest: dict[TopicPartition, Any] = {
        TopicPartition(name, index): OffsetSpec.latest()  # type: ignore[no-untyped-call] # the client's stubs lack it
        for name, topic in topics.items()
        for index in topic.partitions
    }

    def ends(isolation: IsolationLevel) -> dict[tuple[str, int], int]:
        found = admin.list_offsets(latest, isolation_level=isolation, request_timeout=ADMIN_TIMEOUT_S)
        return {(place.topic, place.partition): future.result().offset for place, future in found.items()}

    stable, all_ = ends(IsolationLevel.READ_COMMITTED), ends(IsolationLevel.READ_UNCOMMITTED)
    return [f"{topic}-{index} from {stable[topic, index]} on" for topic, index in sorted(all_) if stable[topic, index] < all_[topic, index]]
