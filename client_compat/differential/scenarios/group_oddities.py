"""Compare Ottla with Apache Kafka by unusual group requests: with repeated names, with empty lists, and with several errors in one
request."""

from __future__ import annotations

from collections.abc import Mapping

from client_compat.differential.probe import Probe
from client_compat.differential.scenarios.common import UNKNOWN_ID, create, versions
from client_compat.differential.scenarios.groups import commit_request, join, join_request, word
from client_compat.differential.scenarios.share_groups import new_topic as new_share_topic
from client_compat.differential.scenarios.transactions import init, settled
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k08_offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from ottla.protocol.messages.k09_offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from ottla.protocol.messages.k11_join_group import JoinGroupRequestProtocol
from ottla.protocol.messages.k13_leave_group import LeaveGroupRequest, MemberIdentity
from ottla.protocol.messages.k14_sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from ottla.protocol.messages.k15_describe_groups import DescribeGroupsRequest
from ottla.protocol.messages.k16_list_groups import ListGroupsRequest
from ottla.protocol.messages.k25_add_offsets_to_txn import AddOffsetsToTxnRequest
from ottla.protocol.messages.k26_end_txn import EndTxnRequest
from ottla.protocol.messages.k28_txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from ottla.protocol.messages.k42_delete_groups import DeleteGroupsRequest
from ottla.protocol.messages.k47_offset_delete import OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic
from ottla.protocol.messages.k90_describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)

LONG = "m" * 5_000
"""Metadata of a committed offset that is longer than `offset.metadata.max.bytes` allows."""
KNOWN, OTHER, UNKNOWN = "odd-a", "odd-b", "odd-none"
PARTITIONS = 3
Part = tuple[int, int, str]
"""A partition, an offset to commit, and its metadata."""
COMMITS: dict[str, list[tuple[str, list[Part]]]] = {
    "no topics": [],
    "no partitions": [(KNOWN, [])],
    "no partitions, unknown": [(UNKNOWN, [])],
    "no partitions, both, and one": [(KNOWN, []), (UNKNOWN, []), (OTHER, [(0, 1, "")])],
    "a topic twice": [(KNOWN, [(0, 1, "x")]), (OTHER, [(0, 1, "x")]), (KNOWN, [(1, 2, "y")])],
    "a topic twice, once empty": [(KNOWN, [(0, 1, "x")]), (KNOWN, [])],
    "a partition twice": [(KNOWN, [(0, 1, "x"), (0, 2, "y")])],
    "a partition twice, the last too long": [(KNOWN, [(0, 3, "x"), (0, 4, LONG)])],
    "a partition twice, the first too long": [(KNOWN, [(0, 5, LONG), (0, 6, "y")])],
    "unknown partitions": [(KNOWN, [(2, 5, "x"), (9, 5, "y"), (1, 5, "z"), (-1, 5, "")])],
    "an unknown topic twice": [(UNKNOWN, [(1, 1, "")]), (UNKNOWN, [(0, 1, ""), (0, 1, "")])],
    "known and unknown": [(OTHER, [(0, 7, "")]), (UNKNOWN, [(0, 1, "")]), (KNOWN, [(9, 1, ""), (0, 7, LONG)])],
    "an unknown partition in the second": [(KNOWN, [(0, 8, "")]), (OTHER, [(1, 8, "")]), (KNOWN, [(9, 8, "")])],
    "the greatest and the least offset": [(KNOWN, [(0, 2**63 - 1, "")]), (OTHER, [(0, -(2**63), "")])],
}


def offsets(probe: Probe) -> None:
    """Commit offsets with and without a transaction, fetch and delete them, in requests that repeat topics or partitions or have empty
    lists."""
    probe.names.learn(UNKNOWN_ID, "an unknown id")
    ids = {UNKNOWN: UNKNOWN_ID} | {name: create(probe, name, PARTITIONS) for name in (KNOWN, OTHER)}
    _commit(probe, ids)
    _commit_in_transactions(probe, ids)
    _fetch(probe, ids)
    _delete(probe)


