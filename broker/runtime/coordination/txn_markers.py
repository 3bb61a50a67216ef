"""Writes transaction markers to partitions that this broker leads.

A transaction coordinator passes each marker to a function of type `SendMarker`. `LocalMarkers` has such functions for partitions that this
broker leads. For a partition that another broker leads, `remote_markers` sends a request to that broker.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace

from ottla.broker.cluster.topic_names import CONSUMER_OFFSETS
from ottla.broker.core.rejected import Rejected
from ottla.broker.replication.purgatory import Condition
from ottla.broker.runtime.coordination.group_service import GroupService
from ottla.broker.runtime.coordination.shard import Committed
from ottla.broker.runtime.replicas.partitions import Partitions
from ottla.broker.txns.transaction import TopicPartition
from ottla.broker.txns.txn_marker import TxnMarker
from ottla.protocol.error_codes import ErrorCode

logger = logging.getLogger(__name__)

SendMarker = Callable[["TopicPartition", TxnMarker], "Committed"]
"""A function that writes a marker to a partition. It returns None if the marker is committed already, otherwise a future that completes
when it is committed and fails with Rejected if the marker is lost. It raises Rejected if the partition rejects the marker at once."""


class LocalMarkers:
    """Writes transaction markers to partitions that this broker leads."""

    def __init__(self, partitions: Partitions, groups: GroupService) -> None:
        self._partitions = partitions
        self._groups = groups

    def write(self, tp: TopicPartition, marker: TxnMarker) -> Committed:
        """Write a transaction marker to a partition that this broker leads. Return None if the marker is committed already, or a future
        that is done when it is committed. Raises Rejected if the partition rejects the marker; then nothing was written.
        """
        topic, index = tp
        if topic == CONSUMER_OFFSETS:
            return self._groups.write_marker(index, marker)
        partition = self._partitions.get(topic, index)
        return partition.when(Condition.COMMITTED, partition.append_marker(marker))

    def write_as_only_coordinator(self, tp: TopicPartition, marker: TxnMarker) -> Committed:
        """Write a transaction marker to a partition of a standalone node, which has the only transaction coordinator.

        If the partition has seen a marker with a greater coordinator epoch, a tool or another cluster wrote it. The new marker then uses
        that epoch, because a rejection would leave the transaction open forever. If the partition has seen a newer producer epoch, this
        transaction is not open there: no marker is written and None is returned.
        """
        seen = self._partitions.get(*tp).coordinator_epoch_seen(marker.producer_id)
        try:
            return self.write(tp, marker if seen <= marker.coordinator_epoch else replace(marker, coordinator_epoch=seen))
        except Rejected as refusal:
            if refusal.code is not ErrorCode.INVALID_PRODUCER_EPOCH:
                raise
            logger.warning("No marker of producer %d in %s-%d: %s", marker.producer_id, *tp, refusal)
            return None
