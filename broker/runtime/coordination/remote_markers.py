"""Sends transaction markers from this broker's coordinators to partition leaders in the cluster (Kafka's TransactionMarkerChannelManager).

Invariants:

* The leader is looked up each time a marker is sent. A marker for a partition without a reachable leader fails with a retriable error.
* An error applies to its partition only. If the whole request fails, all of its markers are sent again; a second marker has no effect on a
  partition that already has one.
* A request has at most one marker per producer id, because the response identifies the marker by its producer id.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ottla.broker.cluster.catalog import Catalog
from ottla.broker.cluster.metadata_records import NO_LEADER
from ottla.broker.core.rejected import Rejected
from ottla.broker.runtime.coordination.shard import Committed
from ottla.broker.runtime.coordination.txn_markers import SendMarker
from ottla.broker.runtime.nodes.link import LinkBroken, UnsupportedByPeer
from ottla.broker.runtime.nodes.peers import OperationBatcher, Peers, PendingOperation
from ottla.broker.runtime.upkeep.nursery import Nursery
from ottla.broker.txns.transaction import TopicPartition
from ottla.broker.txns.txn_marker import TxnMarker
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k27_write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

if TYPE_CHECKING:
    _PendingOperation = PendingOperation[tuple[TopicPartition, TxnMarker], None]


class RemoteMarkers:
    """Sends transaction markers to the partitions' leaders. `local` writes those markers whose partition this broker, `node_id`, leads."""

    def __init__(self, local: SendMarker, catalog: Catalog, node_id: int, peers: Peers, nursery: Nursery) -> None:
        self._local = local
        self._catalog = catalog
        self._node_id = node_id
        self._peers = peers
        nursery.at_close(self._end, self._end)
        self._batches: OperationBatcher[tuple[TopicPartition, TxnMarker], None] = OperationBatcher(
            nursery, "transaction markers", self._write
        )

    def send(self, tp: TopicPartition, marker: TxnMarker) -> Committed:
        """Send a marker to the leader of the partition. Return None if the marker is committed already. Otherwise return a future that is
        done when the marker is committed, and fails with Rejected if the leader cannot be reached or rejects it. Raises Rejected if the
        partition has no leader, or is led by this broker and rejects the marker.
        """
        leader = self._catalog.leader_of(tp)
        if leader == self._node_id:
            return self._local(tp, marker)
        if leader == NO_LEADER:
            raise Rejected(ErrorCode.LEADER_NOT_AVAILABLE)
        return self._batches.put(leader, (tp, marker))

    def _end(self) -> None:
        self._batches.end()
        self._peers.close()

    async def _write(self, node: int, batch: Sequence[_PendingOperation]) -> None:
        markers: dict[int, TxnMarker] = {}
        for pending in batch:
            marker = pending.operation[1]
            markers.setdefault(marker.producer_id, marker)
        now = [pending for pending in batch if markers[pending.operation[1].producer_id] == pending.operation[1]]
        try:
            response: WriteTxnMarkersResponse = await self._peers.call(node, _request(now))
        except (LinkBroken, UnsupportedByPeer) as error:
            for pending in now:
                pending.fail(Rejected(ErrorCode.NETWORK_EXCEPTION, str(error)))
            return
        codes = _codes(response)
        for pending in now:
            (topic, index), marker = pending.operation
            code = codes.get((marker.producer_id, topic, index), ErrorCode.UNKNOWN_SERVER_ERROR)
            if code == ErrorCode.NONE:
                pending.settle(None)
            else:
                pending.fail(Rejected(ErrorCode.of(code), f"broker {node} rejects the marker"))


def _request(batch: Sequence[_PendingOperation]) -> WriteTxnMarkersRequest:
    tps: dict[TxnMarker, dict[str, list[int]]] = {}
    for pending in batch:
        (topic, index), marker = pending.operation
        tps.setdefault(marker, {}).setdefault(topic, []).append(index)
    return WriteTxnMarkersRequest([_wire_marker(marker, topics) for marker, topics in tps.items()])


def _wire_marker(marker: TxnMarker, topics: Mapping[str, list[int]]) -> WritableTxnMarker:
    return WritableTxnMarker(
        marker.producer_id,
        marker.producer_epoch,
        marker.commit,
        [WritableTxnMarkerTopic(*each) for each in topics.items()],
        marker.coordinator_epoch,
        marker.transaction_version,
    )


def _codes(response: WriteTxnMarkersResponse) -> dict[tuple[int, str, int], int]:
    return {
        (marker.producer_id, topic.name, partition.partition_index): partition.error_code
        for marker in response.markers
        for topic in marker.topics
        for partition in topic.partitions
    }
