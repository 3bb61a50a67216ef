"""Compare Ottla's cluster with Apache Kafka's by group and transaction requests: finding coordinators, requests to brokers that are not the
coordinator, and life cycles that span brokers."""

from __future__ import annotations

from client_compat.differential.cluster_scenarios.common import create, wait_until_replicated
from client_compat.differential.cluster_scenarios.writing import write
from client_compat.differential.nodes import Nodes
from client_compat.differential.scenarios.beginning import of_groups, of_transactions
from client_compat.differential.scenarios.common import batch, producer_id, until
from client_compat.differential.scenarios.fetch import part, request
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.k08_offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from ottla.protocol.messages.k09_offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from ottla.protocol.messages.k10_find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.k16_list_groups import ListGroupsRequest
from ottla.protocol.messages.k22_init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.k24_add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from ottla.protocol.messages.k26_end_txn import EndTxnRequest
from ottla.protocol.messages.k61_describe_producers import DescribeProducersRequest, TopicRequest
from ottla.protocol.messages.k65_describe_transactions import DescribeTransactionsRequest

GROUP, TRANSACTION = 0, 1
KEYS = [f"key-{n}" for n in range(8)]


def coordinator(nodes: Nodes, key: str, kind: int) -> int:
    """Return the id of the broker that coordinates the group or transactional id `key`. `kind` is the key type of FindCoordinator."""
    (found,) = nodes.at(nodes.living[0]).ask_unrecorded(FindCoordinatorRequest(key, kind, [key]), 4).coordinators
    return int(found.node_id)


def found(nodes: Nodes) -> None:
    """Send FindCoordinator to every broker, for groups and transactional ids that each of the brokers coordinates."""
    for version in nodes.range(ApiKey.FIND_COORDINATOR):
        for kind in (GROUP, TRANSACTION) if version >= 1 else (GROUP,):
            for key in KEYS if version < 4 else KEYS[:1]:
                nodes.everywhere(f"{kind} {key}", FindCoordinatorRequest(key, kind, KEYS), version)
    for kind in (2, 7):
        nodes.everywhere(f"of kind {kind}", FindCoordinatorRequest("", kind, ["key"]))


def groups_elsewhere(nodes: Nodes) -> None:
    """Send each group API at every version to brokers that do not coordinate the group."""
    topic_id = create(nodes, "grouped")
    here = coordinator(nodes, "elsewhere", GROUP)
    for label, message in of_groups("elsewhere", "grouped", topic_id).items():
        for version in nodes.range(ApiKey(message.API_KEY)):
            for node_id in nodes.living:
                if node_id != here:
                    nodes.ask(node_id, label, message, version)


def transactions_elsewhere(nodes: Nodes) -> None:
    """Send each transaction API at every version to brokers that do not coordinate the transactional id."""
    topic_id = create(nodes, "transacted")
    own = producer_id(nodes.at(1))
    here = coordinator(nodes, "elsewhere", TRANSACTION)
    for label, message in of_transactions("elsewhere", own, "transacted", topic_id).items():
        for version in nodes.range(ApiKey(message.API_KEY)):
            for node_id in nodes.living:
                if node_id != here:
                    nodes.ask(node_id, label, message, version)


def group_life(nodes: Nodes) -> None:
    """Commit offsets at the coordinator and fetch them at every broker. Each broker lists only the groups that it coordinates."""
    topic_id = create(nodes, "committed")
    for key in KEYS[:4]:
        here = coordinator(nodes, key, GROUP)
        topic = OffsetCommitRequestTopic("committed", topic_id, [OffsetCommitRequestPartition(0, 7, 0, "m")])
        nodes.ask(here, f"commit {key}", OffsetCommitRequest(key, topics=[topic]), 9)
        group = OffsetFetchRequestGroup(key, None, -1, [OffsetFetchRequestTopics("committed", topic_id, [0])])
        nodes.everywhere(f"fetch {key}", OffsetFetchRequest(groups=[group]), 9)
    nodes.everywhere("list", ListGroupsRequest())


def transaction_life(nodes: Nodes) -> None:
    """Commit and abort transactions that have partitions on every broker, with EndTxn in versions 3, 4 and 5, as older and newer clients
    send it."""
    create(nodes, "txn", [(1, 2), (2, 3), (3, 1)])
    for key, version in (("key-0", 3), ("key-1", 4), ("key-2", 5), ("key-3", 5)):
        here = coordinator(nodes, key, TRANSACTION)
        for n, committed in enumerate((True, False)):
            begun = nodes.ask(here, f"init {key}", InitProducerIdRequest(key, 60_000), 5 if version == 5 else 4)
            own = (begun.producer_id, begun.producer_epoch)
            if version < 5:
                topics = [AddPartitionsToTxnTopic("txn", [0, 1, 2])]
                one = AddPartitionsToTxnTransaction(key, *own, False, topics)
                nodes.ask(here, "add", AddPartitionsToTxnRequest([one], key, *own, topics), 3)
            for partition in range(3):
                records = batch(b"a", b"b", producer_id=own[0], producer_epoch=own[1], base_sequence=0, transactional=True)
                at = partition + 1
                fields = {"transactional_id": key, "partition": partition}
                write(nodes, at, f"{key} {n}", "txn", bytes(16), records, version=12 if version == 5 else 11, **fields)
            nodes.everywhere("described", DescribeTransactionsRequest([key]))
            nodes.ask(here, f"end {key}", EndTxnRequest(key, *own, committed), version)
            ended(nodes, here, key)
    for partition in range(3):
        wait_until_replicated(nodes, "txn", partition)
        for isolation in (0, 1):
            message = request("txn", bytes(16), part(partition), isolation_level=isolation)
            nodes.everywhere(f"isolation {isolation} of {partition}", message, 12)
    nodes.everywhere("producers", DescribeProducersRequest([TopicRequest("txn", [0, 1, 2])]))


def ended(nodes: Nodes, here: int, key: str) -> None:
    """Wait until the transaction of the transactional id `key` has written all its markers, according to its coordinator, the broker
    `here`."""
    for _ in until(f"{key} is ended"):
        (state,) = nodes.at(here).ask_unrecorded(DescribeTransactionsRequest([key]), 0).transaction_states
        if not state.transaction_state.startswith("Prepare"):
            return
