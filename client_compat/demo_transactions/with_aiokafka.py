"""The instance of the demo's consume-transform-produce pipeline that uses aiokafka."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import IllegalOperation, InvalidProducerEpoch, KafkaError, ProducerFenced

from client_compat.demo_transactions.counting import Chunk, Increment
from client_compat.demo_transactions.instance import (
    CHUNK_RECORDS,
    INPUT,
    INPUT_PARTITIONS,
    RESPONSE_TIMEOUT_S,
    TRANSACTION_TIMEOUT_MS,
    Failed,
    Fenced,
    InstanceTask,
    PipelineInstance,
)

BACKOFF_MS = 20
READ_MS = 200
STOP_S = 2.0


@asynccontextmanager
async def _sorted_errors() -> AsyncIterator[None]:
    """Convert exceptions of aiokafka to `Fenced` (another instance has fenced this one) or `Failed` (any other error). Also raises `Failed`
    if the block takes longer than RESPONSE_TIMEOUT_S."""
    try:
        async with asyncio.timeout(RESPONSE_TIMEOUT_S):
            yield
    except (ProducerFenced, InvalidProducerEpoch) as error:
        raise Fenced(repr(error)) from error
    except (KafkaError, IllegalOperation, TimeoutError) as error:
        raise Failed(repr(error)) from error


class AiokafkaInstance(PipelineInstance):
    """A pipeline instance whose consumer and producer are aiokafka's."""

    def __init__(self, job: InstanceTask) -> None:
        self._job = job
        self._consumer: AIOKafkaConsumer | None = None
        self._producer: AIOKafkaProducer | None = None
        self._partitions = [TopicPartition(INPUT, partition) for partition in range(INPUT_PARTITIONS)]

    async def take_over(self) -> dict[int, int]:
        await self._drop_producer()
        async with _sorted_errors():
            if self._consumer is None:
                self._consumer = await self._new_consumer()
            self._producer = self._new_producer()
            await self._producer.start()
            positions = await self.committed()
            for tp in self._partitions:
                self._consumer.seek(tp, positions[tp.partition])
        return positions

    async def ends(self) -> dict[int, int]:
        async with _sorted_errors():
            return {tp.partition: end for tp, end in (await self._reader.end_offsets(self._partitions)).items()}

    async def committed(self) -> dict[int, int]:
        async with _sorted_errors():
            found = await asyncio.gather(*(self._reader.committed(tp) for tp in self._partitions))
        return {tp.partition: offset or 0 for tp, offset in zip(self._partitions, found, strict=True)}

    async def read(self) -> list[Chunk]:
        async with _sorted_errors():
            batches = await self._reader.getmany(timeout_ms=READ_MS, max_records=CHUNK_RECORDS)
        return [Chunk(tp.partition, rs[0].offset, [(r.key, r.value) for r in rs]) for tp, rs in batches.items() if rs]

    async def write(self, output: list[Increment]) -> None:
        producer = self._writer
        async with _sorted_errors():
            if self._job.transactional:
                await producer.begin_transaction()
            sent = [await producer.send(self._job.output, increment.value(), increment.key) for increment in output]
            await asyncio.gather(*sent)

    async def commit(self, positions: dict[int, int]) -> None:
        offsets = {TopicPartition(INPUT, partition): offset for partition, offset in positions.items()}
        async with _sorted_errors():
            if self._job.transactional:
                await self._writer.send_offsets_to_transaction(offsets, self._job.group)
                await self._writer.commit_transaction()
            else:
                await self._reader.commit(offsets)

    async def close(self) -> None:
        await self._drop_producer()
        if self._consumer is not None:
            await self._consumer.stop()

    @property
    def _reader(self) -> AIOKafkaConsumer:
        assert self._consumer is not None, "an instance takes over first"
        return self._consumer

    @property
    def _writer(self) -> AIOKafkaProducer:
        assert self._producer is not None, "an instance takes over first"
        return self._producer

    async def _new_consumer(self) -> AIOKafkaConsumer:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=self._job.bootstrap,
            group_id=self._job.group,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
            retry_backoff_ms=BACKOFF_MS,
        )
        try:
            await consumer.start()
        except KafkaError:
            await consumer.stop()
            raise
        consumer.assign(self._partitions)
        return consumer

    def _new_producer(self) -> AIOKafkaProducer:
        return AIOKafkaProducer(
            bootstrap_servers=self._job.bootstrap,
            acks="all",
            enable_idempotence=True,
            transactional_id=self._job.transactional_id if self._job.transactional else None,
            transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
            linger_ms=5,
            retry_backoff_ms=BACKOFF_MS,
        )

    async def _drop_producer(self) -> None:
        """Stop the producer, if there is one. A transaction that it leaves open is ended by the next producer, which sends InitProducerId
        with the same transactional id."""
        producer, self._producer = self._producer, None
        if producer is None:
            return
        try:
            async with asyncio.timeout(STOP_S):
                await producer.stop()
        except (KafkaError, TimeoutError):
            await producer.client.close()
