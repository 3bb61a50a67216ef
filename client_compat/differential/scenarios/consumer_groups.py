"""Compare Ottla with Apache Kafka by requests about consumer groups (KIP-848): life cycles, rejections, static members, admin requests, and
conversion from and to the classic protocol.

Rule: Apache Kafka may compute an assignment after it has answered a join. A step that needs an assignment therefore first polls until there
is one, without recording the responses.
"""

from __future__ import annotations

from typing import Any

from client_compat.differential.probe import Probe
from client_compat.differential.scenarios.common import create, until
from client_compat.differential.scenarios.groups import commit_request, join_request, word
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.group_assignment import Assignment
from ottla.protocol.messages.k08_offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from ottla.protocol.messages.k09_offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from ottla.protocol.messages.k11_join_group import JoinGroupRequestProtocol
from ottla.protocol.messages.k12_heartbeat import HeartbeatRequest
from ottla.protocol.messages.k13_leave_group import LeaveGroupRequest, MemberIdentity
from ottla.protocol.messages.k15_describe_groups import DescribeGroupsRequest
from ottla.protocol.messages.k16_list_groups import ListGroupsRequest
from ottla.protocol.messages.k42_delete_groups import DeleteGroupsRequest
from ottla.protocol.messages.k68_consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from ottla.protocol.messages.k69_consumer_group_describe import ConsumerGroupDescribeRequest

JOIN, LEAVE, LEAVE_STATIC = 0, -1, -2
STABLE = "Stable"


def beat(group: str, member: str, epoch: int, **fields: Any) -> ConsumerGroupHeartbeatRequest:
    """Return a ConsumerGroupHeartbeat request of a member that reports no changes except `fields`."""
    return ConsumerGroupHeartbeatRequest(group, member, epoch, **fields)


def joining_beat(group: str, member: str, *topics: str, **fields: Any) -> ConsumerGroupHeartbeatRequest:
    """Return the first ConsumerGroupHeartbeat request of a member that subscribes to `topics`."""
    given = {"rebalance_timeout_ms": 30_000, "subscribed_topic_names": list(topics), "topic_partitions": [], **fields}
    return beat(group, member, JOIN, **given)


def owning(topic_id: bytes, *partitions: int) -> list[TopicPartitions]:
    """Return the heartbeat field with which a member reports these partitions as owned."""
    return [TopicPartitions(topic_id, list(partitions))] if partitions else []


def indexes(assignment: Assignment) -> set[int]:
    """Return the partition indexes in a heartbeat response's assignment, which has only one topic."""
    return {index for topic in assignment.topic_partitions for index in topic.partitions}


def described(probe: Probe, label: str, group: str, version: int = 1) -> None:
    probe.ask(label, ConsumerGroupDescribeRequest([group], True), version)


def settled(probe: Probe, group: str, topic_id: bytes) -> dict[str, int]:
    """Wait until every member has received and confirmed its target assignment, and return the member epochs.

    Sends the members' heartbeats without recording them.
    """
    for _ in until(f"{group} is stable"):
        (found,) = probe.ask_unrecorded(ConsumerGroupDescribeRequest([group]), 1).groups
        if found.group_state == STABLE:
            return {member.member_id: member.member_epoch for member in found.members}
        for member in found.members:
            kept = indexes(member.assignment) & indexes(member.target_assignment)
            probe.ask_unrecorded(beat(group, member.member_id, member.member_epoch, topic_partitions=owning(topic_id, *kept)), 1)
    raise AssertionError("unreachable: `until` raises")


def known_to_groups(probe: Probe, topic: str) -> None:
    """Wait until a member gets partitions of a new topic. Apache Kafka's group coordinator sees a topic slightly later than the leader."""
    for turn, _ in enumerate(until(f"groups know {topic}")):
        group = f"cg-looks-at-{topic}-{turn}"
        answer = probe.ask_unrecorded(joining_beat(group, "a", topic), 1)
        probe.ask_unrecorded(beat(group, "a", LEAVE), 1)
        if answer.assignment is not None and answer.assignment.topic_partitions:
            return


def new_topic(probe: Probe, name: str, partitions: int) -> bytes:
    """Create a topic, wait until the group coordinator knows it, and return its id."""
    topic_id = create(probe, name, partitions)
    known_to_groups(probe, name)
    return topic_id


