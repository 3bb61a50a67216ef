"""Writes records to the dead letter queues of share groups that have given up delivering them (KIP-1191; Kafka's
ShareGroupDLQStateManager).

Rules:
* The broker writes with its own rights: neither the group's member nor the record's producer needs access to the queue. Therefore a topic
  can be a queue only if its errors.deadletterqueue.group.enable is true and its name begins with errors.deadletterqueue.topic.name.prefix.
* A queue that does not exist is created, with the broker's defaults, only with errors.deadletterqueue.auto.create.topics.enable.
* The dead letters of a partition go to the queue's partition with the same index, modulo the queue's partition count.
* Dead letters are written with acks=all, in the order in which the group gave up their records, one range at a time.
* A queue's partition may have its leader on another broker, which gets the dead letters in a Produce request. An append that fails because
  the leader moves or cannot be reached is retried with growing delays, ATTEMPTS times in all; meanwhile other groups' queues are written.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Final
from weakref import WeakValueDictionary

from ottla.broker.cluster.catalog import Catalog
from ottla.broker.cluster.image import ResourceType, TopicImage
from ottla.broker.cluster.metadata_records import NO_LEADER
from ottla.broker.configs.broker_config import BrokerConfigs
from ottla.broker.configs.group_config import is_reserved_dead_letter_topic
from ottla.broker.configs.topic_config import effective_log_config
from ottla.broker.controller.create_topics import NewTopic
from ottla.broker.core import limits
from ottla.broker.core.rejected import Rejected
from ottla.broker.replication.purgatory import REPLICATED
from ottla.broker.runtime.metadata.topic_making import TopicMaker
from ottla.broker.runtime.nodes.peers import Peers
from ottla.broker.runtime.replicas.partition import Partition
from ottla.broker.runtime.replicas.partitions import Partitions
from ottla.broker.runtime.upkeep.nursery import Nursery
from ottla.broker.runtime.upkeep.timer_driver import pause
from ottla.broker.share.dead_letters import CopiedRecords, DeadLetters, RecordSource, copied_records, dead_letter_batch
from ottla.broker.share.settings import ShareSettings
from ottla.broker.storage.batch_check import TooLongForEventLoop
from ottla.broker.storage.partition_log import Isolation
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k00_produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData

_ENABLE: Final = "errors.deadletterqueue.group.enable"
_READ_BYTES: Final = limits.MIB
"""The bytes of a partition's log that are read at a time to copy records into dead letters (Kafka's DLQ_MAX_FETCH_BYTES)."""
_ACKS_ALL: Final = -1
FIRST_PAUSE_MS: Final = 1_000
ATTEMPTS: Final = 5
"""How many times an append to a dead letter queue is tried before it fails (Kafka's MAX_REQUEST_ATTEMPTS). The pauses in between double
from FIRST_PAUSE_MS on (Kafka's REQUEST_BACKOFF_MS): 15 seconds in all."""
_RETRIABLE: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.REQUEST_TIMED_OUT,
    }
)


