"""What clients are told of the cluster: its brokers, who leads a partition and who has it, and which replicas are out of reach.

What topics exist is the catalog's to say, in the cluster's words; whether this broker can serve one of its own replicas, the registry's.
Here there is one broker, which needs no registration; a member of a cluster has a `cluster_broker_view.ClusterBrokerView` in its place.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from ottla.broker.cluster.metadata_records import NO_LEADER
from ottla.broker.core.rejected import Rejected
from ottla.broker.groups.topics_view import TopicInfo
from ottla.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from ottla.broker.cluster.catalog import Catalog
    from ottla.broker.cluster.image import PartitionRegistration, TopicImage
    from ottla.broker.runtime.replicas.partitions import Partitions

UNKNOWN_EPOCH = -1


class Dialled(NamedTuple):
    """The listener at which a client came in, and the address of this broker that it is told there."""

    listener: str
    host: str
    port: int


class BrokerNode(NamedTuple):
    """A broker, at the listener of the client that is told of it."""

    node_id: int
    host: str
    port: int
    rack: str | None = None
    fenced: bool = False


@dataclass(frozen=True, slots=True)
class Place:
    """One partition as clients are told of it."""

    state: PartitionRegistration
    leader: int
    """`NO_LEADER` where nobody can serve it."""
    error: ErrorCode = ErrorCode.NONE
    """Why there is no leader."""
    offline: tuple[int, ...] = ()
    """Replicas that are out of reach."""
    hidden: Collection[int] = ()
    """Replicas on brokers of which this client is not told."""


class ClusterView:
    """The cluster as this broker knows it. Also the `TopicsView` of groups; `rack` is the broker's."""

    decides = True
    """Whether what is decided about the cluster is decided, and carried out, in this process."""

    def __init__(self, catalog: Catalog, partitions: Partitions, node_id: int, rack: str | None = None) -> None:
        self.catalog = catalog
        self._partitions = partitions
        self._node_id = node_id
        self._rack = rack

    # --- for clients ----------------------------------------------------------------------------------------------------------

    @property
    def controller_id(self) -> int:
        """Whom clients are to take for the controller; -1 where there is nobody."""
        return self._node_id

    def brokers(self, at: Dialled) -> list[BrokerNode]:
        """All brokers with a listener of that name, by their ids."""
        return [BrokerNode(self._node_id, at.host, at.port, self._rack)]

    def alive(self, node_id: int, at: Dialled) -> BrokerNode | None:
        """The broker of that id, if it lives and has a listener of that name."""
        return next((broker for broker in self.brokers(at) if broker.node_id == node_id), None)

    def place(self, topic: TopicImage, index: int, at: Dialled) -> Place:  # a member asks who has such a listener
        """Where a partition of a topic of the catalog is."""
        state = topic.partitions[index]
        served = self._partitions.by_name(topic.name)
        if served is not None and index in served.partitions:
            return Place(state, state.leader)
        offline = tuple(node for node in state.replicas if node == self._node_id)
        if state.leader in offline:
            return Place(state, NO_LEADER, ErrorCode.LEADER_NOT_AVAILABLE, offline)
        return Place(state, state.leader, offline=offline)

    def coordinator(self, topic: TopicImage, index: int, at: Dialled) -> BrokerNode | None:  # as above
        """Who coordinates what a partition of an internal topic keeps; None where nobody can now."""
        return self.alive(self._node_id, at)

    def current_leader(self, topic: str | bytes, index: int) -> tuple[int, int]:
        """Who leads, and in which epoch: as the replica here knows it, or else as metadata says (KIP-951). -1 for what is not known."""
        try:
            replica = self._partitions.get(topic, index).replica
        except Rejected:
            known = self.catalog.topic(topic) if isinstance(topic, str) else self.catalog.topic_by_id(topic)
            state = None if known is None else known.partitions.get(index)
            return (NO_LEADER, UNKNOWN_EPOCH) if state is None else (state.leader, state.leader_epoch)
        return self._node_id if replica.leads else replica.others.registration.leader, replica.leader_epoch

    # --- for groups -----------------------------------------------------------------------------------------------------------

    @property
    def version(self) -> int:
        """Another number after every change of a topic."""
        return self.catalog.changes

    @property
    def created(self) -> int:
        """Another number after every creation of a topic."""
        return self.catalog.creations

    def partition_count(self, topic: str) -> int:
        """How many partitions a topic has, served or not; 0 where there is no such topic."""
        return self.catalog.partition_count(topic)

    def by_name(self, name: str) -> TopicInfo | None:
        """The topic of that name, or None."""
        return self._info(self.catalog.topic(name))

    def by_id(self, topic_id: bytes) -> TopicInfo | None:
        """The topic of that id, or None."""
        return self._info(self.catalog.topic_by_id(topic_id))

    def names(self) -> Iterable[str]:
        """All topics, in no order."""
        return list(self.catalog.image.topic_ids)

    def _info(self, topic: TopicImage | None) -> TopicInfo | None:
        return None if topic is None else TopicInfo(topic.name, topic.topic_id, len(topic.partitions), self._racks(topic))

    def _racks(self, topic: TopicImage) -> tuple[tuple[str, ...], ...]:
        """Of each partition the racks of its replicas, sorted."""
        return () if self._rack is None else ((self._rack,),) * len(topic.partitions)
