"""A consumer on confluent-kafka (librdkafka) whose effects happen once for each record, in a store of its own. `--result` prints them.

How:
- The position is in the store, in the same transaction as the effects, and is taken from there when a partition is assigned.
- The store refuses who does not stand where it stands: a process that was suspended and replaced cannot repeat anything.
- The business key is unique in the store: a record that its producer sent twice has one effect.
- `isolation.level` is read_committed (librdkafka's default): what a producer aborted has none.
- Offsets are committed to the group for those who watch the lag. Nothing depends on them, so auto-commit does.
"""

from __future__ import annotations

import sys
from itertools import groupby
from typing import Any

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from client_compat.samples.common import CHUNK_RECORDS, Job, job_of, stop_on_signal
from client_compat.samples.store import Overtaken, Store

GROUP = "samples-consumer"


def settings(job: Job) -> dict[str, Any]:
    """Timeouts are short, so that a failure is noticed in seconds; in production leave them as they are."""
    return {
        "bootstrap.servers": job.bootstrap,
        "retry.backoff.ms": 50,
        "reconnect.backoff.ms": 50,
        "reconnect.backoff.max.ms": 250,
        "group.id": GROUP,
        "group.instance.id": f"{GROUP}-{job.instance}",  # a restarted member has its partitions back at once
        "session.timeout.ms": 6000,
        "heartbeat.interval.ms": 500,
        "auto.offset.reset": "earliest",
        "isolation.level": "read_committed",
        "enable.auto.commit": not job.makes("commit-before-processing"),
        "auto.commit.interval.ms": 1000,
    }


class Effects:
    """The messages of one program, and where it stands in each partition."""

    def __init__(self, job: Job, consumer: Consumer, store: Store) -> None:
        self._job = job
        self._consumer = consumer
        self._store = store
        self._positions: dict[tuple[str, int], int] = {}

    def subscribe(self) -> None:
        """These two mistakes begin where the group has committed, the right program where the store stands."""
        if self._job.makes("commit-before-processing", "append-only-store"):
            self._consumer.subscribe([self._job.input])
        else:
            self._consumer.subscribe([self._job.input], on_assign=self._from_store)

    def _from_store(self, consumer: Consumer, assigned: list[TopicPartition]) -> None:
        for partition in assigned:
            partition.offset = self._store.position(partition.topic, partition.partition)
            self._positions[partition.topic, partition.partition] = partition.offset
        consumer.assign(assigned)

    def take(self, topic: str, partition: int, messages: list[Message]) -> None:
        """The effects of consecutive messages of a partition. Raises KafkaException, Overtaken."""
        records = [(message.key() or b"", message.value() or b"") for message in messages]
        if self._job.makes("commit-before-processing"):
            self._consumer.commit(asynchronous=False)  # MISTAKE: of all that consume has given out, and nothing is done yet
            self._store.apply_by_key(records)
        elif self._job.makes("append-only-store"):
            self._store.append(records)  # MISTAKE: it does not know what it has seen
        else:
            end = (messages[-1].offset() or 0) + 1
            self._store.apply(topic, partition, self._positions[topic, partition], end, records)
            self._positions[topic, partition] = end


def place(message: Message) -> tuple[str, int]:
    """Topic and partition. Raises KafkaException for a message that is an error."""
    if (error := message.error()) is not None:
        raise KafkaException(error)
    return message.topic() or "", message.partition() or 0


def main() -> int:
    """The exit code, after SIGTERM or when this member cannot go on."""
    job = job_of("consumer", __doc__)
    store = Store(job.work)
    if job.result:
        print(*store.values(), sep="\n")
        return 0
    stop = stop_on_signal()
    consumer = Consumer(settings(job))
    effects = Effects(job, consumer, store)
    try:
        effects.subscribe()
        while not stop.is_set():
            for (topic, partition), messages in groupby(consumer.consume(CHUNK_RECORDS, 0.2), place):
                effects.take(topic, partition, list(messages))
    except (KafkaException, Overtaken) as error:
        print("given up:", error, file=sys.stderr)
        return 1
    finally:
        consumer.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
