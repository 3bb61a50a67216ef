"""Compare Ottla with Apache Kafka by requests about classic groups: joins, committed offsets and admin requests, also requests that are
rejected."""

from __future__ import annotations

from typing import Any

from client_compat.differential.probe import Probe
from client_compat.differential.scenarios.common import UNKNOWN_ID, create, until, versions
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k08_offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from ottla.protocol.messages.k09_offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from ottla.protocol.messages.k10_find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.k11_join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.protocol.messages.k12_heartbeat import HeartbeatRequest
from ottla.protocol.messages.k13_leave_group import LeaveGroupRequest, MemberIdentity
from ottla.protocol.messages.k14_sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from ottla.protocol.messages.k15_describe_groups import DescribeGroupsRequest
from ottla.protocol.messages.k16_list_groups import ListGroupsRequest
from ottla.protocol.messages.k20_delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.protocol.messages.k42_delete_groups import DeleteGroupsRequest
from ottla.protocol.messages.k47_offset_delete import OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic

SUBSCRIPTION = b"\x00\x01\x00\x00\x00\x01\x00\x06joined\x00\x00\x00\x00\x00\x00\x00\x00"
"""An encoded ConsumerProtocolSubscription, version 1, for the topic "joined"."""


def join_request(group: str, member: str = "", **fields: Any) -> JoinGroupRequest:
    """Return a JoinGroup request of a consumer with the assignor `range`. `fields` replace fields of the request."""
    given = {
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 10_000,
        "protocol_type": "consumer",
        "protocols": [JoinGroupRequestProtocol("range", SUBSCRIPTION)],
        **fields,
    }
    return JoinGroupRequest(group_id=group, member_id=member, **given)


def join(probe: Probe, group: str, version: int, name: str = "member", **fields: Any) -> Any:
    """Join a group, with a second request if the broker requires the member id first; return the last response."""
    answer = probe.send(join_request(group, **fields), version)
    response = probe.finish(f"join as {name}", *answer)
    word(probe, response, name)
    if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
        response = probe.ask(f"join as {name}, with its id", join_request(group, response.member_id, **fields), version)
    return response


def word(probe: Probe, response: Any, name: str) -> None:
    """Make `<name>` the placeholder of the member id in a JoinGroup response. It replaces the id in the last recorded response, which is
    this one, and in all later ones."""
    seen = probe.seen[-1]
    for known in {response.member_id, response.leader} - {""}:
        for field in ("member_id", "leader"):
            if seen.response.get(field) == known:
                seen.response[field] = f"<{name}>"
        for member in seen.response.get("members", []):
            if member["member_id"] == known:
                member["member_id"] = f"<{name}>"
    probe.names.learn(response.member_id, name)


def coordinators(probe: Probe) -> None:
    """Send FindCoordinator with each key type, at every version."""
    for version in probe.range(ApiKey.FIND_COORDINATOR):
        for kind in (0, 2, 7, -1):
            for key in ("group", ""):
                if kind == 0 or version >= 1:
                    probe.ask(f"{key!r} of kind {kind}", FindCoordinatorRequest(key, kind, [key]), version)
    probe.ask("none", FindCoordinatorRequest("", 0, []), 4)
    probe.ask("twice", FindCoordinatorRequest("", 0, ["a", "a", "b"]), 4)


