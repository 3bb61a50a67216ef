"""Compare Ottla with Apache Kafka by requests about share groups (KIP-932): heartbeats, descriptions, lists, deletion, and the offsets that
an administrator describes, alters and deletes.

Rule: Apache Kafka may compute an assignment, and initialize the state of share partitions, after it has answered a heartbeat. A step that
needs either therefore first polls until it is there, without recording the responses.
"""

from __future__ import annotations

from typing import Any

from client_compat.differential.probe import Probe
from client_compat.differential.scenarios.common import batch, create, produce, produce_request, until
from client_compat.differential.scenarios.consumer_groups import joining_beat as consumer_beat
from client_compat.differential.scenarios.groups import commit_request
from client_compat.differential.scenarios.share_members import configure, initialize
from client_compat.differential.scenarios.share_state import write
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages import k90_describe_share_group_offsets as k90
from ottla.protocol.messages import k91_alter_share_group_offsets as k91
from ottla.protocol.messages import k92_delete_share_group_offsets as k92
from ottla.protocol.messages.k09_offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from ottla.protocol.messages.k12_heartbeat import HeartbeatRequest
from ottla.protocol.messages.k15_describe_groups import DescribeGroupsRequest
from ottla.protocol.messages.k16_list_groups import ListGroupsRequest
from ottla.protocol.messages.k20_delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.protocol.messages.k37_create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from ottla.protocol.messages.k42_delete_groups import DeleteGroupsRequest
from ottla.protocol.messages.k47_offset_delete import OffsetDeleteRequest
from ottla.protocol.messages.k69_consumer_group_describe import ConsumerGroupDescribeRequest
from ottla.protocol.messages.k76_share_group_heartbeat import ShareGroupHeartbeatRequest
from ottla.protocol.messages.k77_share_group_describe import ShareGroupDescribeRequest

JOIN, LEAVE = 0, -1
AT_ONCE = {"share.assignment.interval.ms": "0"}


def beat(group: str, member: str, epoch: int, *topics: str, **fields: Any) -> ShareGroupHeartbeatRequest:
    """Return a ShareGroupHeartbeat request of a member. If `topics` are given, the member's subscription changes to them."""
    return ShareGroupHeartbeatRequest(group, member, epoch, subscribed_topic_names=list(topics) or None, **fields)


def described(probe: Probe, label: str, group: str) -> None:
    """Describe a group. Of assigned partitions only the number is compared: which ones they are depends on the topic's id."""
    probe.ask(label, ShareGroupDescribeRequest([group], True))
    for member in probe.seen[-1].response["groups"][0]["members"]:
        for topic in member["assignment"]["topic_partitions"]:
            topic["partitions"] = len(topic["partitions"])


def settled(probe: Probe, group: str, partitions: int, *, after: int = 0) -> dict[str, int]:
    """Send heartbeats, without recording the responses, until all members together have `partitions` assigned partitions and are in the
    group's epoch, which must be greater than `after`. Return the member epochs by member id.
    """
    for _ in until(f"{group} has {partitions} partitions"):
        (found,) = probe.ask_unrecorded(ShareGroupDescribeRequest([group]), 1).groups
        epochs = {member.member_id: member.member_epoch for member in found.members}
        assigned = sum(len(topic.partitions) for member in found.members for topic in member.assignment.topic_partitions)
        if assigned == partitions and set(epochs.values()) == {found.group_epoch} == {found.assignment_epoch} and found.group_epoch > after:
            return epochs
        for member_id, epoch in epochs.items():
            probe.ask_unrecorded(beat(group, member_id, epoch), 1)
    raise AssertionError("unreachable: `until` raises")


def new_topic(probe: Probe, group: str, name: str, partitions: int) -> bytes:
    """Configure the group to assign partitions without a delay, create a topic, and wait until the group coordinator knows the topic;
    return the topic's id."""
    configure(probe, group, AT_ONCE)
    configure(probe, "sg-looks", AT_ONCE)
    topic_id = create(probe, name, partitions)
    initialize(probe, "sg-looks", topic_id, range(partitions))
    probe.ask_unrecorded(beat("sg-looks", "a", JOIN, name), 1)
    settled(probe, "sg-looks", partitions)
    probe.ask_unrecorded(beat("sg-looks", "a", LEAVE), 1)
    return topic_id


