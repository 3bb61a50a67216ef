"""A stream on kafka-python: reads the input, writes one record for each, and each exactly once into the committed output.

How:
- Output and offsets are in one transaction: both are committed, or neither. The consumer does not commit, and reads read_committed.
- `group_metadata` goes with the offsets (KIP-447): a member that has lost its partitions unnoticed is rejected, whatever its
  `transactional_id`. While an open transaction contains a newer offset, the broker does not give the next owner the old one.
- Each instance has its own `transactional_id`: after a restart it ends the transaction that its predecessor left open, and fences it.
- Each record is written to the partition with the number of its input partition, so the order within a partition is kept.
- After an error, the stream opens a new producer, which ends the old one's transaction, and seeks to the committed offsets. If the producer
  was fenced, the program ends, and its supervisor starts it again.
- Rebalances happen only in `poll`, between two transactions, so no rebalance listener is needed. `group_instance_id` gives a restarted
  member its partitions back without a rebalance.
"""

from __future__ import annotations

import sys
from contextlib import closing
from typing import Any

from kafka import KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition
from kafka.errors import KafkaError, ProducerFencedError

from client_compat.samples.common import CHUNK_RECORDS, Job, job_of, stop_on_signal

ANSWER_S = 30.0
Batches = dict[TopicPartition, list[Any]]


def consumer_settings(job: Job) -> dict[str, Any]:
    """Return the consumer's settings. Timeouts are short, to detect failures within seconds; use the defaults in production."""
    return {
        "bootstrap_servers": job.bootstrap,
        "retry_backoff_ms": 50,
        "reconnect_backoff_max_ms": 250,
        "group_id": job.group,
        "group_instance_id": f"{job.group}-{job.instance}",
        "session_timeout_ms": 6000,
        "heartbeat_interval_ms": 500,
        "request_timeout_ms": 7000,
        "auto_offset_reset": "earliest",
        "isolation_level": "read_uncommitted" if job.makes("read-uncommitted") else "read_committed",  # MISTAKE: and it is the default
        "enable_auto_commit": job.makes("auto-commit"),  # MISTAKE: and it is the default
        "auto_commit_interval_ms": 1000,
        "max_poll_records": CHUNK_RECORDS,
    }


def open_producer(job: Job) -> KafkaProducer:
    """Return a transactional producer. It has fenced the previous producer with the same transactional id, and aborted that producer's
    transaction. Raises KafkaError if the broker rejects it or does not answer in time."""
    producer = KafkaProducer(
        bootstrap_servers=job.bootstrap,
        transactional_id=f"{job.group}-{job.instance}",
        transaction_timeout_ms=10_000,
        max_block_ms=10_000,  # limits init_transactions; then the supervisor decides
        request_timeout_ms=2000,
        retry_backoff_ms=50,
        reconnect_backoff_max_ms=250,
    )
    producer.init_transactions()
    return producer


def process(job: Job, consumer: KafkaConsumer, producer: KafkaProducer, batches: Batches) -> None:
    """Write an output record for each input record, and commit these records and the consumer's positions in one transaction. Raises
    KafkaError if that fails; the caller then continues with a new producer, which aborts the transaction."""
    producer.begin_transaction()
    sent = [
        producer.send(job.output, b"out of " + record.value, record.key, partition=partition.partition)
        for partition, records in batches.items()
        for record in records
    ]
    for future in sent:
        future.get(timeout=ANSWER_S)  # otherwise the transaction would be committed without rejected records
    if not job.makes("auto-commit"):
        ends = {partition: OffsetAndMetadata(records[-1].offset + 1, "", -1) for partition, records in batches.items()}
        producer.send_offsets_to_transaction(ends, consumer.group_metadata())
    producer.commit_transaction()


def rewind(consumer: KafkaConsumer) -> None:
    """Seek to the group's committed offsets after an aborted transaction, so that the transaction's input records are processed again."""
    for partition in consumer.assignment():
        committed = consumer.committed(partition)
        if committed is None:
            consumer.seek_to_beginning(partition)
        else:
            consumer.seek(partition, committed)


def run(job: Job, consumer: KafkaConsumer) -> None:
    """Process input records until SIGTERM. After a failed transaction, continue with a new producer at the committed offsets. Raises
    KafkaError if the producer was fenced or a new one cannot be opened."""
    stop = stop_on_signal()
    producer = open_producer(job)
    consumer.subscribe([job.input])
    while not stop.is_set():
        batches = consumer.poll(200)
        if not batches:
            continue
        try:
            process(job, consumer, producer, batches)
        except ProducerFencedError:
            raise
        except KafkaError as error:
            print("transaction failed:", repr(error), file=sys.stderr)
            producer.close(timeout=1)
            producer = open_producer(job)
            rewind(consumer)
    producer.close(timeout=1)


def main() -> int:
    """Run until SIGTERM or until this member cannot continue; return the exit code."""
    job = job_of("stream", __doc__)
    try:
        with closing(KafkaConsumer(**consumer_settings(job))) as consumer:
            run(job, consumer)
    except KafkaError as error:
        print("given up:", repr(error), file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