def _commit(probe: Probe, ids: Mapping[str, bytes]) -> None:
    for version in probe.range(ApiKey.OFFSET_COMMIT):
        for label, wanted in COMMITS.items():
            topics = [
                OffsetCommitRequestTopic(
                    name, ids[name], [OffsetCommitRequestPartition(index, offset, 0, note) for index, offset, note in parts]
                )
                for name, parts in wanted
            ]
            group = f"odd-{version}"
            probe.ask(label, OffsetCommitRequest(group, topics=topics), version, sort=False)
            probe.ask(f"{label}, of a stranger", OffsetCommitRequest(group, 1, "x", topics=topics), version, sort=False)
        probe.ask("fetch", OffsetFetchRequest(groups=[OffsetFetchRequestGroup(f"odd-{version}", topics=None)]), 8)


def _commit_in_transactions(probe: Probe, ids: Mapping[str, bytes]) -> None:
    producer_id, epoch = init(probe, "init", "odd")
    for version in probe.range(ApiKey.TXN_OFFSET_COMMIT):
        probe.ask("add offsets", AddOffsetsToTxnRequest("odd", producer_id, epoch, "odd-txn"), 3)
        for label, wanted in COMMITS.items():
            in_txn = [
                TxnOffsetCommitRequestTopic(
                    name, ids[name], [TxnOffsetCommitRequestPartition(index, offset, 0, note) for index, offset, note in parts]
                )
                for name, parts in wanted
            ]
            for who, group, producer, member in (
                ("", "odd-txn", producer_id, ("", -1)),
                (", no group", "", producer_id, ("", -1)),
                (", another producer", "odd-txn", producer_id + 7, ("", -1)),
                (", a stranger", "odd-txn", producer_id, ("x", 1)),
            ):
                request = TxnOffsetCommitRequest("odd", group, producer, epoch, member[1], member[0], topics=in_txn)
                probe.ask(f"{label}{who}", request, version, sort=False)
        probe.ask("end", EndTxnRequest("odd", producer_id, epoch, True), 3)
        settled(probe, "odd")
        probe.ask("fetch", OffsetFetchRequest(groups=[OffsetFetchRequestGroup("odd-txn", topics=None)]), 8)


FETCHES: dict[str, list[tuple[str, list[int]]] | None] = {
    "no partitions": [(KNOWN, []), (UNKNOWN, []), (OTHER, [])],
    "a topic twice": [(KNOWN, [0]), (OTHER, [0]), (KNOWN, [1])],
    "a partition twice": [(KNOWN, [0, 0, 5, -1, 1])],
    "unknown in between": [(UNKNOWN, [0]), (KNOWN, [0]), (UNKNOWN, [1, 1])],
    "nothing": [],
    "all": None,
}


def _fetch(probe: Probe, ids: Mapping[str, bytes]) -> None:
    probe.ask("commit", commit_request("off", 5, topic=KNOWN), 9)
    for version in probe.range(ApiKey.OFFSET_FETCH):
        for label, wanted in FETCHES.items():
            if wanted is None and version < 2:
                continue
            old = None if wanted is None else [OffsetFetchRequestTopic(*each) for each in wanted]
            new = None if wanted is None else [OffsetFetchRequestTopics(name, ids[name], parts) for name, parts in wanted]
            for group in ("off", "off-unknown"):
                request = OffsetFetchRequest(group, old, [OffsetFetchRequestGroup(group, topics=new)], version >= 7)
                probe.ask(f"{label} of {group}", request, version, sort=False)
    some, other = ([OffsetFetchRequestTopics(KNOWN, ids[KNOWN], [index])] for index in (0, 1))
    several: dict[str, list[tuple[str, list[OffsetFetchRequestTopics] | None]]] = {
        "a group twice": [("off", some), ("off", other)],
        "all and some": [("off", None), ("off", some)],
        "some and all": [("off", some), ("off", None)],
        "several": [("off-x", None), ("off", some), ("off-y", other)],
    }
    for version in versions(probe, ApiKey.OFFSET_FETCH, first=8):
        for label, given in several.items():
            groups = [OffsetFetchRequestGroup(name, topics=topics) for name, topics in given]
            probe.ask(label, OffsetFetchRequest(groups=groups), version, sort=False)
    for version in versions(probe, ApiKey.OFFSET_FETCH, first=9):
        for member in (None, "", "x"):
            for epoch in (-2, -1, 0, 1):
                for name in ("off", "off-unknown"):
                    groups = [OffsetFetchRequestGroup(name, member, epoch, some)]
                    probe.ask(f"{name} by {member} in {epoch}", OffsetFetchRequest(groups=groups), version)