def lives(probe: Probe) -> None:
    """Run a group with one member, then two, then none."""
    new_topic(probe, "sg-life", "shared", 3)
    probe.ask_unrecorded(beat("sg-life", "a", JOIN, "shared", rack_id="r1"), 1)
    epoch = settled(probe, "sg-life", 3)["a"]
    described(probe, "one member", "sg-life")
    for label, request in {
        "nothing new": beat("sg-life", "a", epoch),
        "the same subscription": beat("sg-life", "a", epoch, "shared"),
        "another rack": beat("sg-life", "a", epoch, rack_id="r2"),
        "joins again": beat("sg-life", "a", JOIN, "shared"),
        "a later epoch": beat("sg-life", "a", epoch + 9),
        "an earlier epoch": beat("sg-life", "a", epoch - 1),
        "an epoch long before": beat("sg-life", "a", epoch - 2),
        "a stranger": beat("sg-life", "nobody", epoch),
        "another group": beat("sg-nowhere", "a", epoch),
        "no epoch there is": beat("sg-life", "a", -3),
    }.items():
        probe.ask(label, request)
    settled(probe, "sg-life", 3)
    described(probe, "as before", "sg-life")
    probe.ask_unrecorded(beat("sg-life", "b", JOIN, "shared"), 1)
    epochs = settled(probe, "sg-life", 3)
    described(probe, "two members", "sg-life")
    probe.ask("b goes on", beat("sg-life", "b", epochs["b"]))
    probe.ask("b leaves", beat("sg-life", "b", LEAVE))
    probe.ask("b leaves again", beat("sg-life", "b", LEAVE))
    probe.ask("nobody leaves", beat("sg-life", "nobody", LEAVE))
    settled(probe, "sg-life", 3)
    described(probe, "one again", "sg-life")
    probe.ask("deleted with a member", DeleteGroupsRequest(["sg-life"]))
    probe.ask("a leaves", beat("sg-life", "a", LEAVE))
    described(probe, "empty", "sg-life")
    probe.ask("deleted", DeleteGroupsRequest(["sg-life"]))
    described(probe, "gone", "sg-life")
    probe.ask("deleted again", DeleteGroupsRequest(["sg-life"]))


def refused(probe: Probe) -> None:
    """Send ShareGroupHeartbeat requests that are rejected: joins, heartbeats and leaves with invalid fields, also for a classic group."""
    new_topic(probe, "sg-refused", "shared-refused", 1)
    for label, request in {
        "no group": beat("", "a", JOIN, "shared-refused"),
        "a blank group": beat(" ", "a", JOIN, "shared-refused"),
        "no member": beat("sg-refused", "", JOIN, "shared-refused"),
        "a long member": beat("sg-refused", "m" * 37, JOIN, "shared-refused"),
        "no subscription": beat("sg-refused", "a", JOIN),
        "a subscription to nothing": ShareGroupHeartbeatRequest("sg-refused", "a", JOIN, subscribed_topic_names=[]),
        "a rack without a name": beat("sg-refused", "a", JOIN, "shared-refused", rack_id=""),
        "a heartbeat to no group there is": beat("sg-nowhere", "a", 1),
        "leaving no group there is": beat("sg-nowhere", "a", LEAVE),
        "a static leave": beat("sg-refused", "a", -2),
    }.items():
        probe.ask(label, request)
    probe.ask("a simple group", commit_request("sg-classic", 1, topic="shared-refused"), 8)
    probe.ask("a join of a classic group", beat("sg-classic", "a", JOIN, "shared-refused"))
    probe.ask("a heartbeat to a classic group", beat("sg-classic", "a", 1))


