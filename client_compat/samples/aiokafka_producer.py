"""A producer on aiokafka that writes each record exactly once, whatever happens to it, to the network or to the broker.

How:
- `transactional_id` is the same after each start of this instance: `start` (InitProducerId) ends the transaction that the predecessor
  left open, and fences it if it still runs. A transactional producer is idempotent: its retries cannot repeat or reorder records.
- After `start`, the producer reads from the topic, with read_committed, which records are written already. It is the topic's only writer,
  so no other producer's open transaction hides records (otherwise keep the progress with the records, or in a source that has offsets).
- Each future is awaited inside the transaction: aiokafka commits a transaction even when a send in it has failed.
- After an error the transaction is aborted, and a new producer reads again which records are missing; so it also finds out whether a
  commit without a response succeeded. A fenced producer ends: it has a successor, or its transaction took longer than
  `transaction_timeout_ms`. The supervisor decides whether to restart it.
"""

from __future__ import annotations

import asyncio
import sys
import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError, KafkaTimeoutError, ProducerFenced

from client_compat.samples.common import Job, Record, chunks, job_of, records_of

ATTEMPTS_MAX = 10
STOP_S = 2.0
WITHOUT_TRANSACTIONS = ("no-idempotence", "acks-one", "idempotence-only", "fire-and-forget")


def settings(job: Job) -> dict[str, Any]:
    """Return the producer's settings. Timeouts are short, to detect failures within seconds; use the defaults in production."""
    own: dict[str, Any] = {"bootstrap_servers": job.bootstrap, "acks": "all", "request_timeout_ms": 2000, "retry_backoff_ms": 50}
    if job.makes("no-idempotence"):
        return own  # MISTAKE: enable_idempotence is False by default
    if job.makes("acks-one"):
        return own | {"acks": 1}  # MISTAKE: and it is the default
    if job.makes("idempotence-only"):
        return own | {"enable_idempotence": True}  # MISTAKE: idempotence ends with the process
    if job.makes("fire-and-forget"):
        return own | {"retry_backoff_ms": 2000}  # MISTAKE: gives up before the first retry, see send_plainly
    name = f"{job.group}-producer-{job.instance}"
    if job.makes("random-transactional-id"):
        name = f"{job.group}-producer-{uuid.uuid4()}"  # MISTAKE: does not fence the predecessor
    return own | {"transactional_id": name, "transaction_timeout_ms": 10_000}


@asynccontextmanager
async def producing(job: Job) -> AsyncIterator[AIOKafkaProducer]:
    """Start a transactional producer, which fences the previous one with the same transactional id, and yield it. At the end, it is stopped
    within STOP_S seconds, because `stop` may block after an error."""
    producer = AIOKafkaProducer(**settings(job))
    try:
        await producer.start()
        yield producer
    finally:
        try:
            await asyncio.wait_for(producer.stop(), STOP_S)
        except (KafkaError, TimeoutError):
            await producer.client.close()


async def written(job: Job, producer: AIOKafkaProducer) -> set[bytes]:
    """Return the values of all committed records in the output topic."""
    values: set[bytes] = set()
    async with AIOKafkaConsumer(
        bootstrap_servers=job.bootstrap, isolation_level="read_committed", auto_offset_reset="earliest"
    ) as consumer:
        partitions = [TopicPartition(job.output, number) for number in await producer.partitions_for(job.output)]
        consumer.assign(partitions)
        for partition, end in (await consumer.end_offsets(partitions)).items():
            while await consumer.position(partition) < end:
                batches = await consumer.getmany(timeout_ms=100)
                values.update(record.value for batch in batches.values() for record in batch)
    return values


async def write(producer: AIOKafkaProducer, job: Job, chunk: Sequence[Record]) -> None:
    """Write the records of `chunk` in one transaction. Raises KafkaError if that fails. The transaction is then aborted, unless the
    producer was fenced or the program makes the mistake `redo-in-doubt`."""
    if job.makes("redo-in-doubt"):
        await write_in_haste(producer, job, chunk)
        return
    async with producer.transaction():
        sent = [await producer.send(job.output, value, key) for key, value in chunk]
        if job.makes("resend-on-timeout"):
            _, late = await asyncio.wait(sent, timeout=1)
            again = [record for record, future in zip(chunk, sent, strict=True) if future in late]
            sent = [await producer.send(job.output, value, key) for key, value in again]  # MISTAKE: the first copies are still in flight
        await asyncio.gather(*sent)


async def write_in_haste(producer: AIOKafkaProducer, job: Job, chunk: Sequence[Record]) -> None:
    """Write the records of `chunk` in one transaction, with the mistake `redo-in-doubt`: if the commit gets no response within one second,
    write the records again with a new producer, and raise KafkaTimeoutError. Raises another KafkaError if the broker rejects a request."""
    await producer.begin_transaction()
    await asyncio.gather(*[await producer.send(job.output, value, key) for key, value in chunk])
    try:
        await asyncio.wait_for(producer.commit_transaction(), 1)
    except TimeoutError:
        async with producing(job) as another, another.transaction():
            # MISTAKE: the first transaction was committed
            await asyncio.gather(*[await another.send(job.output, value, key) for key, value in chunk])
        raise KafkaTimeoutError from None


async def write_missing(job: Job, given_up: set[bytes]) -> bool:
    """Write all records that are neither in the topic yet nor in `given_up` (values of failed transactions that the mistake `ignore-aborts`
    does not repeat). Return True if all are written, False if a transaction failed and a new producer has to continue. Raises KafkaError if
    the producer was fenced or cannot start."""
    async with producing(job) as producer:
        done = await written(job, producer) | given_up
        for chunk in chunks([record for record in records_of(job) if record[1] not in done]):
            try:
                await write(producer, job, chunk)
            except KafkaError as error:
                print("transaction failed:", repr(error), file=sys.stderr)
                if job.makes("ignore-aborts"):
                    given_up.update(value for _, value in chunk)  # MISTAKE: a log message does not save the records
                elif isinstance(error, ProducerFenced):
                    raise
                return False
    return True


async def send_plainly(job: Job) -> None:
    """Produce all records of the job without transactions. A restarted program produces them all again, from the first."""
    async with producing(job) as producer:
        for chunk in chunks(records_of(job)):
            sent = [await producer.send(job.output, value, key) for key, value in chunk]
            if job.makes("fire-and-forget"):
                await producer.flush()  # MISTAKE: nobody checks the futures for errors
            else:
                await asyncio.gather(*sent)


async def main() -> int:
    """Run the producer. Return exit code 0 when all records are written, 1 if it gave up."""
    job = job_of("producer", __doc__)
    if job.makes(*WITHOUT_TRANSACTIONS):
        await send_plainly(job)
        return 0
    given_up: set[bytes] = set()
    for _ in range(ATTEMPTS_MAX):
        if await write_missing(job, given_up):
            return 0
    return 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
