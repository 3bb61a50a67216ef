"""Compare Ottla with Apache Kafka by coordinator requests to a new broker, before `__consumer_offsets` and `__transaction_state` exist.

Rules:
- These scenarios run before all others, which need the two topics.
- They send no FindCoordinator, because it would create the topics.
"""

from __future__ import annotations

from client_compat.differential.probe import Probe
from client_compat.differential.scenarios.common import create, producer_id
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.k08_offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from ottla.protocol.messages.k09_offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from ottla.protocol.messages.k11_join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.protocol.messages.k12_heartbeat import HeartbeatRequest
from ottla.protocol.messages.k13_leave_group import LeaveGroupRequest, MemberIdentity
from ottla.protocol.messages.k14_sync_group import SyncGroupRequest
from ottla.protocol.messages.k15_describe_groups import DescribeGroupsRequest
from ottla.protocol.messages.k16_list_groups import ListGroupsRequest
from ottla.protocol.messages.k22_init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.k24_add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from ottla.protocol.messages.k25_add_offsets_to_txn import AddOffsetsToTxnRequest
from ottla.protocol.messages.k26_end_txn import EndTxnRequest
from ottla.protocol.messages.k28_txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from ottla.protocol.messages.k42_delete_groups import DeleteGroupsRequest
from ottla.protocol.messages.k47_offset_delete import OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic
from ottla.protocol.messages.k65_describe_transactions import DescribeTransactionsRequest
from ottla.protocol.messages.k66_list_transactions import ListTransactionsRequest
from ottla.protocol.messages.k68_consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.protocol.messages.k69_consumer_group_describe import ConsumerGroupDescribeRequest
from ottla.protocol.schema import Message


def of_groups(group: str, topic: str, topic_id: bytes) -> dict[str, Message]:
    """Return a request of each group API, by the label under which its response is recorded."""
    joining = JoinGroupRequest(group, 10_000, 10_000, "", None, "consumer", [JoinGroupRequestProtocol("range", b"")])
    commit = OffsetCommitRequestTopic(topic, topic_id, [OffsetCommitRequestPartition(0, 1, 0, "")])
    unknown = OffsetCommitRequestTopic("nowhere", b"\x09" * 16, [OffsetCommitRequestPartition(0, 1, 0, "")])
    request_group = OffsetFetchRequestGroup(group, None, -1, [OffsetFetchRequestTopics(topic, topic_id, [0])])
    beat = ConsumerGroupHeartbeatRequest(group, "member", 0, None, None, 60_000, [topic], topic_partitions=[])
    return {
        "join": joining,
        "join of no group": JoinGroupRequest("", 10_000, 10_000, "", None, "consumer", [JoinGroupRequestProtocol("range", b"")]),
        "sync": SyncGroupRequest(group, 1, "m", None, "consumer", "range"),
        "sync of no group": SyncGroupRequest("", 1, "m", None, "consumer", "range"),
        "heartbeat": HeartbeatRequest(group, 1, "m"),
        "heartbeat of no group": HeartbeatRequest("", 1, "m"),
        "leave": LeaveGroupRequest(group, "m", [MemberIdentity("m")]),
        "leave no group": LeaveGroupRequest("", "m", [MemberIdentity("m")]),
        "describe": DescribeGroupsRequest([group, ""]),
        "list": ListGroupsRequest(),
        "delete": DeleteGroupsRequest([group, ""]),
        "commit": OffsetCommitRequest(group, topics=[commit]),
        "commit of no group": OffsetCommitRequest("", topics=[commit]),
        "commit of what is not there": OffsetCommitRequest(group, topics=[commit, unknown]),
        "commit of nothing": OffsetCommitRequest(group),
        "fetch": OffsetFetchRequest(group, [OffsetFetchRequestTopic(topic, [0])], [request_group]),
        "delete offsets": OffsetDeleteRequest(group, [OffsetDeleteRequestTopic(topic, [OffsetDeleteRequestPartition(0)])]),
        "beat": beat,
        "beat of no group": ConsumerGroupHeartbeatRequest("", "member", 0, None, None, 60_000, [topic], topic_partitions=[]),
        "describe as consumer groups": ConsumerGroupDescribeRequest([group, ""]),
    }


def groups(probe: Probe) -> None:
    """Send a request of each group API at every version."""
    topic_id = create(probe, "early", 1)
    for label, request in of_groups("g", "early", topic_id).items():
        for version in probe.range(ApiKey(request.API_KEY)):
            probe.ask(label, request, version)
    for version in range(2, 8):
        probe.ask("fetch all", OffsetFetchRequest("g", None), version)
    request_group = OffsetFetchRequestGroup("g", None, -1, [OffsetFetchRequestTopics("early", topic_id, [0])])
    stable = OffsetFetchRequest("g", [OffsetFetchRequestTopic("early", [0])], [request_group], True)
    for version in range(7, 10):
        probe.ask("fetch what is stable", stable, version)


def of_transactions(name: str, own: int, topic: str, topic_id: bytes) -> dict[str, Message]:
    """Return a request of each transaction API, by the label under which its response is recorded. The requests come from a producer
    without a transaction: `name` is its transactional id, `own` its producer id."""
    offset = TxnOffsetCommitRequestTopic(topic, topic_id, [TxnOffsetCommitRequestPartition(0, 1, 0, "")])
    place = [AddPartitionsToTxnTopic(topic, [0])]
    return {
        "init": InitProducerIdRequest(name, 60_000),
        "init with no id": InitProducerIdRequest("", 60_000),
        "init for too long": InitProducerIdRequest(name, 2**31 - 1),
        "init with no id for too long": InitProducerIdRequest("", 2**31 - 1),
        "init for no time": InitProducerIdRequest(name, 0),
        "init for less": InitProducerIdRequest(name, -1),
        "init without a transaction, for too long": InitProducerIdRequest(None, 2**31 - 1),
        "commit offsets": TxnOffsetCommitRequest(name, "g", own, 0, topics=[offset]),
        "add": AddPartitionsToTxnRequest([AddPartitionsToTxnTransaction(name, own, 0, False, place)], name, own, 0, place),
        "verify": AddPartitionsToTxnRequest([AddPartitionsToTxnTransaction(name, own, 0, True, place)], name, own, 0, place),
        "add offsets": AddOffsetsToTxnRequest(name, own, 0, "g"),
        "end": EndTxnRequest(name, own, 0, True),
        "end of no id": EndTxnRequest("", own, 0, True),
        "describe": DescribeTransactionsRequest([name, ""]),
        "list": ListTransactionsRequest(),
    }


def transactions(probe: Probe) -> None:
    """Send a request of each transaction API at every version."""
    topic_id = create(probe, "early-txn", 1)
    own = producer_id(probe)
    for label, request in of_transactions("t", own, "early-txn", topic_id).items():
        for version in probe.range(ApiKey(request.API_KEY)):
            probe.ask(label, request, version)
