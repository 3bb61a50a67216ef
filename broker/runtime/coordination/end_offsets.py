"""Looks up the end offsets of partitions, for the lag of share groups (Kafka's PartitionMetadataClient)."""

from __future__ import annotations

from typing import Final

from ottla.broker.cluster.catalog import Catalog
from ottla.broker.cluster.metadata_records import NO_LEADER
from ottla.broker.core.rejected import Rejected
from ottla.broker.runtime.nodes.peers import Peers
from ottla.broker.runtime.replicas.partitions import Partitions
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k02_list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsResponse, ListOffsetsTopic

_LATEST: Final = -1
_NO_REPLICA: Final = -1


class EndOffsets:
    """Looks up end offsets of partitions at their leaders. A partition that this broker (`node_id`) leads is looked up here; otherwise the
    leader gets a ListOffsets request over `peers`. A standalone node has no `peers`."""

    def __init__(self, partitions: Partitions, catalog: Catalog, node_id: int, peers: Peers | None = None) -> None:
        self._partitions = partitions
        self._catalog = catalog
        self._node_id = node_id
        self._peers = peers

    async def of(self, topic_id: bytes, index: int) -> int:
        """Return the high watermark of a partition, from its leader. Raises Rejected, for example if the partition has no leader
        (LEADER_NOT_AVAILABLE) or the leader cannot be reached (NETWORK_EXCEPTION).
        """
        topic = self._catalog.topic_by_id(topic_id)
        if topic is None or index not in topic.partitions:
            raise Rejected(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        leader = self._catalog.leader_of((topic.name, index))
        if leader == self._node_id:
            return self._partitions.get(topic.name, index).log.high_watermark
        if leader == NO_LEADER or self._peers is None:
            raise Rejected(ErrorCode.LEADER_NOT_AVAILABLE)
        request = ListOffsetsRequest(_NO_REPLICA, topics=[ListOffsetsTopic(topic.name, [ListOffsetsPartition(index, timestamp=_LATEST)])])
        response: ListOffsetsResponse = await self._peers.ask(leader, request)
        found = response.topics[0].partitions[0]
        if found.error_code != ErrorCode.NONE:
            raise Rejected(ErrorCode.of(found.error_code))
        return found.offset