def lives(probe: Probe) -> None:
    """Run a group with one member, then two, then one again, at each heartbeat version."""
    topic_id = new_topic(probe, "consumed", 4)
    for version in probe.range(ApiKey.CONSUMER_GROUP_HEARTBEAT):
        group = f"cg-life-{version}"
        probe.ask_unrecorded(joining_beat(group, "a", "consumed"), version)
        epoch = settled(probe, group, topic_id)["a"]
        described(probe, "one member", group)
        for label, request in {
            "nothing new": beat(group, "a", epoch),
            "owning all": beat(group, "a", epoch, topic_partitions=owning(topic_id, 0, 1, 2, 3)),
            "owning some": beat(group, "a", epoch, topic_partitions=owning(topic_id, 0, 1)),
            "as a full request": joining_beat(group, "a", "consumed", server_assignor="uniform"),
            "a later epoch": beat(group, "a", epoch + 9),
            "a stranger": beat(group, "nobody", epoch),
            "another group": beat("cg-nowhere", "a", epoch),
            "no epoch there is": beat(group, "a", -3),
        }.items():
            probe.ask(label, request, version)
        settled(probe, group, topic_id)
        probe.ask_unrecorded(joining_beat(group, "b", "consumed", rack_id="r1"), version)
        epochs = settled(probe, group, topic_id)
        described(probe, "two members", group)
        probe.ask("b goes on", beat(group, "b", epochs["b"]), version)
        probe.ask("a's old epoch", beat(group, "a", epochs["a"] - 1), version)
        probe.ask("b leaves", beat(group, "b", LEAVE), version)
        probe.ask("b leaves again", beat(group, "b", LEAVE), version)
        probe.ask("nobody leaves", beat(group, "nobody", LEAVE), version)
        settled(probe, group, topic_id)
        described(probe, "one again", group)
        probe.ask("a leaves", beat(group, "a", LEAVE), version)
        described(probe, "empty", group)
        probe.ask("deleted", DeleteGroupsRequest([group]))
        described(probe, "gone", group)


def refused(probe: Probe) -> None:
    """Send ConsumerGroupHeartbeat requests that are rejected: joins, heartbeats and leaves with invalid fields."""
    topic_id = new_topic(probe, "consumed2", 2)
    for version in probe.range(ApiKey.CONSUMER_GROUP_HEARTBEAT):
        group = f"cg-refused-{version}"
        for label, request in {
            "no group": joining_beat("", "a", "consumed2"),
            "a blank group": joining_beat(" \t", "a", "consumed2"),
            "a blank instance": joining_beat(group, "a", "consumed2", instance_id=" "),
            "no subscription": joining_beat(group, "a", subscribed_topic_names=None),
            "no rebalance timeout": joining_beat(group, "a", "consumed2", rebalance_timeout_ms=-1),
            "a rebalance timeout of nothing": joining_beat(group, "a", "consumed2", rebalance_timeout_ms=0),
            "no list of partitions": joining_beat(group, "a", "consumed2", topic_partitions=None),
            "partitions already": joining_beat(group, "a", "consumed2", topic_partitions=owning(topic_id, 0)),
            "unknown assignor": joining_beat(group, "a", "consumed2", server_assignor="magic"),
            "an assignor without a name": joining_beat(group, "a", "consumed2", server_assignor=""),
            "an instance without a name": joining_beat(group, "a", "consumed2", instance_id=""),
            "a rack without a name": joining_beat(group, "a", "consumed2", rack_id=""),
            "a heartbeat to no group there is": beat("cg-nowhere", "a", 1),
            "leaving no group there is": beat("cg-nowhere", "a", LEAVE),
            "leaving as a static member without an instance": beat(group, "a", LEAVE_STATIC),
            "a heartbeat without a member": beat(group, "", 1),
        }.items():
            probe.ask(label, request, version)
        if version >= 1:
            probe.ask("no member", joining_beat(group, "", "consumed2"), version)
            probe.ask("a blank member", joining_beat(group, " ", "consumed2"), version)
            for pattern in ("(", "[a", "*", "(?=x)", "(?<n>x)", "\\1"):
                request = joining_beat(group, "a", subscribed_topic_names=None, subscribed_topic_regex=pattern)
                probe.ask(f"expression {pattern!r}", request, version)