def joining(probe: Probe) -> None:
    """Run one member's life cycle at each version of JoinGroup."""
    create(probe, "joined", 2)
    for version in probe.range(ApiKey.JOIN_GROUP):
        group = f"life-{version}"
        member = join(probe, group, version)
        sync_version = min(version, 5)
        handed = [SyncGroupRequestAssignment(member.member_id, b"all")]
        sync = SyncGroupRequest(group, member.generation_id, member.member_id, None, "consumer", "range", handed)
        probe.ask("heartbeat before sync", HeartbeatRequest(group, member.generation_id, member.member_id), min(version, 4))
        probe.ask("sync", sync, sync_version)
        probe.ask("sync again", SyncGroupRequest(group, member.generation_id, member.member_id), min(version, 4))
        probe.ask("described", DescribeGroupsRequest([group], True), min(version, 6))
        for label, beat in {
            "heartbeat": HeartbeatRequest(group, member.generation_id, member.member_id),
            "heartbeat of another generation": HeartbeatRequest(group, 9, member.member_id),
            "heartbeat of a stranger": HeartbeatRequest(group, member.generation_id, "stranger"),
            "heartbeat of nobody": HeartbeatRequest(group, member.generation_id, ""),
            "heartbeat of another group": HeartbeatRequest("nowhere", 1, "stranger"),
            "heartbeat of no group": HeartbeatRequest("", 1, "stranger"),
        }.items():
            probe.ask(label, beat, min(version, 4))
        for label, wrong in {
            "sync of another generation": SyncGroupRequest(group, 9, member.member_id),
            "sync of a stranger": SyncGroupRequest(group, member.generation_id, "stranger"),
            "sync of another group": SyncGroupRequest("nowhere", 1, "stranger"),
            "sync of no group": SyncGroupRequest("", 1, "stranger"),
        }.items():
            probe.ask(label, wrong, min(version, 4))
        probe.ask("rejoin", join_request(group, member.member_id), version)
        for label, leave in {
            "leave of a stranger": LeaveGroupRequest(group, "stranger", [MemberIdentity("stranger")]),
            "leave of another group": LeaveGroupRequest("nowhere", "stranger", [MemberIdentity("stranger")]),
            "leave": LeaveGroupRequest(group, member.member_id, [MemberIdentity(member.member_id)]),
            "leave again": LeaveGroupRequest(group, member.member_id, [MemberIdentity(member.member_id)]),
        }.items():
            probe.ask(label, leave, min(version, 5))
        probe.ask("described, empty", DescribeGroupsRequest([group], True), min(version, 6))


def joining_refused(probe: Probe) -> None:
    """Send JoinGroup and SyncGroup requests that are rejected."""
    member = join(probe, "refused", 9)
    protocols = [JoinGroupRequestProtocol("other", SUBSCRIPTION)]
    for version in (1, 3, 4, 5, 7, 9):
        for label, request in {
            "session too short": join_request("new", session_timeout_ms=5),
            "session too long": join_request("new", session_timeout_ms=10_000_000),
            "no group": join_request(""),
            "no protocols": join_request("new", protocols=[]),
            "no protocol type": join_request("new", protocol_type=""),
            "stranger": join_request("refused", "stranger"),
            "stranger of a new group": join_request("new", "stranger"),
            "other type": join_request("refused", "stranger", protocol_type="connect"),
            "other protocol": join_request("refused", "stranger", protocols=protocols),
        }.items():
            probe.ask(label, request, version)
    sync = SyncGroupRequest("refused", member.generation_id, member.member_id, None, "other", "range")
    probe.ask("sync of another type", sync, 5)
    sync = SyncGroupRequest("refused", member.generation_id, member.member_id, None, "consumer", "other")
    probe.ask("sync of another protocol", sync, 5)


