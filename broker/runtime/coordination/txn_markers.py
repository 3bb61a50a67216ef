"""A transaction's marker on its way into one partition: what it says, and how it gets into a partition that this broker leads.

A coordinator hands each marker to a `SendMarker` and does not ask where it goes. Here it is written at once; to a partition that another
broker leads it travels in a request (`remote_markers`), whose answer settles the same future.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from ottla.broker.cluster.topic_names import CONSUMER_OFFSETS
from ottla.broker.core.rejected import Rejected
from ottla.broker.replication.waits import Condition
from ottla.broker.txns.txn_marker import TxnMarker
from ottla.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from ottla.broker.runtime.coordination.group_service import GroupService
    from ottla.broker.runtime.coordination.shard import Durable
    from ottla.broker.runtime.replicas.partitions import Partitions
    from ottla.broker.txns.transaction import TopicPartition

logger = logging.getLogger(__name__)

SendMarker = Callable[["TopicPartition", TxnMarker], "Durable"]
"""Brings a marker into a partition: None when it is committed already, else a future, which fails with Rejected where it is lost.
Raises Rejected where it is refused at once."""


class LocalMarkers:
    """Markers into partitions that this broker leads."""

    def __init__(self, partitions: Partitions, groups: GroupService) -> None:
        self._partitions = partitions
        self._groups = groups

    def write(self, place: TopicPartition, marker: TxnMarker) -> Durable:
        """One marker, now, by all the rules. Raises Rejected; then nothing was written."""
        topic, index = place
        if topic == CONSUMER_OFFSETS:
            return self._groups.write_marker(index, marker)
        partition = self._partitions.get(topic, index)
        return partition.when(Condition.COMMITTED, partition.append_marker(marker))

    def write_as_only_coordinator(self, place: TopicPartition, marker: TxnMarker) -> Durable:
        """The same for a coordinator that has no other beside it: nobody else would end what is decided.

        A greater coordinator epoch that a partition has seen (a tool's, another cluster's) is no newer one's, and the marker takes it over.
        Where a newer epoch of the producer has been, nothing of the transaction is open, and no marker is needed.
        """
        seen = self._partitions.get(*place).coordinator_epoch_seen(marker.producer_id)
        try:
            return self.write(place, marker if seen <= marker.coordinator_epoch else replace(marker, coordinator_epoch=seen))
        except Rejected as refusal:
            if refusal.code is not ErrorCode.INVALID_PRODUCER_EPOCH:
                raise
            logger.warning("No marker of producer %d in %s-%d: %s", marker.producer_id, *place, refusal)
            return None