def subscriptions(probe: Probe) -> None:
    """Subscribe to missing topics, to several topics and by regular expression, and change the subscription."""
    first, second = new_topic(probe, "cg-topic-1", 2), new_topic(probe, "cg-topic-2", 2)
    probe.ask("what is not there", joining_beat("cg-sub", "a", "cg-nowhere"), 1)
    epoch = settled(probe, "cg-sub", first)["a"]
    described(probe, "of nothing", "cg-sub")
    probe.ask_unrecorded(beat("cg-sub", "a", epoch, subscribed_topic_names=["cg-topic-1"]), 1)
    settled(probe, "cg-sub", first)
    described(probe, "of the first", "cg-sub")
    epoch = settled(probe, "cg-sub", first)["a"]
    probe.ask_unrecorded(beat("cg-sub", "a", epoch, subscribed_topic_names=["cg-topic-2"], server_assignor="range"), 1)
    settled(probe, "cg-sub", second)
    described(probe, "of the second, by range", "cg-sub")
    probe.ask_unrecorded(joining_beat("cg-expr", "a", subscribed_topic_names=None, subscribed_topic_regex="cg-topic-[1]"), 1)
    for _ in until("the expression is resolved"):
        epoch = settled(probe, "cg-expr", first)["a"]
        (found,) = probe.ask_unrecorded(ConsumerGroupDescribeRequest(["cg-expr"]), 1).groups
        if found.members[0].assignment.topic_partitions:
            break
        probe.ask_unrecorded(beat("cg-expr", "a", epoch), 1)
    described(probe, "of an expression", "cg-expr")
    probe.ask("an expression that is none", beat("cg-expr", "a", epoch, subscribed_topic_regex="("), 1)
    probe.ask("no expression any more", beat("cg-expr", "a", epoch, subscribed_topic_regex=""), 1)
    settled(probe, "cg-expr", first)
    described(probe, "of nothing any more", "cg-expr")


def assignors(probe: Probe) -> None:
    """Change the assignor that a member requests: the group is assigned again if its preferred assignor changes."""
    topic_id = new_topic(probe, "cg-assigned", 2)
    probe.ask_unrecorded(joining_beat("cg-assignor", "a", "cg-assigned"), 1)
    epoch = settled(probe, "cg-assignor", topic_id)["a"]
    for assignor in ("uniform", "range", "range", "uniform"):
        probe.ask_unrecorded(beat("cg-assignor", "a", epoch, server_assignor=assignor), 1)
        epoch = settled(probe, "cg-assignor", topic_id)["a"]
        described(probe, f"by {assignor}", "cg-assignor")


def expressions(probe: Probe) -> None:
    """Subscribe by name and by regular expression.

    Topics subscribed by name are assigned first, because an expression is resolved after the response. An expression that the group has
    already resolved counts immediately.
    """
    new_topic(probe, "cg-by-name", 2)
    new_topic(probe, "cg-by-regex", 2)
    fields = {"subscribed_topic_names": None, "subscribed_topic_regex": "cg-by-r.*"}
    joined = probe.ask("an expression alone", joining_beat("cg-regex", "a", **fields), 1)
    epoch = _wait_for_new_assignment(probe, "cg-regex", joined.member_epoch)
    described(probe, "of an expression alone", "cg-regex")
    probe.ask("another expression", beat("cg-regex", "a", epoch, subscribed_topic_regex="cg-by-n.*"), 1)
    joined = probe.ask(
        "a topic by name and an expression", joining_beat("cg-mixed", "a", "cg-by-name", subscribed_topic_regex="cg-by-r.*"), 1
    )
    epoch = _wait_for_new_assignment(probe, "cg-mixed", joined.member_epoch)
    described(probe, "of both", "cg-mixed")
    probe.ask("a member with the same expression", joining_beat("cg-mixed", "b", **fields), 1)
    probe.ask("no topic by name any more", beat("cg-mixed", "a", epoch, subscribed_topic_names=[]), 1)


def _wait_for_new_assignment(probe: Probe, group: str, epoch: int) -> int:
    """Send heartbeats, without recording the responses, until the group's only member gets a new assignment; return its member epoch."""
    for _ in until(f"the expression of {group} is resolved"):
        answer = probe.ask_unrecorded(beat(group, "a", epoch), 1)
        if answer.assignment is not None:
            return int(answer.member_epoch)
    raise AssertionError("unreachable: `until` raises")