def static_members(probe: Probe) -> None:
    """Let a static member join, return, be fenced and leave by its instance id."""
    for version in (5, 7, 8, 9):
        group = f"static-{version}"
        first = join(probe, group, version, "first", group_instance_id="me")
        handed = [SyncGroupRequestAssignment(first.member_id, b"all")]
        probe.ask("sync", SyncGroupRequest(group, first.generation_id, first.member_id, "me", assignments=handed), 4)
        second = join(probe, group, version, "second", group_instance_id="me")
        probe.ask("fenced heartbeat", HeartbeatRequest(group, first.generation_id, first.member_id, "me"), 4)
        probe.ask("heartbeat", HeartbeatRequest(group, second.generation_id, second.member_id, "me"), 4)
        probe.ask("unknown instance", HeartbeatRequest(group, second.generation_id, second.member_id, "you"), 4)
        probe.ask("fenced sync", SyncGroupRequest(group, first.generation_id, first.member_id, "me"), 4)
        probe.ask("sync of the second", SyncGroupRequest(group, second.generation_id, second.member_id, "me"), 4)
        probe.ask("fenced join", join_request(group, first.member_id, group_instance_id="me"), version)
        probe.ask("described", DescribeGroupsRequest([group]), 5)
        commit = commit_request(group, 1, second.generation_id, first.member_id, group_instance_id="me")
        probe.ask("fenced commit", commit, 8)
        probe.ask("fenced leave", LeaveGroupRequest(group, "", [MemberIdentity(first.member_id, "me")]), 4)
        both = [MemberIdentity("", "me"), MemberIdentity("", "you"), MemberIdentity("stranger")]
        probe.ask("leave by instance, and others", LeaveGroupRequest(group, "", both), 4)


def commit_by_id(group: str, topic_id: bytes, partition: int = 0) -> OffsetCommitRequest:
    """Return an OffsetCommit request for one offset, which names the topic by its id."""
    offset = OffsetCommitRequestPartition(partition, 5, 0, "note")
    return OffsetCommitRequest(group, topics=[OffsetCommitRequestTopic(topic_id=topic_id, partitions=[offset])])


def commit_request(group: str, offset: int, generation: int = -1, member: str = "", **fields: Any) -> OffsetCommitRequest:
    """Return an OffsetCommit request for one offset, which names the topic by its name."""
    partition = OffsetCommitRequestPartition(fields.pop("partition", 0), offset, 0, fields.pop("metadata", "note"))
    topic = OffsetCommitRequestTopic(fields.pop("topic", "committed"), partitions=[partition])
    return OffsetCommitRequest(group, generation, member, topics=[topic], **fields)


def committing(probe: Probe) -> None:
    """Commit and fetch offsets with and without group members."""
    create(probe, "committed", 2)
    for version in versions(probe, ApiKey.OFFSET_COMMIT, last=9):
        group = f"commits-{version}"
        for label, request in {
            "simple": commit_request(group, 5),
            "null metadata": commit_request(group, 6, metadata=None, partition=1),
            "long metadata": commit_request(group, 6, metadata="m" * 5_000, partition=1),
            "negative offset": commit_request(group, -1, partition=1),
            "unknown topic": commit_request(group, 5, topic="nowhere"),
            "unknown partition": commit_request(group, 5, partition=9),
            "no group": commit_request("", 5),
            "a stranger": commit_request(group, 5, 1, "stranger"),
            "a stranger without generation": commit_request(group, 5, -1, "stranger"),
            "a generation without member": commit_request(group, 5, 1, ""),
            "a stranger of a new group": commit_request(f"{group}-new", 5, 1, "stranger"),
            "nothing": OffsetCommitRequest(group),
        }.items():
            probe.ask(label, request, version)
    for version in versions(probe, ApiKey.OFFSET_FETCH, last=9):
        for group in ("commits-8", "unknown-group", ""):
            wanted: dict[str, list[tuple[str, list[int]]] | None] = {
                "two": [("committed", [0, 1])],
                "unknown": [("nowhere", [0]), ("committed", [9])],
                "none": [],
            }
            if version >= 2:
                wanted["all"] = None
            for label, topics in wanted.items():
                old = None if topics is None else [OffsetFetchRequestTopic(name, indexes) for name, indexes in topics]
                new = None if topics is None else [OffsetFetchRequestTopics(name, partition_indexes=indexes) for name, indexes in topics]
                fetch = OffsetFetchRequest(group, old, [OffsetFetchRequestGroup(group, topics=new)])
                probe.ask(f"fetch {label} of {group!r}", fetch, version)
    member_fetch = OffsetFetchRequestGroup("commits-8", "stranger", 5, [OffsetFetchRequestTopics("committed", partition_indexes=[0])])
    probe.ask("fetch of a stranger", OffsetFetchRequest(groups=[member_fetch]), 9)
    groups = [OffsetFetchRequestGroup(name, topics=None) for name in ("commits-8", "commits-7", "unknown")]
    probe.ask("fetch of several groups", OffsetFetchRequest(groups=groups), 8)
    probe.ask("fetch of no groups", OffsetFetchRequest(groups=[]), 8)


