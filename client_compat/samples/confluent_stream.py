"""A stream on confluent-kafka (librdkafka): reads the input, writes one record for each, and each exactly once into the committed output.

How:
- Output and offsets are in one transaction: both are committed, or neither. The consumer does not commit, and reads read_committed.
- `consumer_group_metadata` goes with the offsets (KIP-447): a member that has lost its partitions unnoticed is rejected, whatever its
  `transactional.id`. While an open transaction contains a newer offset, the broker does not give the next owner the old one.
- Each instance has its own `transactional.id`: after a restart it ends the transaction that its predecessor left open, and fences it.
- Each record is written to the partition with the number of its input partition, so the order within a partition is kept.
- After an error that requires an abort, the stream aborts and seeks to the committed offsets. A fatal error ends the program, and its
  supervisor starts it again.
- Rebalances happen only in `consume`, between two transactions, so no rebalance listener is needed. `group.instance.id` gives a restarted
  member its partitions back without a rebalance.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Message, Producer, TopicPartition

from client_compat.samples.common import CHUNK_RECORDS, Job, job_of, stop_on_signal

ATTEMPTS_MAX = 10
ANSWER_S = 10.0


def common_settings(job: Job) -> dict[str, Any]:
    """Return the settings that the consumer and the producer share. Timeouts are short, to detect failures within seconds; use the defaults
    in production."""
    return {
        "bootstrap.servers": job.bootstrap,
        "retry.backoff.ms": 50,
        "reconnect.backoff.ms": 50,
        "reconnect.backoff.max.ms": 250,
        # The default, rebootstrap, replaces the handle of a lost broker. librdkafka 2.16 then waits forever for the old one to reconnect
        # when it sends offsets to the group coordinator.
        "metadata.recovery.strategy": "none",
    }


def consumer_settings(job: Job) -> dict[str, Any]:
    """Return the consumer's settings: a static member of the group, read_committed, and no automatic commits."""
    return common_settings(job) | {
        "group.id": job.group,
        "group.instance.id": f"{job.group}-{job.instance}",
        "session.timeout.ms": 6000,
        "heartbeat.interval.ms": 500,
        "auto.offset.reset": "earliest",
        "isolation.level": "read_uncommitted" if job.makes("read-uncommitted") else "read_committed",  # MISTAKE
        "enable.auto.commit": job.makes("auto-commit"),  # MISTAKE: and it is the default
        "auto.commit.interval.ms": 1000,
    }


def producer_settings(job: Job) -> dict[str, Any]:
    """Return the producer's settings: a transactional id that stays the same after a restart, and short timeouts."""
    return common_settings(job) | {
        "transactional.id": f"{job.group}-{job.instance}",
        "transaction.timeout.ms": 10_000,
        "socket.timeout.ms": 2000,
        "request.timeout.ms": 2000,
    }


def insist(call: Callable[[float], None]) -> None:
    """Call `call`, a transactional function that gets a time limit in seconds, until it succeeds. After a retriable error or a timeout, the
    next call continues where the previous one stopped. Raises KafkaException for another error, and after ATTEMPTS_MAX calls."""
    for left in reversed(range(ATTEMPTS_MAX)):
        try:
            call(ANSWER_S)
            break
        except KafkaException as error:
            if not error.args[0].retriable() or not left:
                raise


def process(job: Job, consumer: Consumer, producer: Producer, messages: Sequence[Message]) -> None:
    """Write an output record for each input record, and commit these records and the consumer's positions in one transaction. Raises
    KafkaException if that fails; the caller then aborts the transaction or ends the program."""
    producer.begin_transaction()
    for message in messages:
        if (error := message.error()) is not None:
            raise KafkaException(error)
        producer.produce(job.output, b"out of " + (message.value() or b""), message.key(), message.partition() or 0)
    if not job.makes("auto-commit"):
        positions = [position for position in consumer.position(consumer.assignment()) if position.offset >= 0]
        member = consumer.consumer_group_metadata()
        insist(lambda timeout: producer.send_offsets_to_transaction(positions, member, timeout))
    insist(producer.commit_transaction)


def rewind(consumer: Consumer) -> None:
    """Seek to the group's committed offsets after an aborted transaction, so that the transaction's input records are processed again."""
    for committed in consumer.committed(consumer.assignment(), ANSWER_S):
        offset = committed.offset if committed.offset >= 0 else OFFSET_BEGINNING
        consumer.seek(TopicPartition(committed.topic, committed.partition, offset))


def run(job: Job, consumer: Consumer, producer: Producer) -> None:
    """Process input records until SIGTERM. A transaction that fails is aborted and repeated. Raises KafkaException if this member cannot
    continue."""
    stop = stop_on_signal()
    insist(producer.init_transactions)
    consumer.subscribe([job.input])
    while not stop.is_set():
        messages = consumer.consume(CHUNK_RECORDS, 0.2)
        if not messages:
            continue
        try:
            process(job, consumer, producer, messages)
        except KafkaException as error:
            print("transaction failed:", error, file=sys.stderr)
            if not error.args[0].txn_requires_abort():
                raise
            insist(producer.abort_transaction)
            rewind(consumer)


def main() -> int:
    """Run until SIGTERM or until this member cannot continue; return the exit code."""
    job = job_of("stream", __doc__)
    consumer = Consumer(consumer_settings(job))
    try:
        run(job, consumer, Producer(producer_settings(job)))
    except KafkaException as error:
        print("given up:", error, file=sys.stderr)
        return 1
    finally:
        consumer.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
