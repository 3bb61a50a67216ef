"""Compare Ottla with Apache Kafka by group requests that would write a batch of records larger than max.message.bytes of
`__consumer_offsets`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from client_compat.differential.probe import Probe
from client_compat.differential.scenarios.common import create, until
from client_compat.differential.scenarios.groups import join, join_request
from client_compat.differential.scenarios.transactions import init, settled
from ottla.protocol.messages.k08_offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from ottla.protocol.messages.k09_offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from ottla.protocol.messages.k11_join_group import JoinGroupRequestProtocol
from ottla.protocol.messages.k12_heartbeat import HeartbeatRequest
from ottla.protocol.messages.k13_leave_group import LeaveGroupRequest, MemberIdentity
from ottla.protocol.messages.k14_sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from ottla.protocol.messages.k15_describe_groups import DescribeGroupsRequest
from ottla.protocol.messages.k25_add_offsets_to_txn import AddOffsetsToTxnRequest
from ottla.protocol.messages.k26_end_txn import EndTxnRequest
from ottla.protocol.messages.k28_txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from ottla.protocol.messages.k44_incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

OFFSETS_TOPIC: Final = "__consumer_offsets"
MAX_BYTES: Final = 20_000
"""The max.message.bytes that the scenarios set for the topic of the group coordinator."""
PARTITIONS: Final = 10
NOTE: Final = "m" * 4_000
"""Metadata of a committed offset, shorter than `offset.metadata.max.bytes`. A commit of ten such offsets makes a batch that is larger than
MAX_BYTES, the topic's max.message.bytes."""
TOO_LARGE: Final = bytes(25_000)


@contextmanager
def _small_batches(probe: Probe) -> Iterator[None]:
    """Lower max.message.bytes of the group coordinator's topic to MAX_BYTES, and wait until the coordinator respects it. Needs the topic
    "wide"."""
    _alter(probe, AlterableConfig("max.message.bytes", 0, str(MAX_BYTES)))
    for _ in until("large commits are rejected"):
        if probe.ask_unrecorded(commit("wide-limit", PARTITIONS), 8).topics[0].partitions[0].error_code:
            break
    yield
    _alter(probe, AlterableConfig("max.message.bytes", 1, None))


def _alter(probe: Probe, config: AlterableConfig) -> None:
    topic = AlterConfigsResource(2, OFFSETS_TOPIC, [config])
    probe.ask(f"alter {OFFSETS_TOPIC}", IncrementalAlterConfigsRequest([topic]))


def commit(group: str, partitions: int) -> OffsetCommitRequest:
    """Return a commit of offset 5 with long metadata, for the first `partitions` partitions of the topic "wide"."""
    offsets = [OffsetCommitRequestPartition(each, 5, 0, NOTE) for each in range(partitions)]
    return OffsetCommitRequest(group, topics=[OffsetCommitRequestTopic("wide", partitions=offsets)])


def of_groups(probe: Probe) -> None:
    """Commit offsets, and let members of classic groups join and synchronize, when the records to write are larger than a batch may be."""
    create(probe, "wide", PARTITIONS)
    with _small_batches(probe):
        _commits(probe)
        _members(probe)


def _commits(probe: Probe) -> None:
    probe.ask("fits", commit("wide", 2), 8)
    probe.ask("too large", commit("wide", PARTITIONS), 8)
    # Kafka's answer about all topics has the offsets that were committed before twice, after a failed commit.
    topics_wanted = [OffsetFetchRequestTopics("wide", partition_indexes=list(range(PARTITIONS)))]
    everything = OffsetFetchRequest(groups=[OffsetFetchRequestGroup("wide", topics=topics_wanted)])
    probe.ask("fetch", everything, 8)
    producer_id, epoch = init(probe, "init", "wide")
    probe.ask("add offsets", AddOffsetsToTxnRequest("wide", producer_id, epoch, "wide"), 3)
    offsets = [TxnOffsetCommitRequestPartition(each, 6, 0, NOTE) for each in range(PARTITIONS)]
    topics = [TxnOffsetCommitRequestTopic("wide", partitions=offsets)]
    probe.ask("too large, in a transaction", TxnOffsetCommitRequest("wide", "wide", producer_id, epoch, topics=topics), 3)
    probe.ask("end", EndTxnRequest("wide", producer_id, epoch, True), 3)
    settled(probe, "wide")
    probe.ask("fetch after the transaction", everything, 8)


def _members(probe: Probe) -> None:
    first = join(probe, "large-assignment", 9)
    generation, member = first.generation_id, first.member_id
    too_large = [SyncGroupRequestAssignment(member, TOO_LARGE)]
    probe.ask("sync", SyncGroupRequest("large-assignment", generation, member, None, "consumer", "range", too_large), 5)
    probe.ask("described", DescribeGroupsRequest(["large-assignment"]), 5)
    probe.ask("heartbeat", HeartbeatRequest("large-assignment", generation, member), 4)
    again = probe.ask("rejoin", join_request("large-assignment", member), 9)
    fits = [SyncGroupRequestAssignment(member, b"all")]
    probe.ask("sync that fits", SyncGroupRequest("large-assignment", again.generation_id, member, None, "consumer", "range", fits), 5)
    probe.ask("leave", LeaveGroupRequest("large-assignment", "", [MemberIdentity(member)]), 4)
    subscribed = [JoinGroupRequestProtocol("range", TOO_LARGE)]
    second = join(probe, "large-subscription", 9, protocols=subscribed)
    handed = [SyncGroupRequestAssignment(second.member_id, b"all")]
    sync = SyncGroupRequest("large-subscription", second.generation_id, second.member_id, None, "consumer", "range", handed)
    probe.ask("sync of a large subscription", sync, 5)
    probe.ask("leave", LeaveGroupRequest("large-subscription", "", [MemberIdentity(second.member_id)]), 4)
    static = join(probe, "large-static", 9, group_instance_id="me", protocols=subscribed)
    probe.ask("leave", LeaveGroupRequest("large-static", "", [MemberIdentity(static.member_id, "me")]), 4)
