"""A consumer on kafka-python whose effects happen once for each record, in a store of its own. `--result` prints them.

How:
- The store has the position, written in the same transaction as the effects. On assignment the consumer seeks to it.
- The store rejects effects that do not begin at its position, so a process that was suspended and replaced cannot repeat effects.
- The business key is unique in the store, so a record that its producer sent twice has one effect.
- `isolation_level` is read_committed, so aborted records have no effect.
- Offsets are committed to the group afterwards, for monitoring of the lag only. The consumer does not use them, so a commit may fail.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from contextlib import closing
from typing import Any

from kafka import ConsumerRebalanceListener, KafkaConsumer, TopicPartition
from kafka.errors import KafkaError

from client_compat.samples.common import CHUNK_RECORDS, Job, job_of, stop_on_signal
from client_compat.samples.store import Overtaken, Store


def settings(job: Job) -> dict[str, Any]:
    """Return the consumer's settings. Timeouts are short, to detect failures within seconds; use the defaults in production."""
    return {
        "bootstrap_servers": job.bootstrap,
        "retry_backoff_ms": 50,
        "reconnect_backoff_max_ms": 250,
        "group_id": job.group,
        "group_instance_id": f"{job.group}-{job.instance}",  # a restarted member gets its partitions back at once
        "session_timeout_ms": 6000,
        "heartbeat_interval_ms": 500,
        "request_timeout_ms": 7000,
        "auto_offset_reset": "earliest",
        "isolation_level": "read_committed",
        "enable_auto_commit": False,
        "max_poll_records": CHUNK_RECORDS,
    }


class FromStore(ConsumerRebalanceListener):  # type: ignore[misc]  # kafka-python has no types
    """A rebalance listener that lets the consumer start each assigned partition at the position in the store. The client's own thread calls
    it while `poll` waits."""

    def __init__(self, consumer: KafkaConsumer, store: Store) -> None:
        self._consumer = consumer
        self._store = store
        self.positions: dict[TopicPartition, int] = {}

    def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        """Do nothing, because processed records are in the store already."""

    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        """Seek to the position in the store of each assigned partition. The group's committed offsets are not used."""
        for partition in assigned:
            self.positions[partition] = self._store.position(partition.topic, partition.partition)
            self._consumer.seek(partition, self.positions[partition])


def run(job: Job, consumer: KafkaConsumer, store: Store) -> None:
    """Consume the input topic and store the effects of its records, until SIGTERM. Raises KafkaError if the client reports an error that it
    cannot resolve, and Overtaken if another process has stored effects of the same partition."""
    stop = stop_on_signal()
    listener = FromStore(consumer, store)
    # with these mistakes, the program starts at the group's committed offsets
    by_the_group = job.makes("commit-before-processing", "append-only-store")
    consumer.subscribe([job.input], listener=None if by_the_group else listener)
    while not stop.is_set():
        batches = consumer.poll(200)
        if job.makes("commit-before-processing") and batches:
            consumer.commit()  # MISTAKE: commits all polled records before any is processed
        for partition, batch in batches.items():
            records = [(record.key, record.value) for record in batch]
            if job.makes("commit-before-processing"):
                store.apply_by_key(records)
            elif job.makes("append-only-store"):
                store.append(records)  # MISTAKE: cannot detect records that it has already stored
            else:
                end = batch[-1].offset + 1
                store.apply(partition.topic, partition.partition, listener.positions[partition], end, records)
                listener.positions[partition] = end
        if batches and not job.makes("commit-before-processing"):
            commit(consumer)


def commit(consumer: KafkaConsumer) -> None:
    """Commit the consumer's positions to the group. A failure is only logged, because the offsets serve only to monitor the lag."""
    try:
        consumer.commit()
    except KafkaError as error:
        print("not committed:", repr(error), file=sys.stderr)


def main() -> int:
    """Run until SIGTERM or until this member cannot continue; return the exit code."""
    job = job_of("consumer", __doc__)
    store = Store(job.work)
    if job.result:
        print(*store.values(), sep="\n")
        return 0
    try:
        with closing(KafkaConsumer(**settings(job))) as consumer:
            run(job, consumer, store)
    except (KafkaError, Overtaken) as error:
        print("given up:", repr(error), file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