class DeadLetterQueues:
    """The dead letter queues of all share groups: topics for records that a group has given up. `settings_of` returns a group's current
    settings. `peers` are the connections to other brokers; a standalone node has none."""

    def __init__(
        self,
        partitions: Partitions,
        catalog: Catalog,
        topics: TopicMaker,
        broker_configs: BrokerConfigs,
        nursery: Nursery,
        *,
        settings_of: Callable[[str], ShareSettings],
        peers: Peers | None = None,
    ) -> None:
        self.requests = Counter[str]()
        """The number of attempts to append a batch to the group's queue, by group id. A retry counts as another attempt."""
        self.failed = Counter[str]()
        """The number of attempts to append a batch to the group's queue that have failed, by group id."""
        self.records = Counter[str]()
        """The number of dead letters that were written to the group's queue, by group id."""
        self._partitions = partitions
        self._catalog = catalog
        self._topics = topics
        self._broker_configs = broker_configs
        self._nursery = nursery
        self._settings_of = settings_of
        self._peers = peers
        self._in_order: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        """A lock for each group that writes dead letters or waits for a retry, so that the group's dead letters are appended in order."""
        self._one_at_a_time = asyncio.Lock()
        """A lock that bounds the memory: only one group's batch of dead letters at a time is read, copied and sent."""
        if peers is not None:
            nursery.at_close(peers.close, peers.close)

    async def write(self, group_id: str, source: Partition, letters: DeadLetters) -> None:
        """Write dead letters for records of the partition `source` to the group's queue. Raises Rejected if the group has no usable queue
        (INVALID_CONFIG), or an append fails.
        """
        async with self._in_order.setdefault(group_id, asyncio.Lock()):
            offset = letters.first_offset
            while offset <= letters.last_offset:
                end = await self._write_some(group_id, source, letters, offset)
                self.records[group_id] += end - offset
                offset = end

    async def _write_some(self, group_id: str, source: Partition, letters: DeadLetters, offset: int) -> int:
        """Write one batch of dead letters for records from `offset` on, with retries. Return the offset after the last record for which
        this batch has a dead letter. Raises Rejected if no attempt succeeds.
        """
        for attempt in range(ATTEMPTS):
            try:
                async with self._one_at_a_time:
                    return await self._attempt(group_id, source, letters, offset)
            except Rejected as rejected:
                if rejected.code not in _RETRIABLE or attempt == ATTEMPTS - 1:
                    raise
            await pause(self._nursery.timers, self._nursery.clock, FIRST_PAUSE_MS << attempt)
        raise AssertionError("the last attempt returns or raises")

    async def _attempt(self, group_id: str, source: Partition, letters: DeadLetters, offset: int) -> int:
        settings = self._settings_of(group_id)
        topic = await self._queue(group_id, settings.dead_letter_topic)
        index, settings_of_queue = source.index % len(topic.partitions), self._catalog.configs(ResourceType.TOPIC, topic.name)
        max_bytes = effective_log_config(settings_of_queue, self._broker_configs.settings).max_message_bytes
        origin = RecordSource(group_id, source.topic, source.index)
        records = _read(source, offset) if settings.copies_dead_letters else None
        sizes = {"max_bytes": max_bytes, "now_ms": self._nursery.clock.now_ms()}
        batch, end = await self._partitions.compute(partial(_next_batch, origin, letters, offset, records, **sizes))
        self.requests[group_id] += 1
        try:
            await self._append(topic, index, batch)
        except Rejected:
            self.failed[group_id] += 1
            raise
        return end

    async def _queue(self, group_id: str, name: str) -> TopicImage:
        """Return the topic `name`, the group's dead letter queue. Create the topic if it does not exist and may be created. Raises
        Rejected: INVALID_CONFIG if the topic must not be used as a queue, otherwise the error of the creation."""
        settings, topic = self._broker_configs.settings, self._catalog.topic(name)
        prefix = settings.errors_deadletterqueue_topic_name_prefix
        if not name:
            raise _unusable(f"share group {group_id} has no dead letter queue any more")
        if is_reserved_dead_letter_topic(name):
            raise _unusable(f"the name of the dead letter queue {name} begins with __")
        if topic is not None and self._catalog.configs(ResourceType.TOPIC, name).get(_ENABLE, "").strip().lower() != "true":
            raise _unusable(f"the topic {name} does not have {_ENABLE}=true")
        if topic is None and not settings.errors_deadletterqueue_auto_create_topics_enable:
            raise _unusable(f"the topic {name} does not exist, and errors.deadletterqueue.auto.create.topics.enable is false")
        if not name.startswith(prefix):
            raise _unusable(f"the name {name} does not begin with {prefix} (errors.deadletterqueue.topic.name.prefix)")
        if topic is not None:
            return topic
        configs = ((_ENABLE, "true"), ("message.timestamp.type", "CreateTime"))
        refused = (await self._topics.create([NewTopic(name, configs=configs)]))[name]
        if refused is not None:
            raise refused
        return await self._topics.ensure(name)

    async def _append(self, topic: TopicImage, index: int, batch: bytes) -> None:
        """Append a batch of dead letters at the leader of the queue's partition `index`: this broker or another. Raises Rejected if the
        append fails."""
        settings, leader = self._broker_configs.settings, self._catalog.leader_of((topic.name, index))
        if leader == settings.node_id or self._peers is None:
            await self._append_here(self._partitions.get(topic.topic_id, index), batch)
            return
        if leader == NO_LEADER:
            raise Rejected(ErrorCode.LEADER_NOT_AVAILABLE)
        data = TopicProduceData(topic.name, topic.topic_id, [PartitionProduceData(index, batch)])
        request = ProduceRequest(None, _ACKS_ALL, settings.request_timeout_ms, [data])
        response: ProduceResponse = await self._peers.ask(leader, request)
        found = response.responses[0].partition_responses[0]
        if found.error_code != ErrorCode.NONE:
            raise Rejected(ErrorCode.of(found.error_code), found.error_message or "")

    async def _append_here(self, target: Partition, batch: bytes) -> None:
        """Append a batch of dead letters to a partition that this broker leads. Raises Rejected if the append fails: REQUEST_TIMED_OUT if
        the in-sync replicas do not have the batch within request.timeout.ms, because other groups' queues wait meanwhile.
        """
        try:
            info = target.append(batch, acks_all=True)
        except TooLongForEventLoop:
            checked = await target.check(batch)
            info = target.append(batch, acks_all=True, checked=checked)
        written = target.when(REPLICATED, info)
        if written is None:
            return
        deadline_ms = self._nursery.clock.mono_ms() + self._broker_configs.settings.request_timeout_ms
        timer = self._nursery.timers.schedule(deadline_ms, partial(_time_out, written))
        try:
            await written
        finally:
            timer.cancel()


def _next_batch(
    origin: RecordSource, letters: DeadLetters, offset: int, records: bytes | None, *, max_bytes: int, now_ms: int
) -> tuple[bytes, int]:
    last = letters.last_offset
    copies = CopiedRecords({}, last) if records is None else copied_records(records, offset, last, max_bytes)
    return dead_letter_batch(origin, letters, copies, offset, max_bytes=max_bytes, now_ms=now_ms)


def _read(source: Partition, offset: int) -> bytes:
    """Return record batches of the partition `source` from `offset` on, to copy into dead letters; empty bytes if they cannot be read."""
    try:
        return bytes(source.log.read(offset, _READ_BYTES, isolation=Isolation.READ_UNCOMMITTED, min_one_batch=True).records)
    except Rejected:
        return b""


def _time_out(written: asyncio.Future[None]) -> None:
    if not written.done():
        written.set_exception(Rejected(ErrorCode.REQUEST_TIMED_OUT))


def _unusable(why: str) -> Rejected:
    return Rejected(ErrorCode.INVALID_CONFIG, why)
