"""Collects the current rules for a topic's partitions (minimum ISR size, unclean elections, brokers that may lead), and decides changes of
its partitions by these rules.

Source: Kafka's ReplicationControlManager (LeaderAcceptor, getTopicEffectiveMinIsr).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ottla.broker.cluster.image import PartitionRegistration, TopicImage
from ottla.broker.cluster.metadata_records import PartitionChangeRecord
from ottla.broker.controller.partition_change import ElectionKind, PartitionRules, PartitionTarget, partition_change
from ottla.broker.controller.placement import default_directory
from ottla.broker.controller.state import ControllerState

UNCHANGED: Final = PartitionTarget()


class TopicRules:
    """The rules of one topic. `is_active` returns whether a broker may lead and be in an ISR; by default, the broker's current registration
    decides.
    """

    def __init__(self, state: ControllerState, topic: TopicImage, is_active: Callable[[int], bool] | None = None) -> None:
        self.topic = topic
        self._state = state
        self._is_active = is_active or state.is_active
        self._min_isr = state.min_isr(topic)
        self._kind = ElectionKind.UNCLEAN if state.may_elect_uncleanly(topic.name) else ElectionKind.ONLINE

    def change(self, index: int, target: PartitionTarget = UNCHANGED, election: ElectionKind | None = None) -> PartitionChangeRecord | None:
        """Return the record that changes partition `index` to `target`; None if the partition has that state already. Without `election`,
        the topic's setting decides whether unclean leaders may be elected.
        """
        partition = self.topic.partitions[index]
        rules = PartitionRules(
            metadata_level=self._state.metadata_level,
            has_elr=self._state.has_elr,
            min_isr=self._min_isr,
            may_lead=lambda broker_id: self._may_lead(partition, broker_id),
            default_directory=lambda broker_id: default_directory(self._state.image.brokers.get(broker_id)),
            election=election or self._kind,
        )
        return partition_change(self.topic.topic_id, index, partition, target, rules)

    def _may_lead(self, partition: PartitionRegistration, broker_id: int) -> bool:
        if broker_id not in partition.replicas or not self._is_active(broker_id):
            return False
        return self._state.image.brokers[broker_id].has_online(partition.directories[partition.replicas.index(broker_id)])
