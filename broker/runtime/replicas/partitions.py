"""The registry of this broker's partitions, by topic name and by topic id. Both indexes lead to the same object.

A partition whose log cannot be opened or created is registered as offline, and requests for it fail with KAFKA_STORAGE_ERROR. A request for
a partition that only other brokers have fails with NOT_LEADER_OR_FOLLOWER, so that the client refreshes its metadata.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from ottla.broker.cluster.topic_names import is_internal
from ottla.broker.core.clock import Clock
from ottla.broker.core.rejected import Rejected
from ottla.broker.runtime.replicas.fetch_sessions import TopicKey
from ottla.broker.runtime.replicas.flusher import Flusher
from ottla.broker.runtime.replicas.partition import ClusterContext, Partition
from ottla.broker.storage.partition_log import PartitionLog
from ottla.protocol.error_codes import ErrorCode

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Appended:
    """The number of records and bytes that this broker has appended as a leader since its start. Transaction markers are not counted."""

    messages: int = 0
    size_bytes: int = 0

    def __add__(self, more: Appended) -> Appended:
        return Appended(self.messages + more.messages, self.size_bytes + more.size_bytes)

    @staticmethod
    def by(partition: Partition) -> Appended:
        """Return the records and bytes that this broker has appended to `partition` as its leader."""
        return Appended(partition.messages_in, partition.bytes_in)


class TopicPartitions:
    """The partitions of one topic on this broker. `missing` returns the error for a partition that is not on this broker. `appended_before`
    counts the records and bytes that this broker has appended, as leader, to partitions that were removed since.
    """

    __slots__ = ("appended_before", "is_internal", "missing", "name", "offline", "partitions", "topic_id")

    def __init__(self, name: str, topic_id: bytes, missing: Callable[[TopicKey, int], Rejected]) -> None:
        self.name = name
        self.is_internal = is_internal(name)
        self.topic_id = topic_id
        self.missing = missing
        self.partitions: dict[int, Partition] = {}
        self.offline: set[int] = set()
        self.appended_before = Appended()

    @property
    def appended(self) -> Appended:
        """The records and bytes that this broker has appended to the topic as a leader. Partitions that were removed since count, too, so
        the numbers never decrease.
        """
        partitions, before = self.partitions.values(), self.appended_before
        return Appended(
            before.messages + sum([partition.messages_in for partition in partitions]),
            before.size_bytes + sum([partition.bytes_in for partition in partitions]),
        )

    def get(self, index: int) -> Partition:
        """Return the partition with this index. Raises Rejected: KAFKA_STORAGE_ERROR if it is offline, or the error of `missing` if it is
        not on this broker.
        """
        partition = self.partitions.get(index)
        if partition is None:
            if index in self.offline:
                raise Rejected(ErrorCode.KAFKA_STORAGE_ERROR, f"{self.name}-{index} is offline: the disk refuses it, see the broker's log")
            raise self.missing(self.name, index)
        return partition


class Partitions:
    """The registry of this broker's partitions. `context` is the state that all partitions of a cluster broker share; None on a standalone
    node."""

    def __init__(self, flusher: Flusher, clock: Clock, context: ClusterContext | None = None) -> None:
        self._flusher = flusher
        self._clock = clock
        self.cluster_context = context
        self.awaiting_flush: set[Partition] = set()
        """The partitions with unsynced records that have to be synced when flush.ms is over."""
        self.search_lock = asyncio.Lock()
        """A lock that a ListOffsets request holds while it searches a batch for a timestamp on the thread of `compute`. Other work on that
        thread, such as the check of a large batch, thus waits for at most one search."""
        self.shrink_candidates: dict[Partition, None] = {}
        """The partitions with a follower that may lag behind the leader, or with a pending DeleteRecords request. A periodic job checks
        them. The values are None: a dict is a set that keeps its order."""
        self._by_name: dict[str, TopicPartitions] = {}
        self._by_id: dict[bytes, TopicPartitions] = {}
        self._appended_before = Appended()
        """The records and bytes that this broker has appended to topics that were removed since."""

    def compute(self, work: Callable[[], T]) -> asyncio.Future[T]:
        """Run `work`, which needs much CPU time, on the thread that checks large batches (`Flusher.compute`). Return a future of the result
        or exception of `work`.
        """
        return self._flusher.compute(work)

    def run(self, work: Callable[[], T]) -> asyncio.Future[T]:
        """Run `work`, which blocks on files, on the threads that sync logs. Return a future of the result or exception of `work`."""
        return self._flusher.run(work)

    def add(self, log: PartitionLog) -> Partition:
        """Register and serve the partition of `log`, which must be open and recovered."""
        topic = self._topic(log.topic, log.topic_id)
        assert log.partition not in topic.partitions, f"{log.topic}-{log.partition} is served twice"
        partition = topic.partitions[log.partition] = Partition(
            log,
            self._flusher,
            self._clock,
            self.cluster_context,
            awaiting_flush=self.awaiting_flush,
            shrink_candidates=self.shrink_candidates,
        )
        topic.offline.discard(log.partition)
        return partition

    def add_offline(self, name: str, topic_id: bytes, index: int) -> None:
        """Register as offline a partition whose log cannot be opened or created: requests for it fail with KAFKA_STORAGE_ERROR."""
        self._topic(name, topic_id).offline.add(index)

    def _topic(self, name: str, topic_id: bytes) -> TopicPartitions:
        topic = self._by_name.get(name)
        if topic is None:
            topic = self._by_name[name] = self._by_id[topic_id] = TopicPartitions(name, topic_id, self.missing)
        assert topic.topic_id == topic_id, f"{name} has two topic ids"
        return topic

    def remove(self, name: str, index: int) -> Partition | None:
        """Unregister the partition, served or offline, and fail its pending requests. Return the partition; None if it was not served."""
        topic = self._by_name.get(name)
        if topic is None:
            return None
        topic.offline.discard(index)
        partition = topic.partitions.get(index)
        if partition is not None:
            topic.appended_before += Appended.by(partition)
            del topic.partitions[index]
        if not topic.partitions and not topic.offline:
            self._appended_before += topic.appended
            del self._by_name[name], self._by_id[topic.topic_id]
        if partition is not None:
            partition.remove()
        return partition

    def get(self, topic: TopicKey, index: int) -> Partition:
        """Return the partition by topic name or id and index. Raises Rejected: KAFKA_STORAGE_ERROR if it is offline, or the error of
        `missing` if it is not on this broker.
        """
        found = self._by_name.get(topic) if isinstance(topic, str) else self._by_id.get(topic)
        if found is None:
            raise self.missing(topic, index)
        return found.get(index)

    def missing(self, topic: TopicKey, index: int) -> Rejected:
        """Return the error for a partition that is not on this broker (Kafka's ReplicaManager.getPartitionOrError).

        The error is NOT_LEADER_OR_FOLLOWER if the cluster has the partition. Otherwise it is UNKNOWN_TOPIC_ID for an unknown topic id, and
        UNKNOWN_TOPIC_OR_PARTITION for an unknown topic name or index.
        """
        context = self.cluster_context
        if context is not None and context.has(topic, index):
            return Rejected(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        known = isinstance(topic, str) or (context is not None and context.has(topic, None))
        return Rejected(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if known else ErrorCode.UNKNOWN_TOPIC_ID)

    def by_name(self, name: str) -> TopicPartitions | None:
        return self._by_name.get(name)

    def by_topic_id(self, topic_id: bytes) -> TopicPartitions | None:
        return self._by_id.get(topic_id)

    def topic_names(self) -> list[str]:
        """Return the names of all topics with a served or offline partition."""
        return list(self._by_name)

    def appended(self) -> tuple[dict[str, Appended], Appended]:
        """Return the appended records and bytes by topic, and their total including removed topics. The total never decreases."""
        by_topic = {name: topic.appended for name, topic in self._by_name.items()}
        return by_topic, sum(by_topic.values(), self._appended_before)

    def __iter__(self) -> Iterator[Partition]:
        for topic in list(self._by_name.values()):
            yield from list(topic.partitions.values())

    def __len__(self) -> int:
        return sum(len(topic.partitions) for topic in self._by_name.values())