def committing_by_id(probe: Probe) -> None:
    """Commit and fetch offsets at those versions of OffsetCommit and OffsetFetch that use topic ids."""
    topic_id, other = create(probe, "by-id-1", 2), create(probe, "by-id-2")
    probe.names.learn(UNKNOWN_ID, "an unknown id")
    idents = {"known": topic_id, "unknown": UNKNOWN_ID, "zero": bytes(16)}
    for version in versions(probe, ApiKey.OFFSET_COMMIT, first=10):
        for label, ident in idents.items():
            probe.ask(f"commit, {label}", commit_by_id("by-id", ident), version)
        probe.ask("unknown partition", commit_by_id("by-id", topic_id, 9), version)
        probe.ask("no group", commit_by_id("", topic_id), version)
        stranger = commit_by_id("by-id-new", topic_id)
        stranger.generation_id_or_member_epoch, stranger.member_id = 1, "stranger"
        probe.ask("a stranger of a new group", stranger, version)
        mixed = commit_by_id("by-id", other)
        mixed.topics += commit_by_id("", UNKNOWN_ID).topics + commit_by_id("", topic_id, 1).topics
        probe.ask("several", mixed, version)
        probe.ask("nothing", OffsetCommitRequest("by-id"), version)
    for version in versions(probe, ApiKey.OFFSET_FETCH, first=10):
        for group in ("by-id", "unknown-group", ""):
            for label, ident in idents.items():
                topics = [OffsetFetchRequestTopics(topic_id=ident, partition_indexes=[0, 9])]
                probe.ask(
                    f"fetch {label} of {group!r}", OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group, topics=topics)]), version
                )
        for group in ("by-id", "unknown-group"):
            probe.ask(f"fetch all of {group!r}", OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group, topics=None)]), version)
        topics = [OffsetFetchRequestTopics(topic_id=ident, partition_indexes=[0]) for ident in (UNKNOWN_ID, topic_id, other)]
        probe.ask("fetch several", OffsetFetchRequest(groups=[OffsetFetchRequestGroup("by-id", topics=topics)]), version, sort=False)
        stranger_asks = OffsetFetchRequestGroup("by-id", "stranger", 5, topics)
        probe.ask("fetch of a stranger", OffsetFetchRequest(groups=[stranger_asks], require_stable=True), version)
        probe.ask("fetch of no groups", OffsetFetchRequest(groups=[]), version)
    probe.ask("delete", DeleteTopicsRequest([DeleteTopicState("by-id-2")], timeout_ms=5_000), 6)
    gone = OffsetFetchRequest(
        groups=[OffsetFetchRequestGroup("by-id", topics=[OffsetFetchRequestTopics(topic_id=other, partition_indexes=[0])])]
    )
    for version in versions(probe, ApiKey.OFFSET_FETCH, first=10):
        for _ in until("the topic is gone"):
            if probe.ask_unrecorded(gone, version).groups[0].topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID:
                break
        probe.ask("fetch of a deleted topic", gone, version)


