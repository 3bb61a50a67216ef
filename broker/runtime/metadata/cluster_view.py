"""The cluster as clients see it: brokers, partition leaders and replicas, and which replicas are offline.

The catalog has all topics; the partition registry has the replicas that this broker serves. `ClusterView` is for a standalone node; a
cluster broker uses the subclass `cluster_broker_view.ClusterBrokerView`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from ottla.broker.cluster.metadata_records import NO_LEADER
from ottla.broker.core.rejected import Rejected
from ottla.broker.groups.topics_view import TopicInfo
from ottla.protocol.error_codes import ErrorCode

if TYPE_CHECKING:  # a gateway imports this module, and does not need these
    from ottla.broker.cluster.catalog import Catalog
    from ottla.broker.cluster.image import PartitionRegistration, TopicImage
    from ottla.broker.runtime.replicas.partitions import Partitions

UNKNOWN_EPOCH = -1


class ClientListener(NamedTuple):
    """The name of the listener through which a client is connected, and this broker's advertised address on that listener."""

    listener: str
    host: str
    port: int


class BrokerNode(NamedTuple):
    """A broker as reported to a client: its id, its address on the client's listener, its rack, and whether it is fenced."""

    node_id: int
    host: str
    port: int
    rack: str | None = None
    fenced: bool = False


@dataclass(frozen=True, slots=True)
class ReportedPartition:
    """A partition's leader and replicas, as reported to clients."""

    state: PartitionRegistration
    leader: int
    """The leader's node id; `NO_LEADER` if the partition is unavailable."""
    error: ErrorCode = ErrorCode.NONE
    """The reason why the partition has no leader; NONE if it has one."""
    offline: tuple[int, ...] = ()
    """The node ids of the offline replicas."""
    hidden: Collection[int] = ()
    """The node ids of replicas on brokers that are unregistered, fenced, or without the client's listener. Metadata version 0 omits these
    replicas."""


class ClusterView:
    """The cluster as a standalone node reports it to clients. The group coordinator uses it, too, to look up the topics that groups
    subscribe to (`TopicsView`). `rack` is the node's broker.rack.
    """

    def __init__(self, catalog: Catalog, partitions: Partitions, node_id: int, rack: str | None = None) -> None:
        self.catalog = catalog
        self._partitions = partitions
        self._node_id = node_id
        self._rack = rack

    # --- for clients ----------------------------------------------------------------------------------------------------------

    @property
    def controller_id(self) -> int:
        """The id of the node that responses name as the controller; -1 if there is none."""
        return self._node_id

    def brokers(self, at: ClientListener) -> list[BrokerNode]:
        """Return the brokers that have the client's listener, fenced ones included, each with its address on that listener, sorted by node
        id.
        """
        return [BrokerNode(self._node_id, at.host, at.port, self._rack)]

    def alive_broker(self, node_id: int, at: ClientListener) -> BrokerNode | None:
        """Return the broker with that id; None if it is not registered, is fenced, or does not have the client's listener."""
        return next((broker for broker in self.brokers(at) if broker.node_id == node_id), None)

    def partition(self, topic: TopicImage, index: int, at: ClientListener) -> ReportedPartition:  # subclasses use `at`
        """Return the leader and replicas of a partition as reported to clients. A replica is offline if this node cannot serve it, for
        example after a disk error.
        """
        state = topic.partitions[index]
        served = self._partitions.by_name(topic.name)
        if served is not None and index in served.partitions:
            return ReportedPartition(state, state.leader)
        offline = tuple(node for node in state.replicas if node == self._node_id)
        if state.leader in offline:
            return ReportedPartition(state, NO_LEADER, ErrorCode.LEADER_NOT_AVAILABLE, offline)
        return ReportedPartition(state, state.leader, offline=offline)

    def coordinator(self, topic: TopicImage, index: int, at: ClientListener) -> BrokerNode | None:  # subclasses use `at`
        """Return the broker that leads partition `index` of the internal topic `topic`, and so coordinates the groups or transactional ids
        of that partition; None if it has no live leader now.
        """
        return self.alive_broker(self._node_id, at)

    def current_leader(self, topic: str | bytes, index: int) -> tuple[int, int]:
        """Return a partition's leader and leader epoch, from the local replica or else from metadata (KIP-951). Each is -1 if unknown.
        `topic` is a name or an id.
        """
        try:
            replica = self._partitions.get(topic, index).replica
        except Rejected:
            known = self.catalog.topic(topic) if isinstance(topic, str) else self.catalog.topic_by_id(topic)
            state = None if known is None else known.partitions.get(index)
            return (NO_LEADER, UNKNOWN_EPOCH) if state is None else (state.leader, state.leader_epoch)
        return self._node_id if replica.leads else replica.leadership.registration.leader, replica.leader_epoch

    # --- for groups -----------------------------------------------------------------------------------------------------------

    @property
    def version(self) -> int:
        """A number that changes whenever a topic is created, changed or deleted. Groups compare it to notice changes of their topics."""
        return self.catalog.changes

    @property
    def creation_version(self) -> int:
        """A number that changes whenever a topic is created. Consumer groups compare it to notice new topics that a regular expression may
        match."""
        return self.catalog.creations

    def partition_count(self, topic: str) -> int:
        """Return a topic's partition count, including unavailable partitions; 0 if the topic does not exist."""
        return self.catalog.partition_count(topic)

    def by_name(self, name: str) -> TopicInfo | None:
        """Return a topic's id, partition count and racks, by its name; None if there is no such topic."""
        return self._info(self.catalog.topic(name))

    def by_id(self, topic_id: bytes) -> TopicInfo | None:
        """Return a topic's name, partition count and racks, by its id; None if there is no such topic."""
        return self._info(self.catalog.topic_by_id(topic_id))

    def names(self) -> Iterable[str]:
        """Return all topic names, in no particular order."""
        return list(self.catalog.image.topic_ids)

    def _info(self, topic: TopicImage | None) -> TopicInfo | None:
        return None if topic is None else TopicInfo(topic.name, topic.topic_id, len(topic.partitions), self._racks(topic))

    def _racks(self, topic: TopicImage) -> tuple[tuple[str, ...], ...]:
        """Return for each partition, in index order, the racks of the brokers with its replicas: on a standalone node, the node's own rack.
        Return nothing if the node has no broker.rack.
        """
        return () if self._rack is None else ((self._rack,),) * len(topic.partitions)
