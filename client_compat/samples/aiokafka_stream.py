"""A stream on aiokafka: reads the input, writes one record for each, and each exactly once into the committed output.

How:
- Output and offsets are in one transaction: both are committed, or neither. The consumer does not commit, and reads read_committed.
- aiokafka (0.14) cannot send the group metadata with the offsets (KIP-447), so a member that lost its partition must be fenced as before
  KIP-447: by a producer for each input partition, with a `transactional_id` derived from the partition.
  The partition's next owner ends the predecessor's transaction with `start`, and only then fetches the committed offset.
- Each record is written to the partition with the number of its input partition, so the order within a partition is kept.
- After an error, the stream opens a new producer and seeks to the committed offset, in the same way. A fenced stream ends: its partition
  has another owner, or the transaction took longer than `transaction_timeout_ms`. The supervisor starts it again.
- A rebalance waits until the current transaction has ended (the lock). `group_instance_id` gives a restarted member its partitions back
  without a rebalance.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, ConsumerRecord, TopicPartition
from aiokafka.errors import KafkaError, ProducerFenced

from client_compat.samples.common import CHUNK_RECORDS, Job, job_of, stop_on_signal

STOP_S = 2.0


def consumer_settings(job: Job) -> dict[str, Any]:
    """Return the consumer's settings. Timeouts are short, to detect failures within seconds; use the defaults in production."""
    return {
        "bootstrap_servers": job.bootstrap,
        "group_id": job.group,
        "group_instance_id": f"{job.group}-{job.instance}",
        "session_timeout_ms": 6000,
        "heartbeat_interval_ms": 500,
        "request_timeout_ms": 7000,
        "retry_backoff_ms": 50,
        "auto_offset_reset": "earliest",
        "isolation_level": "read_uncommitted" if job.makes("read-uncommitted") else "read_committed",  # MISTAKE: and it is the default
        "enable_auto_commit": job.makes("auto-commit"),  # MISTAKE: and it is the default
        "auto_commit_interval_ms": 1000,
    }


class Stream(ConsumerRebalanceListener):  # type: ignore[misc]  # aiokafka has no types
    """A rebalance listener that has a transactional producer for each partition that this member has taken over."""

    def __init__(self, job: Job, consumer: AIOKafkaConsumer) -> None:
        self._job = job
        self._consumer = consumer
        self._producers: dict[TopicPartition, AIOKafkaProducer] = {}
        self._joined = False
        self._lock = asyncio.Lock()

    async def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        """Stop the producers of all partitions before this member rejoins the group. Waits for the current transaction."""
        async with self._lock:
            self._joined = False
            await self.release(list(self._producers))

    async def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        """Allow `process` to work again after a rebalance. It first takes over each assigned partition, and then starts at the partition's
        committed offset."""
        self._joined = True

    async def process(self, batches: dict[TopicPartition, list[ConsumerRecord]]) -> None:
        """Write an output record for each input record, in one transaction per partition. If this member has not taken over a partition
        yet, it does only that: the partition's records are fetched again, from the committed offset.

        Raises ProducerFenced, or the KafkaError of a new producer that cannot start.
        """
        async with self._lock:
            for partition, records in batches.items() if self._joined else ():
                producer = self._producers.get(partition)
                if producer is None:
                    await self._take_over(partition)
                    continue
                try:
                    await self._write(producer, partition, records)
                except ProducerFenced:
                    raise
                except KafkaError as error:
                    print("transaction failed:", repr(error), file=sys.stderr)
                    await self.release([partition])
                    await self._take_over(partition)

    async def _take_over(self, partition: TopicPartition) -> None:
        """Start a producer for the partition, which fences the previous owner's producer. After that, seek to the committed offset, which
        the previous owner can no longer change. Raises KafkaError if the producer cannot start."""
        self._producers[partition] = producer = AIOKafkaProducer(
            bootstrap_servers=self._job.bootstrap,
            transactional_id=f"{self._job.group}-{partition.topic}-{partition.partition}",
            transaction_timeout_ms=10_000,
            request_timeout_ms=2000,
            retry_backoff_ms=50,
        )
        await producer.start()
        committed = await self._consumer.committed(partition)
        if committed is None:
            await self._consumer.seek_to_beginning(partition)
        else:
            self._consumer.seek(partition, committed)

    async def _write(self, producer: AIOKafkaProducer, partition: TopicPartition, records: Sequence[ConsumerRecord]) -> None:
        async with producer.transaction():
            sent = [await producer.send(self._job.output, b"out of " + one.value, one.key, partition.partition) for one in records]
            if not self._job.makes("auto-commit"):
                await producer.send_offsets_to_transaction({partition: records[-1].offset + 1}, self._job.group)
            await asyncio.gather(*sent)  # aiokafka commits a transaction even if a send in it has failed

    async def release(self, partitions: Iterable[TopicPartition]) -> None:
        """Stop the producers of these partitions, each within STOP_S seconds, because `stop` may block after an error."""
        for producer in [self._producers.pop(partition) for partition in partitions]:
            with suppress(KafkaError, TimeoutError):
                await asyncio.wait_for(producer.stop(), STOP_S)
            await producer.client.close()

    async def end(self) -> None:
        """Stop the producers of all partitions, at the end of the program."""
        await self.release(list(self._producers))


async def main() -> int:
    """Run until SIGTERM or until this member cannot continue; return the exit code."""
    job, stop = job_of("stream", __doc__), stop_on_signal()
    async with AIOKafkaConsumer(**consumer_settings(job)) as consumer:
        stream = Stream(job, consumer)
        consumer.subscribe([job.input], listener=stream)
        try:
            while not stop.is_set():
                await stream.process(await consumer.getmany(timeout_ms=200, max_records=CHUNK_RECORDS))
        except KafkaError as error:
            print("given up:", repr(error), file=sys.stderr)
            return 1
        finally:
            await stream.end()
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