def _delete(probe: Probe) -> None:
    part, topic = OffsetDeleteRequestPartition, OffsetDeleteRequestTopic
    probe.ask("commit", commit_request("oda", 1, topic=KNOWN), 8)
    for label, topics in {
        "no partitions": [topic(KNOWN, []), topic(UNKNOWN, [])],
        "twice": [topic(KNOWN, [part(1), part(1), part(9)]), topic(UNKNOWN, [part(1), part(1)]), topic(KNOWN, [part(0), part(-1)])],
        "twice, unknown": [topic(UNKNOWN, [part(1)]), topic(UNKNOWN, [part(0)])],
        "twice, known": [topic(KNOWN, [part(1)]), topic(KNOWN, [part(0)])],
        "unknown last": [topic(KNOWN, [part(0)]), topic(KNOWN, [part(9)])],
    }.items():
        for group in ("oda", "oda-unknown", ""):
            probe.ask(f"{label} of {group!r}", OffsetDeleteRequest(group, topics), 0, sort=False)


def admin(probe: Probe) -> None:
    """Delete and list groups, with repeated, empty and malformed names, states and types."""
    create(probe, "oda", 1)
    for version in probe.range(ApiKey.DELETE_GROUPS):
        for names in ([], ["oda", "oda"], ["", "oda-x", "oda-x", ""], ["oda-x", "oda"]):
            probe.ask("commit", commit_request("oda", 1, topic="oda"), 8)
            probe.ask(f"delete {names}", DeleteGroupsRequest(names), version, sort=False)
    probe.ask("commit", commit_request("oda", 1, topic="oda"), 8)
    for version in versions(probe, ApiKey.LIST_GROUPS, first=4):
        by_state = [
            [""],
            ["Empty", "Empty", "nonsense"],
            [" \teMPTY\n"],
            ["Em pty"],
            ["\u00a0Empty"],
            ["preparingrebalance", "empty"],
            ["Unknown"],
        ]
        by_type = [[""], ["classic", "CLASSIC", "x"], ["unknown"], [" classic"]]
        for states, types in [(each, []) for each in by_state] + [([], each) for each in by_type if version >= 5]:
            probe.ask(f"list {states} {types}", ListGroupsRequest(states, types), version)
            shown = probe.seen[-1].response
            shown["groups"] = [group for group in shown["groups"] if group["group_id"].startswith("oda")]


def members(probe: Probe) -> None:
    """Let members of classic groups join, synchronize and leave, with extreme values and with members that are repeated or do not exist."""
    for version in probe.range(ApiKey.JOIN_GROUP):
        for label, request in {
            "a protocol without a name": join_request(f"odm-{version}-a", protocols=[JoinGroupRequestProtocol("", b"")]),
            "no session timeout": join_request(f"odm-{version}-c", session_timeout_ms=0),
            "the greatest session timeout": join_request(f"odm-{version}-c", session_timeout_ms=2**31 - 1),
            "neither group nor session timeout": join_request("", session_timeout_ms=0),
            "an odd type": join_request(f"odm-{version}-d", protocol_type="\x00"),
        }.items():
            answer = probe.ask(label, request, version)
            word(probe, answer, f"{label} {version}")
            if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
                request.member_id = answer.member_id
                answer = probe.ask(f"{label}, with its id", request, version)
            if answer.error_code == ErrorCode.NONE:
                _lives(probe, label, request.group_id, answer.generation_id, answer.member_id)


def _lives(probe: Probe, label: str, group: str, generation: int, member: str) -> None:
    share = SyncGroupRequestAssignment
    for handed in ([share("stranger", b"x")], [share(member, b"1"), share(member, b"2")]):
        probe.ask(f"{label}: sync", SyncGroupRequest(group, generation, member, assignments=handed), 3)
    probe.ask(f"{label}: described", DescribeGroupsRequest([group], True), 5)
    leaving = [MemberIdentity(member), MemberIdentity(member), MemberIdentity(""), MemberIdentity("", "")]
    for members_left in (leaving, []):
        probe.ask(f"{label}: leave", LeaveGroupRequest(group, "", members_left), 5, sort=False)
    probe.ask(f"{label}: leave without an id", LeaveGroupRequest(group, ""), 2)
    probe.ask(f"{label}: described", DescribeGroupsRequest([group], True), 5)


