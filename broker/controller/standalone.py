"""Decides the start of a standalone node, which is broker and controller in one process, without other nodes: it registers itself and leads
every partition of which it has a replica.

The broker of a cluster, in contrast, sends a registration request to the controller, which fences it until it has caught up.
"""

from __future__ import annotations

from collections.abc import Container, Iterator

from ottla.broker.cluster.metadata_records import (
    NO_LEADER,
    MetadataRecord,
    PartitionChangeRecord,
    RegisterBrokerRecord,
    UnregisterBrokerRecord,
)
from ottla.broker.cluster.record_versions import DIRECTORIES
from ottla.broker.controller.state import ControllerState
from ottla.broker.core.effects import Effects


def register_standalone(
    state: ControllerState, me: RegisterBrokerRecord, *, clean: bool, found: Container[tuple[str, int]] = ()
) -> Effects[MetadataRecord, int]:
    """Return the records that register this node, unregister all other brokers (of a cluster in which it ran before), and make it the only
    replica and leader of every partition. The response is the broker epoch.

    `found` are the partitions of which this node has a directory. If this node was a cluster's broker, a partition that has no replica on
    it gets no leader: if this node led it, the partition would look empty. For partitions of internal topics, this node becomes the leader
    nevertheless, because groups and transactions need a coordinator.

    After an unclean shutdown (`clean` is false) every partition gets a new leader epoch, so that clients can detect records that replaced
    those they have read (KIP-320).
    """
    if state.metadata_level < DIRECTORIES:
        me.log_dirs = []
    others = [UnregisterBrokerRecord(broker.broker_id, broker.epoch) for broker in state.image.brokers.values()]
    others = [other for other in others if other.broker_id != me.broker_id]
    return Effects([*others, me, *_elections(state, me, clean=clean, found=found)], me.broker_epoch)


def _elections(
    state: ControllerState, me: RegisterBrokerRecord, *, clean: bool, found: Container[tuple[str, int]]
) -> Iterator[MetadataRecord]:
    was_a_broker = me.broker_id in state.image.brokers  # false if the node's id has been changed
    alone = (me.broker_id,)
    for topic in state.catalog.topics():
        for index, partition in topic.partitions.items():
            if clean and partition.leader == me.broker_id and partition.replicas == partition.isr == alone:
                continue
            elsewhere = me.broker_id not in partition.replicas and (topic.name, index) not in found
            if was_a_broker and elsewhere and not topic.is_internal:
                if partition.leader != NO_LEADER:
                    yield PartitionChangeRecord(partition_id=index, topic_id=topic.topic_id, leader=NO_LEADER)
                continue
            elected = PartitionChangeRecord(partition_id=index, topic_id=topic.topic_id, isr=[me.broker_id], leader=me.broker_id)
            if partition.replicas != alone:
                elected.replicas, elected.directories = [me.broker_id], me.log_dirs or None
            if partition.adding_replicas or partition.removing_replicas:  # a reassignment in the cluster, which nothing would complete
                elected.adding_replicas, elected.removing_replicas = [], []
            if partition.elr:
                elected.eligible_leader_replicas = []
            yield elected