def subscriptions(probe: Probe) -> None:
    """Subscribe to topics that are missing, created later, and deleted."""
    new_topic(probe, "sg-sub", "shared-1", 2)
    probe.ask_unrecorded(beat("sg-sub", "a", JOIN, "shared-1", "shared-2"), 1)
    epoch = settled(probe, "sg-sub", 2)["a"]
    described(probe, "one topic is missing", "sg-sub")
    create(probe, "shared-2", 1)
    settled(probe, "sg-sub", 3)
    described(probe, "both", "sg-sub")
    epoch = settled(probe, "sg-sub", 3)["a"]
    probe.ask_unrecorded(beat("sg-sub", "a", epoch, "shared-2"), 1)
    epoch = settled(probe, "sg-sub", 1)["a"]
    described(probe, "the second", "sg-sub")
    probe.ask("the topic is deleted", DeleteTopicsRequest([DeleteTopicState("shared-2")], timeout_ms=5_000))
    # Once the deletion is published, a description omits the topic's partitions, also before a heartbeat has bumped the epoch.
    settled(probe, "sg-sub", 0, after=epoch)
    described(probe, "none", "sg-sub")


def admin(probe: Probe) -> None:
    """Describe and list groups, and send requests of one protocol for a group of another."""
    new_topic(probe, "sg-adm", "shared-adm", 1)
    probe.ask_unrecorded(beat("sg-adm", "a", JOIN, "shared-adm"), 1)
    epoch = settled(probe, "sg-adm", 1)["a"]
    probe.ask("a simple group", commit_request("sg-adm-simple", 1, topic="shared-adm"), 8)
    for names in (["sg-adm"], ["sg-adm-simple"], ["unknown"], [""], [], ["unknown", "sg-adm"]):
        for operations in (False, True):
            probe.ask(f"describe {names}, {operations}", ShareGroupDescribeRequest(names, operations))
    probe.ask("described as a classic one", DescribeGroupsRequest(["sg-adm"]))
    probe.ask("described as a consumer group", ConsumerGroupDescribeRequest(["sg-adm"]))
    for states, types in (([], []), (["stable"], []), ([], ["share"]), ([], ["Share", "classic"]), (["Empty"], ["share"]), ([], ["none"])):
        answer = probe.ask(f"list {states} {types}", ListGroupsRequest(states, types), 5)
        if answer is not None:
            shown = probe.seen[-1].response
            shown["groups"] = [group for group in shown["groups"] if group["group_id"].startswith("sg-adm")]
    probe.ask("a classic heartbeat", HeartbeatRequest("sg-adm", epoch, "a"), 4)
    probe.ask("a consumer's join", consumer_beat("sg-adm", "c", "shared-adm"), 1)
    probe.ask("a commit", commit_request("sg-adm", 1, topic="shared-adm"), 8)
    probe.ask("offsets of a consumer", OffsetFetchRequest(groups=[OffsetFetchRequestGroup("sg-adm", topics=None)]), 8)
    probe.ask("offsets deleted", OffsetDeleteRequest("sg-adm"))
    probe.ask("a share member's heartbeat to the simple group", beat("sg-adm-simple", "a", 1))


