"""A consumer on confluent-kafka (librdkafka) whose effects happen once for each record, in a store of its own. `--result` prints them.

How:
- The store has the position, written in the same transaction as the effects. On assignment the consumer seeks to it.
- The store rejects effects that do not begin at its position, so a process that was suspended and replaced cannot repeat effects.
- The business key is unique in the store, so a record that its producer sent twice has one effect.
- `isolation.level` is read_committed (librdkafka's default), so aborted records have no effect.
- Offsets are committed to the group afterwards, for monitoring of the lag only. The consumer does not use them, so a commit may fail.
"""

from __future__ import annotations

import sys
from itertools import groupby
from typing import Any

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from client_compat.samples.common import CHUNK_RECORDS, Job, job_of, stop_on_signal
from client_compat.samples.store import Overtaken, Store


def settings(job: Job) -> dict[str, Any]:
    """Return the consumer's settings. Timeouts are short, to detect failures within seconds; use the defaults in production."""
    return {
        "bootstrap.servers": job.bootstrap,
        # Shorter than retry.backoff.ms: the request for a lost coordinator waits behind a Fetch, and a commit that is retried before its
        # response fails again (librdkafka 2.16: for many seconds).
        "fetch.wait.max.ms": 50,
        "retry.backoff.ms": 100,
        "reconnect.backoff.ms": 50,
        "reconnect.backoff.max.ms": 250,
        "metadata.recovery.strategy": "none",  # with the default, rebootstrap, librdkafka 2.16 loses a single broker
        "group.id": job.group,
        "group.instance.id": f"{job.group}-{job.instance}",  # a restarted member gets its partitions back at once
        "session.timeout.ms": 6000,
        "heartbeat.interval.ms": 500,
        "auto.offset.reset": "earliest",
        "isolation.level": "read_committed",
        "enable.auto.commit": False,
    }


Positions = dict[tuple[str, int], int]


def place(message: Message) -> tuple[str, int]:
    """Return the message's topic and partition. Raises KafkaException if the message is an error event of librdkafka."""
    if (error := message.error()) is not None:
        raise KafkaException(error)
    return message.topic() or "", message.partition() or 0


def run(job: Job, consumer: Consumer, store: Store) -> None:
    """Consume the input topic and store the effects of its records, until SIGTERM. Raises KafkaException if the client reports an error
    that it cannot resolve, and Overtaken if another process has stored effects of the same partition."""
    stop = stop_on_signal()
    positions: Positions = {}

    def from_store(_: Consumer, assigned: list[TopicPartition]) -> None:
        """Start each assigned partition at its position in the store. The group's committed offsets are not used."""
        for partition in assigned:
            partition.offset = store.position(partition.topic, partition.partition)
            positions[partition.topic, partition.partition] = partition.offset
        consumer.assign(assigned)

    # with these mistakes, the program starts at the group's committed offsets
    by_the_group = job.makes("commit-before-processing", "append-only-store")
    consumer.subscribe([job.input], **({} if by_the_group else {"on_assign": from_store}))
    while not stop.is_set():
        messages = consumer.consume(CHUNK_RECORDS, 0.2)
        if job.makes("commit-before-processing") and messages:
            consumer.commit(asynchronous=False)  # MISTAKE: commits all consumed records before any is processed
        for (topic, partition), consecutive in groupby(messages, place):
            batch = list(consecutive)
            records = [(message.key() or b"", message.value() or b"") for message in batch]
            if job.makes("commit-before-processing"):
                store.apply_by_key(records)
            elif job.makes("append-only-store"):
                store.append(records)  # MISTAKE: cannot detect records that it has already stored
            else:
                end = (batch[-1].offset() or 0) + 1
                store.apply(topic, partition, positions[topic, partition], end, records)
                positions[topic, partition] = end
        if messages and not job.makes("commit-before-processing"):
            commit(consumer)


def commit(consumer: Consumer) -> None:
    """Commit the consumer's positions to the group. A failure is only logged, because the offsets serve only to monitor the lag."""
    try:
        consumer.commit(asynchronous=False)
    except KafkaException as error:
        print("not committed:", error, file=sys.stderr)


def main() -> int:
    """Run until SIGTERM or until this member cannot continue; return the exit code."""
    job = job_of("consumer", __doc__)
    store = Store(job.work)
    if job.result:
        print(*store.values(), sep="\n")
        return 0
    consumer = Consumer(settings(job))
    try:
        run(job, consumer, store)
    except (KafkaException, Overtaken) as error:
        print("given up:", error, file=sys.stderr)
        return 1
    finally:
        consumer.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
