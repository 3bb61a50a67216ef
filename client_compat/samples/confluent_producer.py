"""A producer on confluent-kafka (librdkafka) that writes each record exactly once, whatever happens to it, to the network or to the broker.

How:
- `transactional.id` is the same after each start of this instance: `init_transactions` ends the transaction that the predecessor left
  open, and fences it if it still runs. A transactional producer is idempotent: its retries cannot repeat or reorder records.
- After `init_transactions`, the producer reads from the topic, with read_committed, which records are written already. It is the topic's
  only writer, so no other open transaction hides records (otherwise keep the progress with the records, or in a source with offsets).
- `commit_transaction` flushes and fails when a record in the transaction has failed: no delivery report is needed for that.
- An error's flags say what to do: `retriable`, repeat the call; `txn_requires_abort`, abort and repeat the chunk; `fatal`, end. A fenced
  producer has a successor, or its transaction took longer than `transaction.timeout.ms`. The supervisor decides whether to restart it.
"""

from __future__ import annotations

import sys
import uuid
from collections.abc import Callable, Sequence
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Producer, TopicPartition

from client_compat.samples.common import Job, Record, chunks, job_of, records_of

ATTEMPTS_MAX = 10
ANSWER_S = 10.0
WITHOUT_TRANSACTIONS = ("no-idempotence", "acks-one", "idempotence-only", "fire-and-forget")


def settings(job: Job) -> dict[str, Any]:
    """Return the producer's settings. Timeouts are short, to detect failures within seconds; use the defaults in production."""
    own: dict[str, Any] = {
        "bootstrap.servers": job.bootstrap,
        "partitioner": "murmur2_random",  # the Java client's
        "socket.timeout.ms": 2000,
        "request.timeout.ms": 2000,
        "retry.backoff.ms": 50,
        "reconnect.backoff.ms": 50,
        "reconnect.backoff.max.ms": 250,
        "metadata.recovery.strategy": "none",  # with the default, rebootstrap, librdkafka 2.16 loses a single broker
    }
    if job.makes("no-idempotence"):
        return own  # MISTAKE: enable.idempotence is false by default
    if job.makes("acks-one"):
        return own | {"acks": 1}  # MISTAKE: faster, but loses records when a leader dies
    if job.makes("idempotence-only"):
        return own | {"enable.idempotence": True}  # MISTAKE: idempotence ends with the process
    if job.makes("fire-and-forget"):
        late = {"message.timeout.ms": 2000, "retry.backoff.ms": 4000, "retry.backoff.max.ms": 4000}
        return own | late | {"retries": 0}  # MISTAKE: gives up before the first retry, see send_plainly
    name = f"{job.group}-producer-{job.instance}"
    if job.makes("random-transactional-id"):
        name = f"{job.group}-producer-{uuid.uuid4()}"  # MISTAKE: does not fence the predecessor
    return own | {"transactional.id": name, "transaction.timeout.ms": 10_000}


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


def written(job: Job) -> set[bytes]:
    """Return the values of all committed records in the output topic."""
    consumer = Consumer(
        {
            "bootstrap.servers": job.bootstrap,
            "group.id": f"{job.group}-read-back",  # required by librdkafka; nothing is committed
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    values: set[bytes] = set()
    topic = consumer.list_topics(job.output, ANSWER_S).topics[job.output]
    if topic.error is not None:
        raise KafkaException(topic.error)
    unfinished = set(topic.partitions)
    consumer.assign([TopicPartition(job.output, partition, OFFSET_BEGINNING) for partition in unfinished])
    while unfinished:
        message = consumer.poll(1)
        if message is None:
            continue
        error = message.error()
        if error is None:
            values.add(message.value() or b"")
        elif error.code() == KafkaError._PARTITION_EOF:
            unfinished.discard(message.partition() or 0)
        else:
            raise KafkaException(error)
    consumer.close()
    return values


def write(producer: Producer, job: Job, chunk: Sequence[Record]) -> None:
    """Write the records of `chunk` in one transaction. Raises KafkaException if the transaction is not committed, or its outcome is
    unknown."""
    producer.begin_transaction()
    for key, value in chunk:
        producer.produce(job.output, value, key)
    if job.makes("resend-on-timeout") and (late := producer.flush(1)):
        for key, value in chunk[-late:]:
            producer.produce(job.output, value, key)  # MISTAKE: the first copies are still in flight
    if job.makes("redo-in-doubt"):
        producer.commit_transaction(1)  # MISTAKE: treats a commit that times out as failed, see write_missing
    else:
        insist(producer.commit_transaction)


def open_producer(job: Job) -> Producer:
    """Return a transactional producer. It has fenced the previous producer with the same transactional id. Raises KafkaException if the
    broker rejects it or does not answer in time."""
    producer = Producer(settings(job))
    insist(producer.init_transactions)
    return producer


def write_missing(job: Job) -> None:
    """Write all records that are not in the topic yet. Raises KafkaException if this producer cannot continue."""
    producer = open_producer(job)
    done = written(job)
    left = list(chunks([record for record in records_of(job) if record[1] not in done]))
    failures = 0
    while left:
        try:
            write(producer, job, left[0])
        except KafkaException as error:
            print("transaction failed:", error, file=sys.stderr)
            failures += 1
            if job.makes("redo-in-doubt") and error.args[0].retriable():
                producer = open_producer(job)  # MISTAKE: does not check whether the transaction was committed
                continue
            if job.makes("ignore-aborts"):
                producer = open_producer(job)  # MISTAKE: continues with the next chunk; a log message does not save this one
            elif error.args[0].txn_requires_abort() and failures < ATTEMPTS_MAX:
                insist(producer.abort_transaction)
                continue
            else:
                raise
        left.pop(0)


def send_plainly(job: Job) -> None:
    """Write all records without transactions, for the mistakes in `WITHOUT_TRANSACTIONS`. A restarted program writes them all again, from
    the first. Raises KafkaException if a record cannot be written."""
    producer = Producer(settings(job))
    failed: list[KafkaError] = []
    for chunk in chunks(records_of(job)):
        for key, value in chunk:
            producer.produce(job.output, value, key, on_delivery=lambda error, _: failed.append(error) if error else None)
        producer.flush()
        if failed and not job.makes("fire-and-forget"):  # MISTAKE: nobody checks the delivery reports for errors
            raise KafkaException(failed[0])


def main() -> int:
    """Run the producer. Return exit code 0 when all records are written, 1 if it gave up."""
    job = job_of("producer", __doc__)
    try:
        send_plainly(job) if job.makes(*WITHOUT_TRANSACTIONS) else write_missing(job)
    except KafkaException as error:
        print("given up:", error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
