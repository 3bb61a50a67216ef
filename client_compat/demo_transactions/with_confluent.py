"""The instance of the demo's consume-transform-produce pipeline that uses confluent-kafka (librdkafka). Its calls block the event loop,
which does no harm: the instance is alone in its process."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.cimpl import KafkaError

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
READ_S = 0.2
FENCINGS = frozenset({KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH})
_LOGGER = logging.getLogger("confluent-kafka")


@contextmanager
def _sorted_errors() -> Iterator[None]:
    """Convert exceptions of confluent-kafka to `Fenced` (another instance has fenced this one) or `Failed` (any other error).
    confluent-kafka reports a fatal error as a SystemError whose cause is the KafkaException, because the exception is raised within
    confluent-kafka's own callbacks."""
    try:
        yield
    except (KafkaException, SystemError) as error:
        source = error.__cause__ if isinstance(error, SystemError) else error
        if not isinstance(source, KafkaException):
            raise
        cause = source.args[0]
        raise (Fenced if cause.code() in FENCINGS else Failed)(str(cause)) from error


class ConfluentInstance(PipelineInstance):
    """A pipeline instance whose consumer and producer are confluent-kafka's."""

    def __init__(self, job: InstanceTask) -> None:
        self._job = job
        self._common = {
            "bootstrap.servers": job.bootstrap,
            "retry.backoff.ms": BACKOFF_MS,
            "reconnect.backoff.ms": BACKOFF_MS,
            "reconnect.backoff.max.ms": 5 * BACKOFF_MS,
            # The default, rebootstrap, replaces the handle of a lost broker. librdkafka 2.16 then waits forever for the old one to
            # reconnect when it sends offsets to the group coordinator.
            "metadata.recovery.strategy": "none",
        }
        self._consumer = Consumer(
            {
                **self._common,
                "group.id": job.group,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
            },
            logger=_LOGGER,
        )
        self._producer: Producer | None = None
        self._partitions = [TopicPartition(INPUT, partition) for partition in range(INPUT_PARTITIONS)]

    async def take_over(self) -> dict[int, int]:
        with _sorted_errors():
            self._consumer.unassign()
            self._producer = self._new_producer()
            if self._job.transactional:
                self._producer.init_transactions(RESPONSE_TIMEOUT_S)
            positions = await self.committed()
            self._consumer.assign([TopicPartition(INPUT, partition, offset) for partition, offset in positions.items()])
        return positions

    async def ends(self) -> dict[int, int]:
        with _sorted_errors():
            return {tp.partition: self._consumer.get_watermark_offsets(tp, RESPONSE_TIMEOUT_S)[1] for tp in self._partitions}

    async def committed(self) -> dict[int, int]:
        with _sorted_errors():
            return {tp.partition: max(0, tp.offset) for tp in self._consumer.committed(self._partitions, RESPONSE_TIMEOUT_S)}

    async def read(self) -> list[Chunk]:
        chunks: dict[int, Chunk] = {}
        with _sorted_errors():
            for message in self._consumer.consume(CHUNK_RECORDS, READ_S):
                if message.error() is not None:
                    raise Failed(str(message.error()))
                partition, offset = message.partition(), message.offset()
                if partition is None or offset is None:
                    raise Failed("a message without a place")
                chunk = chunks.setdefault(partition, Chunk(partition, offset, []))
                chunk.records.append((message.key() or b"", message.value() or b""))
        return list(chunks.values())

    async def write(self, output: list[Increment]) -> None:
        with self._in_transaction() as producer:
            if self._job.transactional:
                producer.begin_transaction()
            refused: list[KafkaError] = []

            def delivered(error: KafkaError | None, _message: object) -> None:
                if error is not None:
                    refused.append(error)

            for increment in output:
                producer.produce(self._job.output, increment.value(), increment.key, on_delivery=delivered)
            if producer.flush(RESPONSE_TIMEOUT_S):
                raise Failed("not everything was acknowledged in time")
            if refused and not self._job.transactional:  # in a transaction, the commit reports it with the reason
                raise Failed(str(refused[0]))

    async def commit(self, positions: dict[int, int]) -> None:
        offsets = [TopicPartition(INPUT, partition, offset) for partition, offset in positions.items()]
        with self._in_transaction() as producer:
            if self._job.transactional:
                producer.send_offsets_to_transaction(offsets, self._consumer.consumer_group_metadata(), RESPONSE_TIMEOUT_S)
                producer.commit_transaction(RESPONSE_TIMEOUT_S)
                return
            for committed in self._consumer.commit(offsets=offsets, asynchronous=False):
                if committed.error is not None:
                    raise Failed(str(committed.error))

    @contextmanager
    def _in_transaction(self) -> Iterator[Producer]:
        """Yield the producer. If a call fails with an error after which librdkafka requires an abort, abort the transaction. Raises
        `Fenced` if the call or the abort fails because this producer was fenced, otherwise `Failed`."""
        assert self._producer is not None, "an instance takes over first"
        with _sorted_errors():
            try:
                yield self._producer
            except KafkaException as error:
                if error.args[0].txn_requires_abort():
                    self._producer.abort_transaction(RESPONSE_TIMEOUT_S)
                raise

    async def close(self) -> None:
        self._consumer.close()

    def _new_producer(self) -> Producer:
        own: dict[str, object] = {"enable.idempotence": True, "linger.ms": 5, "partitioner": "murmur2_random"}
        if self._job.transactional:
            own |= {"transactional.id": self._job.transactional_id, "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS}
        return Producer({**self._common, **own}, logger=_LOGGER)
