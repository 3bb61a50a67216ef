"""A producer on kafka-python that writes each record exactly once, whatever happens to it, to the network or to the broker.

How:
- `transactional_id` is the same after each start of this instance: `init_transactions` ends the transaction that the predecessor left
  open, and fences it if it still runs. A transactional producer is idempotent: its retries cannot repeat or reorder records.
- After `init_transactions`, the producer reads from the topic, with read_committed, which records are written already. It is the topic's
  only writer, so no other open transaction hides records (otherwise keep the progress with the records, or in a source with offsets).
- Each future's result is checked before the commit: kafka-python 3.0 commits a transaction even if a send in it has failed (after
  OUT_OF_ORDER_SEQUENCE_NUMBER it increments its epoch and continues, as outside of transactions).
- After an error a new producer ends the old one's transaction (`abort_transaction` may wait for ever after a rejected send), and reads
  again which records are missing; so it also finds out whether a commit without a response succeeded. A fenced producer ends: it has a
  successor, or its transaction took longer than `transaction_timeout_ms`. The supervisor decides whether to restart it.
"""

from __future__ import annotations

import sys
import threading
import uuid
from collections.abc import Sequence
from contextlib import closing
from typing import Any

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import KafkaError, KafkaTimeoutError, ProducerFencedError

from client_compat.samples.common import Job, Record, chunks, job_of, records_of

ATTEMPTS_MAX = 10
ANSWER_S = 30.0
CLOSE_S = 1.0
WITHOUT_TRANSACTIONS = ("no-idempotence", "acks-one", "idempotence-only", "fire-and-forget")


def settings(job: Job) -> dict[str, Any]:
    """Return the producer's settings. Timeouts are short, to detect failures within seconds; use the defaults in production."""
    own: dict[str, Any] = {
        "bootstrap_servers": job.bootstrap,
        "request_timeout_ms": 2000,
        "max_block_ms": 10_000,  # also limits init_transactions; then the supervisor decides
        "retry_backoff_ms": 50,
        "reconnect_backoff_max_ms": 250,
    }
    if job.makes("no-idempotence"):
        return own | {"enable_idempotence": False}  # MISTAKE: as in all examples for versions before 3.0
    if job.makes("acks-one"):
        return own | {"enable_idempotence": False, "acks": 1}  # MISTAKE: as in all examples for versions before 3.0
    if job.makes("idempotence-only"):
        return own  # MISTAKE: idempotence, the default since 3.0, ends with the process
    if job.makes("fire-and-forget"):
        return own | {"enable_idempotence": False, "acks": "all", "retries": 0}  # MISTAKE: gives up early, see send_plainly
    name = f"{job.group}-producer-{job.instance}"
    if job.makes("random-transactional-id"):
        name = f"{job.group}-producer-{uuid.uuid4()}"  # MISTAKE: does not fence the predecessor
    return own | {"transactional_id": name, "transaction_timeout_ms": 10_000}


def written(job: Job, producer: KafkaProducer) -> set[bytes]:
    """Return the values of all committed records in the output topic."""
    values: set[bytes] = set()
    with closing(
        KafkaConsumer(bootstrap_servers=job.bootstrap, isolation_level="read_committed", auto_offset_reset="earliest")
    ) as consumer:
        partitions = [TopicPartition(job.output, number) for number in producer.partitions_for(job.output)]
        consumer.assign(partitions)
        for partition, end in consumer.end_offsets(partitions).items():
            while consumer.position(partition) < end:
                values.update(record.value for batch in consumer.poll(100).values() for record in batch)
    return values


def write(producer: KafkaProducer, job: Job, chunk: Sequence[Record]) -> None:
    """Write the records of `chunk` in one transaction. Raises KafkaError if the transaction is not committed, or its outcome is unknown."""
    producer.begin_transaction()
    sent = [producer.send(job.output, value, key) for key, value in chunk]
    if job.makes("resend-on-timeout"):
        for (key, value), future in zip(chunk, sent, strict=True):
            try:
                future.get(timeout=1)
            except KafkaTimeoutError:
                producer.send(job.output, value, key)  # MISTAKE: the first copy is still in flight
    else:
        for future in sent:
            future.get(timeout=ANSWER_S)
    if job.makes("redo-in-doubt"):
        commit_in_haste(producer, job, chunk)
    else:
        producer.commit_transaction()


def commit_in_haste(producer: KafkaProducer, job: Job, chunk: Sequence[Record]) -> None:
    """Commit the open transaction of `producer`, with the mistake `redo-in-doubt`: if there is no response within one second, write the
    records of `chunk` again with a new producer, and raise KafkaTimeoutError."""
    committing = threading.Thread(target=producer.commit_transaction, daemon=True)
    committing.start()
    committing.join(1)
    if committing.is_alive():
        again = KafkaProducer(**settings(job))
        again.init_transactions()
        again.begin_transaction()
        for key, value in chunk:
            again.send(job.output, value, key)  # MISTAKE: the first transaction was committed
        again.commit_transaction()
        again.close(timeout=CLOSE_S)
        raise KafkaTimeoutError("the commit took too long")


def write_missing(job: Job, given_up: set[bytes]) -> bool:
    """Write all records that are neither in the topic yet nor in `given_up` (values of failed transactions that the mistake `ignore-aborts`
    does not repeat). Return True if all are written, False if a transaction failed and a new producer has to continue. Raises KafkaError if
    the producer was fenced or cannot start."""
    producer = KafkaProducer(**settings(job))
    try:
        producer.init_transactions()
        done = written(job, producer) | given_up
        for chunk in chunks([record for record in records_of(job) if record[1] not in done]):
            try:
                write(producer, job, chunk)
            except KafkaError as error:
                print("transaction failed:", repr(error), file=sys.stderr)
                if job.makes("ignore-aborts"):
                    given_up.update(value for _, value in chunk)  # MISTAKE: a log message does not save the records
                elif isinstance(error, ProducerFencedError):
                    raise
                return False
    finally:
        producer.close(timeout=CLOSE_S)
    return True


def send_plainly(job: Job) -> None:
    """Write all records without transactions, for the mistakes in `WITHOUT_TRANSACTIONS`. A restarted program writes them all again, from
    the first. Raises KafkaError if a record cannot be written."""
    with closing(KafkaProducer(**settings(job))) as producer:
        for chunk in chunks(records_of(job)):
            sent = [producer.send(job.output, value, key) for key, value in chunk]
            producer.flush()
            if not job.makes("fire-and-forget"):  # MISTAKE: nobody checks the futures for errors
                for future in sent:
                    future.get(timeout=ANSWER_S)


def main() -> int:
    """Run the producer. Return exit code 0 when all records are written, 1 if it gave up."""
    job = job_of("producer", __doc__)
    try:
        if job.makes(*WITHOUT_TRANSACTIONS):
            send_plainly(job)
            return 0
        given_up: set[bytes] = set()
        return 0 if any(write_missing(job, given_up) for _ in range(ATTEMPTS_MAX)) else 1
    except KafkaError as error:
        print("given up:", repr(error), file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