def offsets(probe: Probe) -> None:
    """Describe, alter and delete the start offsets of a group with and without members."""
    topic_id = new_topic(probe, "sg-off", "shared-off", 2)
    produce(probe, "ten records", "shared-off", batch(*[b"%d" % n for n in range(10)]))
    _ask_offsets(probe, "no group", "sg-off")
    probe.ask("alter without a group", _alter("sg-off", ("shared-off", 0, 3)))
    probe.ask("delete without a group", _delete("sg-off", "shared-off"))
    probe.ask_unrecorded(beat("sg-off", "a", JOIN, "shared-off"), 1)
    settled(probe, "sg-off", 2)
    _ask_offsets(probe, "with a member", "sg-off")
    probe.ask_unrecorded(write("sg-off", topic_id, start_offset=4, delivery_complete_count=2), 1)
    _ask_offsets(probe, "after deliveries", "sg-off")
    probe.ask("alter with a member", _alter("sg-off", ("shared-off", 0, 3)))
    probe.ask("delete with a member", _delete("sg-off", "shared-off"))
    probe.ask_unrecorded(beat("sg-off", "a", LEAVE), 1)
    for label, altered in {
        "alter": _alter("sg-off", ("shared-off", 0, 3)),
        "alter both": _alter("sg-off", ("shared-off", 0, 5), ("shared-off", 1, 0)),
        "alter beyond the end": _alter("sg-off", ("shared-off", 0, 99)),
        "alter to a negative offset": _alter("sg-off", ("shared-off", 0, -7)),
        "alter what is not there": _alter("sg-off", ("shared-off", 9, 1), ("nowhere", 0, 1)),
        "alter nothing": k91.AlterShareGroupOffsetsRequest("sg-off"),
    }.items():
        probe.ask(label, altered)
        _ask_offsets(probe, label, "sg-off")
    probe.ask("delete what is not there", _delete("sg-off", "nowhere"))
    probe.ask("delete nothing", _delete("sg-off"))
    probe.ask("delete", _delete("sg-off", "shared-off"))
    _ask_offsets(probe, "deleted", "sg-off")
    probe.ask("delete again", _delete("sg-off", "shared-off"))
    probe.ask("alter what was deleted", _alter("sg-off", ("shared-off", 1, 2)))
    _ask_offsets(probe, "altered again", "sg-off")
    for group in ("", "sg-unknown", "sg-simple"):
        if group == "sg-simple":
            probe.ask("a simple group", commit_request("sg-simple", 1, topic="shared-off"), 8)
        _ask_offsets(probe, f"of {group!r}", group)
        probe.ask(f"alter of {group!r}", _alter(group, ("shared-off", 0, 3)))
        probe.ask(f"delete of {group!r}", _delete(group, "shared-off"))


def added_partition(probe: Probe) -> None:
    """Add a partition to a group's topic, and describe the start offsets: records that come before the group knows the partition count."""
    new_topic(probe, "sg-added", "shared-added", 1)
    probe.ask_unrecorded(beat("sg-added", "a", JOIN, "shared-added"), 1)
    settled(probe, "sg-added", 1)
    probe.ask_unrecorded(CreatePartitionsRequest([CreatePartitionsTopic("shared-added", 2, None)], 10_000, False), 3)
    for _ in until("the added partition has a leader"):
        two = produce_request(probe, "shared-added", bytes(16), batch(b"a", b"b"), 9, partition=1)
        if not probe.ask_unrecorded(two, 9).responses[0].partition_responses[0].error_code:
            break
    settled(probe, "sg-added", 2)
    everything = k90.DescribeShareGroupOffsetsRequestGroup("sg-added")
    everything.topics = None
    for _ in until("the added partition has a start offset"):
        (found,) = probe.ask_unrecorded(k90.DescribeShareGroupOffsetsRequest([everything]), 0).groups
        if len(found.topics[0].partitions) == 2:
            break
    probe.ask("with the added partition", k90.DescribeShareGroupOffsetsRequest([everything]), 0)


def _ask_offsets(probe: Probe, label: str, group: str) -> None:
    everything = k90.DescribeShareGroupOffsetsRequestGroup(group)
    everything.topics = None
    request_topic = k90.DescribeShareGroupOffsetsRequestTopic
    some = [request_topic("shared-off", [0, 1]), request_topic("nowhere", [0])]
    for name, of_group in {"all": everything, "some": k90.DescribeShareGroupOffsetsRequestGroup(group, some)}.items():
        request = k90.DescribeShareGroupOffsetsRequest([of_group])
        for version in probe.range(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS):
            probe.ask(f"{label}: {name}", request, version)


def _alter(group: str, *places: tuple[str, int, int]) -> k91.AlterShareGroupOffsetsRequest:
    topics: dict[str, list[k91.AlterShareGroupOffsetsRequestPartition]] = {}
    for topic, index, offset in places:
        topics.setdefault(topic, []).append(k91.AlterShareGroupOffsetsRequestPartition(index, offset))
    return k91.AlterShareGroupOffsetsRequest(group, [k91.AlterShareGroupOffsetsRequestTopic(*topic) for topic in topics.items()])


def _delete(group: str, *topics: str) -> k92.DeleteShareGroupOffsetsRequest:
    return k92.DeleteShareGroupOffsetsRequest(group, [k92.DeleteShareGroupOffsetsRequestTopic(topic) for topic in topics])
