"""The cluster as a broker of a multi-broker cluster reports it to clients: from the metadata image, with each broker's address on the
client's listener.

Source: Kafka's KRaftMetadataCache (getTopicMetadata, describeTopicResponse, getAliveBrokerNode), KafkaApis.getCoordinator.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from ottla.broker.cluster.catalog import Catalog
from ottla.broker.cluster.image import BrokerRegistration, PartitionRegistration, TopicImage
from ottla.broker.cluster.metadata_records import NO_LEADER
from ottla.broker.runtime.metadata.cluster_view import BrokerNode, ClientListener, ClusterView, ReportedPartition
from ottla.broker.runtime.replicas.partitions import Partitions
from ottla.protocol.error_codes import ErrorCode

NO_CONTROLLER: Final = -1


class ClusterBrokerView(ClusterView):
    """The cluster as a broker of a multi-broker cluster reports it to clients. `choose` picks one of several brokers at random."""

    def __init__(self, catalog: Catalog, partitions: Partitions, node_id: int, *, choose: Callable[[Sequence[int]], int]) -> None:
        super().__init__(catalog, partitions, node_id)
        self._choose = choose

    @property
    def controller_id(self) -> int:
        """The id of a random live broker, which responses name as the controller. Clients never see the real controllers: any broker
        forwards their requests."""
        alive = [node for node, broker in self.catalog.image.brokers.items() if not broker.fenced]
        return self._choose(alive) if alive else NO_CONTROLLER

    def brokers(self, at: ClientListener) -> list[BrokerNode]:
        registered = self.catalog.image.brokers
        return [_node(registered[node], at.listener) for node in sorted(registered) if at.listener in registered[node].listeners]

    def alive_broker(self, node_id: int, at: ClientListener) -> BrokerNode | None:
        broker = self.catalog.image.brokers.get(node_id)
        return _node(broker, at.listener) if broker is not None and _is_alive(broker, at.listener) else None

    def partition(self, topic: TopicImage, index: int, at: ClientListener) -> ReportedPartition:
        """Return the leader and replicas of a partition as reported to clients. No leader is reported if the leader's broker is
        unregistered (LEADER_NOT_AVAILABLE) or lacks the client's listener (LISTENER_NOT_FOUND).

        A leader is reported even if it is fenced, because the metadata change that fences a broker also elects other leaders.
        """
        state = topic.partitions[index]
        registered = self.catalog.image.brokers
        leader = registered.get(state.leader)
        hidden = frozenset(
            node for node in state.replicas if (broker := registered.get(node)) is None or not _is_alive(broker, at.listener)
        )
        offline = tuple(node for node in state.replicas if node in hidden or not _has_directory(registered[node], state))
        if leader is None:
            return ReportedPartition(state, NO_LEADER, ErrorCode.LEADER_NOT_AVAILABLE, offline, hidden)
        if at.listener not in leader.listeners:
            return ReportedPartition(state, NO_LEADER, ErrorCode.LISTENER_NOT_FOUND, offline, hidden)
        return ReportedPartition(state, state.leader, ErrorCode.NONE, offline, hidden)

    def coordinator(self, topic: TopicImage, index: int, at: ClientListener) -> BrokerNode | None:
        state = topic.partitions.get(index)
        return None if state is None else self.alive_broker(state.leader, at)

    def _racks(self, topic: TopicImage) -> tuple[tuple[str, ...], ...]:
        brokers = self.catalog.image.brokers
        of_replicas = ([brokers[node].rack for node in state.replicas if node in brokers] for _, state in sorted(topic.partitions.items()))
        return tuple(tuple(sorted(rack for rack in racks if rack is not None)) for racks in of_replicas)


def _node(broker: BrokerRegistration, listener: str) -> BrokerNode:
    endpoint = broker.listeners[listener]
    return BrokerNode(broker.broker_id, endpoint.host, endpoint.port, broker.rack, broker.fenced)


def _is_alive(broker: BrokerRegistration, listener: str) -> bool:
    return not broker.fenced and listener in broker.listeners


def _has_directory(broker: BrokerRegistration, state: PartitionRegistration) -> bool:
    return broker.has_online(state.directories[state.replicas.index(broker.broker_id)])