def committing_as_member(probe: Probe) -> None:
    """Commit as a member during a rebalance, in a stable group, and after leaving."""
    create(probe, "committed2", 1)
    member = join(probe, "member-commits", 9)
    generation, name = member.generation_id, member.member_id
    probe.ask("while waiting for sync", commit_request("member-commits", 1, generation, name, topic="committed2"), 8)
    handed = [SyncGroupRequestAssignment(name, SUBSCRIPTION)]
    probe.ask("sync", SyncGroupRequest("member-commits", generation, name, None, "consumer", "range", handed), 5)
    probe.ask("stable", commit_request("member-commits", 2, generation, name, topic="committed2"), 8)
    probe.ask("other generation", commit_request("member-commits", 2, generation + 1, name, topic="committed2"), 8)
    probe.ask("stranger", commit_request("member-commits", 2, generation, "stranger", topic="committed2"), 8)
    probe.ask("simple, while there are members", commit_request("member-commits", 2, topic="committed2"), 8)
    deleted = OffsetDeleteRequest(
        "member-commits",
        [
            OffsetDeleteRequestTopic("joined", [OffsetDeleteRequestPartition(0)]),
            OffsetDeleteRequestTopic("committed2", [OffsetDeleteRequestPartition(0), OffsetDeleteRequestPartition(7)]),
            OffsetDeleteRequestTopic("nowhere", [OffsetDeleteRequestPartition(0)]),
        ],
    )
    probe.ask("delete offsets while subscribed", deleted, 0)
    probe.ask("delete the group", DeleteGroupsRequest(["member-commits"]))
    probe.ask("leave", LeaveGroupRequest("member-commits", "", [MemberIdentity(name)]), 4)
    probe.ask("after it left", commit_request("member-commits", 2, generation, name, topic="committed2"), 8)
    probe.ask("simple, empty group", commit_request("member-commits", 3, topic="committed2"), 8)
    probe.ask("delete offsets", deleted, 0)
    empty = [OffsetFetchRequestGroup("member-commits", topics=None)]
    probe.ask("what is left", OffsetFetchRequest(groups=empty), 8)


def admin(probe: Probe) -> None:
    """Describe, list and delete groups."""
    create(probe, "adm", 1)
    probe.ask("a commit", commit_request("adm-simple", 1, topic="adm"), 8)
    member = join(probe, "adm-joined", 9)
    handed = [SyncGroupRequestAssignment(member.member_id, b"all")]
    probe.ask("sync", SyncGroupRequest("adm-joined", member.generation_id, member.member_id, assignments=handed), 4)
    for version in probe.range(ApiKey.DESCRIBE_GROUPS):
        for names in (["adm-simple"], ["adm-joined"], ["unknown"], [""], [], ["unknown", "adm-simple"]):
            probe.ask(f"describe {names}", DescribeGroupsRequest(names), version)
    for version in probe.range(ApiKey.LIST_GROUPS):
        filters: list[tuple[list[str], list[str]]] = [([], [])]
        filters += [(["Empty"], []), (["stable"], []), (["Nonsense"], [])] if version >= 4 else []
        filters += [([], ["classic"]), ([], ["Consumer"]), ([], ["nonsense"]), (["Empty"], ["Classic"])] if version >= 5 else []
        for states, types in filters:
            answer = probe.ask(f"list {states} {types}", ListGroupsRequest(states, types), version)
            if answer is not None:
                shown = probe.seen[-1].response
                shown["groups"] = [group for group in shown["groups"] if group["group_id"].startswith("adm-")]
    for version in probe.range(ApiKey.DELETE_GROUPS):
        probe.ask("a commit", commit_request("adm-simple", 1, topic="adm"), 8)
        for name in ("adm-joined", "unknown", "", "adm-simple", "adm-simple"):
            probe.ask(f"delete {name!r}", DeleteGroupsRequest([name]), version)
        probe.ask("delete two", DeleteGroupsRequest(["adm-joined", "unknown"]), version)
    probe.ask("delete offsets of an unknown group", OffsetDeleteRequest("unknown", []), 0)
    probe.ask("delete offsets of no group", OffsetDeleteRequest("", []), 0)
    probe.ask("leave", LeaveGroupRequest("adm-joined", "", [MemberIdentity(member.member_id)]), 4)
    probe.ask("delete it when empty", DeleteGroupsRequest(["adm-joined"]))
    probe.ask("described when deleted", DescribeGroupsRequest(["adm-joined"]), 5)