def static_members(probe: Probe) -> None:
    """Let static members join and return before and after the sync, and use wrong combinations of member, instance and generation."""
    create(probe, "static-committed", 1)
    for version in versions(probe, ApiKey.JOIN_GROUP, first=5):
        group = f"ods-{version}"
        first = join(probe, group, version, "first", group_instance_id="me")
        for label, member, instance in (
            ("again", first.member_id, "me"),
            ("without its instance", first.member_id, None),
            ("with another instance", first.member_id, "you"),
            ("a stranger", "nobody", "me"),
        ):
            probe.ask(f"join, {label}", join_request(group, member, group_instance_id=instance), version)
        second = join(probe, group, version, "second, before the sync", group_instance_id="me")
        handed = [SyncGroupRequestAssignment(second.member_id, b"all")]
        probe.ask("sync of the first", SyncGroupRequest(group, first.generation_id, first.member_id, "me", assignments=handed), 4)
        probe.ask("sync without instance", SyncGroupRequest(group, second.generation_id, second.member_id, assignments=handed), 4)
        for label, protocols in {
            "another protocol": ("other", b""),
            "other metadata": ("range", b"zz"),
            "as before": ("range", b"zz"),
        }.items():
            third = join(probe, group, version, label, group_instance_id="me", protocols=[JoinGroupRequestProtocol(*protocols)])
            handed = [SyncGroupRequestAssignment(third.member_id, b"all")]
            probe.ask(f"{label}: sync", SyncGroupRequest(group, third.generation_id, third.member_id, "me", assignments=handed), 4)
            probe.ask(f"{label}: described", DescribeGroupsRequest([group], True), 5)
            for generation in (third.generation_id, -1):
                for member in (third.member_id, ""):
                    for instance in ("me", "you", "", None):
                        commit = commit_request(group, 1, generation, member, topic="static-committed", group_instance_id=instance)
                        probe.ask(f"{label}: commit by {bool(member)} {instance} in {generation}", commit, 8)
        wrong = [MemberIdentity("nobody", "me"), MemberIdentity("nobody", "you")]
        probe.ask("leave under another id", LeaveGroupRequest(group, "", wrong), 4)
        probe.ask("leave twice", LeaveGroupRequest(group, "", [MemberIdentity("", "me"), MemberIdentity("", "me")]), 4)
        probe.ask("described", DescribeGroupsRequest([group], True), 5)
        nameless = probe.ask("an instance without a name", join_request(group, group_instance_id=""), version)
        word(probe, nameless, f"nameless {version}")
        probe.ask("it leaves", LeaveGroupRequest(group, "", [MemberIdentity("", "")]), 4)


def share_offsets(probe: Probe) -> None:
    """Describe offsets of share groups, with topics, partitions and groups that are named twice."""
    new_share_topic(probe, "odo", "odo-a", 2)
    new_share_topic(probe, "odo", "odo-b", 1)
    topic, of_group = DescribeShareGroupOffsetsRequestTopic, DescribeShareGroupOffsetsRequestGroup
    for label, topics in {
        "a topic twice": [topic("odo-a", [0]), topic("odo-b", [0]), topic("odo-a", [1, 0])],
        "a partition twice": [topic("odo-a", [1, 1, 0])],
        "an unknown topic twice": [topic(UNKNOWN, [0]), topic(UNKNOWN, [0, 1])],
        "no topics": [],
    }.items():
        probe.ask(label, DescribeShareGroupOffsetsRequest([of_group("odo", topics)]))
    some = [topic("odo-a", [0])]
    groups = [of_group("", some), of_group("odo", some), of_group("odo-x", some), of_group("odo", [topic("odo-a", [1])])]
    probe.ask("several groups", DescribeShareGroupOffsetsRequest(groups), sort=False)
