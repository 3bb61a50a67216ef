"""Broker 1 of a cluster in memory, for tests of its requests to other brokers, whose responses are scripted."""

from __future__ import annotations

from ottla.broker.cluster.catalog import Catalog
from ottla.broker.cluster.metadata_records import NO_LEADER, PartitionChangeRecord, PartitionRecord, TopicRecord
from ottla.broker.cluster.topic_names import TRANSACTION_STATE
from ottla.broker.runtime.nodes.link import Node
from ottla.broker.runtime.nodes.peers import Peers
from ottla.protocol.api_keys import ApiKey
from tests.support.answering_node import Answer, ScriptedNode
from tests.support.node_links import LinkHarness

T, STATE = (bytes([n]) * 16 for n in (1, 2))
SERVED = {ApiKey.WRITE_TXN_MARKERS: (1, 2), ApiKey.ADD_PARTITIONS_TO_TXN: (0, 5)}


class BrokerOne(LinkHarness):
    """Broker 1 of a cluster. It leads `t-0`, broker 2 leads `t-1` and the only `__transaction_state-0`, broker 3 leads `t-2`; `t-3` has no
    leader."""

    def __init__(self) -> None:
        super().__init__()
        self.catalog = Catalog()
        leaders = [(T, 0, 1), (T, 1, 2), (T, 2, 3), (T, 3, NO_LEADER), (STATE, 0, 2)]
        self.catalog.apply([TopicRecord("t", T), TopicRecord(TRANSACTION_STATE, STATE)])
        self.catalog.apply(PartitionRecord(index, topic, [1, 2, 3], [1, 2, 3], leader=leader) for topic, index, leader in leaders)
        self.addresses: dict[int, Node] = {}
        self.peers = Peers(self.connect, self.addresses.get, 1_000)

    async def other(self, node: int, answer: Answer, versions: dict[int, tuple[int, int]] | None = None) -> ScriptedNode:
        """Start a scripted broker with the id `node`, register it in broker 1's metadata, and return it."""
        self.addresses[node] = Node(node, f"h{node}", 9092)
        return await self.answering(self.addresses[node], answer, versions or dict(SERVED.items()))

    def moved(self, topic: bytes, index: int, leader: int) -> None:
        self.catalog.apply([PartitionChangeRecord(index, topic, leader=leader)])