def lost_answers(probe: Probe) -> None:
    """Let a member repeat a full heartbeat before it reports partitions, as clients do after a lost response.

    Partitions that the member does not report go to another member at once. Then the member sends its previous epoch, with and without the
    partitions that it lost.
    """
    topic_id = new_topic(probe, "cg-lost", 2)
    epoch = probe.ask_unrecorded(joining_beat("cg-lost", "a", "cg-lost"), 1).member_epoch
    probe.ask_unrecorded(joining_beat("cg-lost", "b", "cg-lost"), 1)
    for _ in until("b is to have a partition"):
        (found,) = probe.ask_unrecorded(ConsumerGroupDescribeRequest(["cg-lost"]), 1).groups
        later = {member.member_id: member for member in found.members}["b"]
        if indexes(later.target_assignment):
            break
        probe.ask_unrecorded(beat("cg-lost", "b", later.member_epoch), 1)
    full = {"rebalance_timeout_ms": 30_000, "subscribed_topic_names": ["cg-lost"]}
    probe.ask("a reports nothing", beat("cg-lost", "a", epoch, topic_partitions=[], **full), 1)
    probe.ask("b beats", beat("cg-lost", "b", later.member_epoch), 1)
    described(probe, "each with a half", "cg-lost")
    probe.ask("a's epoch of before, nothing reported", beat("cg-lost", "a", epoch, topic_partitions=[], **full), 1)
    probe.ask("a's epoch of before, all reported", beat("cg-lost", "a", epoch, topic_partitions=owning(topic_id, 0, 1), **full), 1)
    probe.ask("a's epoch of before, not full", beat("cg-lost", "a", epoch), 1)
    described(probe, "a is in its epoch", "cg-lost")


def static_members(probe: Probe) -> None:
    """Let a static member leave temporarily and return with another member id, and let another member use its instance id."""
    topic_id = new_topic(probe, "cg-static", 2)
    group = "cg-static"
    probe.ask_unrecorded(joining_beat(group, "a", "cg-static", instance_id="me"), 1)
    epoch = settled(probe, group, topic_id)["a"]
    described(probe, "there", group)
    probe.ask("another with its instance", joining_beat(group, "b", "cg-static", instance_id="me"), 1)
    probe.ask("a heartbeat with another's instance", beat(group, "b", epoch, instance_id="me"), 1)
    probe.ask("a heartbeat of an unknown instance", beat(group, "a", epoch, instance_id="you"), 1)
    probe.ask("a leave of another", beat(group, "b", LEAVE_STATIC, instance_id="me"), 1)
    probe.ask("a leave of an unknown instance", beat(group, "a", LEAVE_STATIC, instance_id="you"), 1)
    probe.ask("it goes for a while", beat(group, "a", LEAVE_STATIC, instance_id="me"), 1)
    described(probe, "gone for a while", group)
    probe.ask("a heartbeat while it is gone", beat(group, "a", epoch, instance_id="me"), 1)
    probe.ask("back under another id", joining_beat(group, "b", "cg-static", instance_id="me"), 1)
    epoch = settled(probe, group, topic_id)["b"]
    described(probe, "back", group)
    probe.ask("the old id", beat(group, "a", epoch, instance_id="me"), 1)
    probe.ask("it leaves", beat(group, "b", LEAVE, instance_id="me"), 1)
    described(probe, "gone", group)


def offsets(probe: Probe) -> None:
    """Commit and fetch offsets of a consumer group with the member's current epoch, with other epochs, and as a client that is no
    member."""
    topic_id = new_topic(probe, "cg-offsets", 2)
    group = "cg-offsets"
    probe.ask_unrecorded(joining_beat(group, "a", "cg-offsets"), 1)
    epoch = settled(probe, group, topic_id)["a"]
    for version in probe.range(ApiKey.OFFSET_COMMIT):
        for label, generation, member in (
            ("with its epoch", epoch, "a"),
            ("with an old epoch", epoch - 1, "a"),
            ("with a later epoch", epoch + 1, "a"),
            ("of a stranger", epoch, "nobody"),
            ("of nobody", -1, ""),
        ):
            partition = OffsetCommitRequestPartition(0, 7, 0, "note")
            topic = OffsetCommitRequestTopic("cg-offsets", topic_id, partitions=[partition])
            probe.ask(f"commit {label}", OffsetCommitRequest(group, generation, member, topics=[topic]), version)
    for version in probe.range(ApiKey.OFFSET_FETCH):
        fetches = (
            ("with its epoch", "a", epoch),
            ("with an old epoch", "a", epoch - 1),
            ("of a stranger", "nobody", epoch),
            ("of nobody", None, -1),
        )
        for label, sender, generation in fetches if version >= 9 else ():
            request_group = OffsetFetchRequestGroup(group, sender, generation, [OffsetFetchRequestTopics("cg-offsets", topic_id, [0])])
            probe.ask(f"fetch {label}", OffsetFetchRequest(groups=[request_group]), version)


def admin(probe: Probe) -> None:
    """Describe, list and delete groups; send classic group requests for a consumer group, and consumer group requests for a classic one."""
    topic_id = new_topic(probe, "cg-adm", 1)
    probe.ask_unrecorded(joining_beat("cg-adm", "a", "cg-adm"), 1)
    epoch = settled(probe, "cg-adm", topic_id)["a"]
    probe.ask("a simple group", commit_request("cg-adm-simple", 1, topic="cg-adm"), 8)
    for version in probe.range(ApiKey.CONSUMER_GROUP_DESCRIBE):
        for names in (["cg-adm"], ["cg-adm-simple"], ["unknown"], [""], [], ["unknown", "cg-adm"], ["cg-adm", "cg-adm"]):
            for operations in (False, True):
                probe.ask(f"describe {names}, {operations}", ConsumerGroupDescribeRequest(names, operations), version)
    for version in probe.range(ApiKey.DESCRIBE_GROUPS):
        probe.ask("described as a classic one", DescribeGroupsRequest(["cg-adm"]), version)
    for states, types in (
        ([], []),
        (["stable"], []),
        ([], ["consumer"]),
        ([], ["classic"]),
        (["Assigning"], []),
        (["Empty"], ["consumer"]),
    ):
        answer = probe.ask(f"list {states} {types}", ListGroupsRequest(states, types), 5)
        if answer is not None:
            shown = probe.seen[-1].response
            shown["groups"] = [group for group in shown["groups"] if group["group_id"].startswith("cg-adm")]
    probe.ask("a classic heartbeat", HeartbeatRequest("cg-adm", epoch, "a"), 4)
    probe.ask("a classic leave", LeaveGroupRequest("cg-adm", "a", [MemberIdentity("a")]), 5)
    probe.ask("a consumer's heartbeat to the simple group", beat("cg-adm-simple", "a", 1), 1)
    described(probe, "put out", "cg-adm")
    probe.ask_unrecorded(joining_beat("cg-adm", "a", "cg-adm", instance_id="me"), 1)
    settled(probe, "cg-adm", topic_id)
    probe.ask("deleted with members", DeleteGroupsRequest(["cg-adm"]))
    probe.ask("put out by its instance", LeaveGroupRequest("cg-adm", "", [MemberIdentity("", "me")]), 5)
    described(probe, "empty", "cg-adm")
    probe.ask("deleted", DeleteGroupsRequest(["cg-adm"]))


def changing(probe: Probe) -> None:
    """Replace an empty group of one protocol by the other, and let a classic member join a consumer group that has members."""
    topic_id = new_topic(probe, "cg-change", 2)
    probe.ask("a simple group", commit_request("cg-change", 1, topic="cg-change"), 8)
    probe.ask_unrecorded(joining_beat("cg-change", "a", "cg-change"), 1)
    settled(probe, "cg-change", topic_id)
    described(probe, "a consumer group now", "cg-change")
    request_groups = [OffsetFetchRequestGroup("cg-change", topics=None)]
    probe.ask("with the offsets of before", OffsetFetchRequest(groups=request_groups), 8)
    for label, request in {
        "no protocols": join_request("cg-change", protocols=[]),
        "another type": join_request("cg-change", protocol_type="connect"),
        "no subscription": join_request("cg-change", protocols=[JoinGroupRequestProtocol("range", b"")]),
        "a stranger": join_request("cg-change", "nobody"),
    }.items():
        answer = probe.ask(f"a classic join, {label}", request, 9)
        word(probe, answer, f"member of {label}")
    probe.ask("it leaves", beat("cg-change", "a", LEAVE), 1)
    described(probe, "empty", "cg-change")
