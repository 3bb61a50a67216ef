"""Compare Ottla with Apache Kafka by requests about streams groups (KIP-1071): life cycles, standby tasks, topologies whose topics exist or
not, rejections, and admin requests.

Rules:
- Apache Kafka's group coordinator sees new settings and topics later than the broker that answers the request. Groups are configured before
  a topic is created, and a scenario continues when the group coordinator knows the topic.
- A step that needs a settled group sends heartbeats, without recording them, first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from client_compat.differential.probe import Probe
from client_compat.differential.scenarios.common import batch, create, produce, until
from client_compat.differential.scenarios.consumer_groups import joining_beat as consumer_beat
from client_compat.differential.scenarios.groups import commit_request
from client_compat.differential.scenarios.share_members import GROUP_RESOURCE, configure
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.k03_metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.k08_offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from ottla.protocol.messages.k09_offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from ottla.protocol.messages.k12_heartbeat import HeartbeatRequest
from ottla.protocol.messages.k15_describe_groups import DescribeGroupsRequest
from ottla.protocol.messages.k16_list_groups import ListGroupsRequest
from ottla.protocol.messages.k20_delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.protocol.messages.k32_describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from ottla.protocol.messages.k42_delete_groups import DeleteGroupsRequest
from ottla.protocol.messages.k47_offset_delete import OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic
from ottla.protocol.messages.k69_consumer_group_describe import ConsumerGroupDescribeRequest
from ottla.protocol.messages.k88_streams_group_heartbeat import StreamsGroupHeartbeatRequest, Topology
from ottla.protocol.messages.k89_streams_group_describe import StreamsGroupDescribeRequest
from ottla.protocol.messages.k93_streams_group_topology_description_update import StreamsGroupTopologyDescriptionUpdateRequest
from ottla.protocol.messages.streams_group import (
    CopartitionGroup,
    Endpoint,
    KeyValue,
    Subtopology,
    TaskIds,
    TaskOffset,
    TopicInfo,
    TopologyDescription,
    TopologyDescriptionNode,
    TopologyDescriptionSubtopology,
)

JOIN, LEAVE, LEAVE_STATIC = 0, -1, -2
STABLE = "Stable"
TOPIC = 2
AT_ONCE = {"streams.initial.rebalance.delay.ms": "0", "streams.assignment.interval.ms": "0"}
STANDBYS = "streams.num.standby.replicas"
NOTHING: dict[str, Any] = {"active_tasks": [], "standby_tasks": [], "warmup_tasks": []}


def beat(group: str, member: str, epoch: int, **fields: Any) -> StreamsGroupHeartbeatRequest:
    """Return a StreamsGroupHeartbeat request of a member that reports no changes except `fields`."""
    return StreamsGroupHeartbeatRequest(group, member, epoch, **fields)


def joining(group: str, member: str, topology: Topology, **fields: Any) -> StreamsGroupHeartbeatRequest:
    """Return the first StreamsGroupHeartbeat request of a member, with a process id that no other member has."""
    given = {"rebalance_timeout_ms": 30_000, "process_id": f"process of {member}", "topology": topology, **NOTHING, **fields}
    return beat(group, member, JOIN, **given)


def word_count(prefix: str, epoch: int = 0) -> Topology:
    """Return the topology of a word count: it reads `<prefix>-text`, and has a repartition topic and a changelog."""
    words = TopicInfo(f"{prefix}-words", topic_configs=[KeyValue("cleanup.policy", "delete"), KeyValue("retention.ms", "-1")])
    counts = TopicInfo(f"{prefix}-counts", topic_configs=[KeyValue("cleanup.policy", "compact")])
    return Topology(
        epoch,
        [
            Subtopology("0", [f"{prefix}-text"], repartition_sink_topics=[words.name]),
            Subtopology("1", state_changelog_topics=[counts], repartition_source_topics=[words]),
        ],
    )


def described(probe: Probe, label: str, group: str) -> None:
    probe.ask(label, StreamsGroupDescribeRequest([group], True))


def settled(probe: Probe, group: str) -> dict[str, int]:
    """Send the members' heartbeats, without recording them, until all have their target assignment; return the member epochs."""
    for _ in until(f"{group} is stable"):
        (found,) = probe.ask_unrecorded(StreamsGroupDescribeRequest([group]), 0).groups
        if found.group_state == STABLE:
            return {member.member_id: member.member_epoch for member in found.members}
        for member in found.members:
            given, target = member.assignment, member.target_assignment
            owned = {
                "active_tasks": kept(given.active_tasks, target.active_tasks),
                "standby_tasks": kept(given.standby_tasks, target.standby_tasks),
                "warmup_tasks": [],
            }
            probe.ask_unrecorded(beat(group, member.member_id, member.member_epoch, **owned), 0)
    raise AssertionError("unreachable: `until` raises")


def kept(given: Sequence[TaskIds], target: Sequence[TaskIds]) -> list[TaskIds]:
    """Return the tasks that are in both `given` and `target`."""
    wanted = {one.subtopology_id: set(one.partitions) for one in target}
    left = [TaskIds(one.subtopology_id, sorted(wanted.get(one.subtopology_id, set()) & set(one.partitions))) for one in given]
    return [one for one in left if one.partitions]


def known(probe: Probe, topic: str) -> None:
    """Wait until the group coordinator knows the topic."""
    for turn, _ in enumerate(until(f"groups know {topic}")):
        group = f"st-looks-at-{topic}-{turn}"
        answer = probe.ask_unrecorded(joining(group, "a", Topology(0, [Subtopology("0", [topic])])), 0)
        probe.ask_unrecorded(beat(group, "a", LEAVE), 0)
        if not any(status.status_code == 1 for status in answer.status or ()):
            return


def new_topic(probe: Probe, name: str, partitions: int = 2) -> None:
    create(probe, name, partitions)
    known(probe, name)


def lives(probe: Probe) -> None:
    """Run a group with one member, then two, then one again, then none."""
    configure(probe, "st-life", AT_ONCE)
    new_topic(probe, "life-text")
    probe.ask("a joins", joining("st-life", "a", word_count("life")))
    epoch = settled(probe, "st-life")["a"]
    described(probe, "one member", "st-life")
    for topic in ("life-words", "life-counts"):
        probe.ask(
            f"settings of {topic}", DescribeConfigsRequest([DescribeConfigsResource(TOPIC, topic, ["cleanup.policy", "retention.ms"])])
        )
        metadata = probe.ask_unrecorded(MetadataRequest([MetadataRequestTopic(name=topic)]), 12).topics[0]
        probe.names.learn(bytes(metadata.topic_id), f"id of {topic}")
        probe.ask(f"partitions of {topic}", MetadataRequest([MetadataRequestTopic(name=topic)]), 12)
    everything = [TaskIds("0", [0, 1]), TaskIds("1", [0, 1])]
    for label, request in {
        "nothing new": beat("st-life", "a", epoch),
        "owning all": beat("st-life", "a", epoch, **{**NOTHING, "active_tasks": everything}),
        "owning some": beat("st-life", "a", epoch, **{**NOTHING, "active_tasks": [TaskIds("0", [0])]}),
        "owning what does not exist": beat("st-life", "a", epoch, **{**NOTHING, "active_tasks": [TaskIds("0", [7])]}),
        "owning of no subtopology": beat("st-life", "a", epoch, **{**NOTHING, "active_tasks": [TaskIds("9", [0])]}),
        "a later epoch": beat("st-life", "a", epoch + 9),
        "an earlier epoch": beat("st-life", "a", epoch - 1, **{**NOTHING, "active_tasks": everything}),
        "an earlier epoch without tasks": beat("st-life", "a", epoch - 1),
        "a stranger": beat("st-life", "nobody", epoch),
        "another group": beat("st-nowhere", "a", epoch),
        "no epoch there is": beat("st-life", "a", -3),
        "another rack": beat("st-life", "a", epoch, rack_id="r1"),
    }.items():
        probe.ask(label, request)
    settled(probe, "st-life")
    described(probe, "as before", "st-life")
    probe.ask("b joins", joining("st-life", "b", word_count("life"), rack_id="r2", client_tags=[KeyValue("zone", "z1")]))
    described(probe, "two members, before a revokes", "st-life")
    epochs = settled(probe, "st-life")
    described(probe, "two members", "st-life")
    probe.ask("b goes on", beat("st-life", "b", epochs["b"]))
    probe.ask("a joins again", joining("st-life", "a", word_count("life")))
    settled(probe, "st-life")
    described(probe, "two members again", "st-life")
    probe.ask("b leaves", beat("st-life", "b", LEAVE))
    probe.ask("b leaves again", beat("st-life", "b", LEAVE))
    described(probe, "one, before it gets the tasks", "st-life")
    settled(probe, "st-life")
    described(probe, "one again", "st-life")
    probe.ask("deleted with a member", DeleteGroupsRequest(["st-life"]))
    probe.ask("a leaves", beat("st-life", "a", LEAVE))
    described(probe, "empty", "st-life")
    probe.ask("deleted", DeleteGroupsRequest(["st-life"]))
    described(probe, "gone", "st-life")


def standbys(probe: Probe) -> None:
    """Change the number of standby replicas while members come and go, each process with an endpoint."""
    configure(probe, "st-stand", AT_ONCE | {STANDBYS: "1"})
    new_topic(probe, "stand-text", 3)
    for number, member in enumerate("abc"):
        endpoint = Endpoint(f"{member}.example", 1000 + number)
        probe.names.learn(("port", endpoint.port), f"port of {member}")
        probe.ask(f"{member} joins", joining("st-stand", member, word_count("stand"), user_endpoint=endpoint))
        epochs = settled(probe, "st-stand")
        described(probe, f"with {member}", "st-stand")
    probe.ask("where everything is", beat("st-stand", "a", epochs["a"], endpoint_information_epoch=-1))
    configure(probe, "st-stand", {STANDBYS: "2"})
    for _ in until("the setting is applied"):
        if probe.ask_unrecorded(beat("st-stand", "a", epochs["a"]), 0).member_epoch > epochs["a"]:
            break
    settled(probe, "st-stand")
    described(probe, "two replicas", "st-stand")
    probe.ask("b leaves", beat("st-stand", "b", LEAVE))
    epochs = settled(probe, "st-stand")
    described(probe, "without b", "st-stand")
    probe.ask("shut down", beat("st-stand", "a", epochs["a"], shutdown_application=True))
    probe.ask("c is told", beat("st-stand", "c", epochs["c"]))


def client_tags(probe: Probe) -> None:
    """Configure the client tags by which standby tasks are spread, with members that have all, some or none of these tags; then change the
    tags."""
    tags = "streams.rack.aware.assignment.tags"
    for value in ("zone,zone", " zone , zone ", ""):
        configure(probe, "st-tags", {tags: value})
    if not configure(probe, "st-tags", AT_ONCE | {tags: "zone,rack"}):
        return  # before Kafka 4.4
    describe = DescribeConfigsRequest([DescribeConfigsResource(GROUP_RESOURCE, "st-tags", None)], True)
    for _ in until("the settings are described"):  # a broker of Apache Kafka applies them after the response
        if any(each.name == tags and each.value == "zone,rack" for each in probe.ask_unrecorded(describe, 4).results[0].configs):
            break
    probe.ask("describe the group", describe)
    new_topic(probe, "tags-text", 3)
    topology = Topology(0, [Subtopology("0", ["tags-text"])])
    both = [KeyValue("rack", "r"), KeyValue("zone", "z")]
    for member, given in {"a": both, "b": both[:1], "c": []}.items():
        probe.ask(f"{member} joins", joining("st-tags", member, topology, client_tags=given))
    epochs = settled(probe, "st-tags")
    for version in probe.range(ApiKey.STREAMS_GROUP_HEARTBEAT):
        for member, epoch in sorted(epochs.items()):
            probe.ask(f"{member} lives", beat("st-tags", member, epoch), version)
    described(probe, "with tags", "st-tags")
    configure(probe, "st-tags", {tags: "zone"})
    for _ in until("the setting is applied"):
        if probe.ask_unrecorded(beat("st-tags", "a", epochs["a"]), 0).member_epoch > epochs["a"]:
            break
    settled(probe, "st-tags")
    described(probe, "with one tag", "st-tags")


def task_offsets(probe: Probe) -> None:
    """Report the offsets of tasks' state, and let members come and go: a task moves to a member that has its state."""
    configure(probe, "st-moved", AT_ONCE | {STANDBYS: "1"})
    new_topic(probe, "moved-text", 4)
    probe.ask("a joins", joining("st-moved", "a", word_count("moved")))
    epoch = settled(probe, "st-moved")["a"]
    twice = [TaskOffset("1", 0, 5), TaskOffset("1", 0, 6)]
    answer = probe.ask("twice the same task", beat("st-moved", "a", epoch, task_offsets=twice))
    if answer is None or "supported" in (answer.error_message or ""):
        return  # before Kafka 4.4
    probe.ask("twice the same task, its end", beat("st-moved", "a", epoch, task_end_offsets=twice))
    probe.ask("a task that there is not", beat("st-moved", "a", epoch, task_offsets=[TaskOffset("7", 0, 5), TaskOffset("1", 9, 5)]))
    probe.ask("its end", beat("st-moved", "a", epoch, task_offsets=[TaskOffset("1", 0, 7)], task_end_offsets=[TaskOffset("1", 0, 9)]))
    for member, offsets in {"b": (40, 30, 20, 10), "c": (10, 20, 30, 40), "d": ()}.items():
        probe.ask(f"{member} joins", joining("st-moved", member, word_count("moved")))
        epochs = settled(probe, "st-moved")
        reported = [TaskOffset("1", partition, offset) for partition, offset in enumerate(offsets)]
        probe.ask(f"{member} reports", beat("st-moved", member, epochs[member], task_offsets=reported))
        described(probe, f"with {member}", "st-moved")
    for member in "ab":
        probe.ask(f"{member} leaves", beat("st-moved", member, LEAVE))
        settled(probe, "st-moved")
        described(probe, f"without {member}", "st-moved")


def static_members(probe: Probe) -> None:
    """Let static members join, leave temporarily and for good, and return under other member ids."""
    configure(probe, "st-static", AT_ONCE)
    new_topic(probe, "static-text")
    topology = Topology(0, [Subtopology("0", ["static-text"])])
    answer = probe.ask("a joins", joining("st-static", "a", topology, instance_id="i"))
    if answer is None or answer.error_code:
        return  # before Kafka 4.4
    epoch = settled(probe, "st-static")["a"]
    for label, request in {
        "another member joins as the instance": joining("st-static", "b", topology, instance_id="i"),
        "the same member joins again": joining("st-static", "a", topology, instance_id="i"),
        "a heartbeat of another member": beat("st-static", "b", epoch, instance_id="i"),
        "a heartbeat of an unknown instance": beat("st-static", "a", epoch, instance_id="x"),
        "a heartbeat without the instance": beat("st-static", "a", epoch),
        "another member leaves for a while": beat("st-static", "b", LEAVE_STATIC, instance_id="i"),
        "a leaves for a while": beat("st-static", "a", LEAVE_STATIC, instance_id="i"),
        "a heartbeat meanwhile": beat("st-static", "a", epoch, instance_id="i"),
        "offsets of tasks meanwhile": beat("st-static", "a", epoch, instance_id="i", task_offsets=[TaskOffset("0", 0, 1)]),
    }.items():
        probe.ask(label, request)
    described(probe, "without a", "st-static")
    probe.ask("b returns in its place", joining("st-static", "b", topology, process_id="process of a", instance_id="i"))
    described(probe, "with b", "st-static")
    probe.ask("c joins", joining("st-static", "c", topology, instance_id="j"))
    settled(probe, "st-static")
    described(probe, "two members", "st-static")
    probe.ask("c leaves for a while", beat("st-static", "c", LEAVE_STATIC, instance_id="j"))
    probe.ask("c returns from another rack", joining("st-static", "c", topology, instance_id="j", rack_id="r"))
    settled(probe, "st-static")
    described(probe, "two members again", "st-static")
    probe.ask("c leaves as another instance", beat("st-static", "c", LEAVE, instance_id="i"))
    probe.ask("c leaves", beat("st-static", "c", LEAVE, instance_id="j"))
    probe.ask("c leaves again", beat("st-static", "c", LEAVE, instance_id="j"))
    probe.ask("b leaves without its instance", beat("st-static", "b", LEAVE))
    described(probe, "empty", "st-static")


def descriptions(probe: Probe) -> None:
    """Send descriptions of topologies to a broker that does not store them, and request them with StreamsGroupDescribe."""
    new_topic(probe, "described-text")
    probe.ask_unrecorded(joining("st-described", "a", Topology(0, [Subtopology("0", ["described-text"])])), 0)
    nodes = [TopologyDescriptionNode("source", 1, ["described-text"], successors=["sink"]), TopologyDescriptionNode("sink", 3)]
    description = TopologyDescription([TopologyDescriptionSubtopology("0", nodes)])
    for version in probe.range(ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE):
        for label, group, member in (("described", "st-described", "a"), ("no group", "", "a"), ("no member", "st-described", "")):
            probe.ask(label, StreamsGroupTopologyDescriptionUpdateRequest(group, member, 0, description), version)
    for names in (["st-described"], ["unknown"], [""]):
        request = StreamsGroupDescribeRequest(names, include_topology_description=True)
        for version in probe.range(ApiKey.STREAMS_GROUP_DESCRIBE):
            probe.ask(f"describe {names}", request, version)


def topologies(probe: Probe) -> None:
    """Send topologies whose topics are missing, have the wrong number of partitions, or are created later."""
    both = ["top-two", "top-three"]
    inner = TopicInfo("top-inner")
    cases = {
        "missing sources": [Subtopology("0", ["top-x", "top-y", "top-z", "top-w", "top-two"])],
        "joined": [Subtopology("0", both, copartition_groups=[CopartitionGroup([0, 1])])],
        "a set count": [
            Subtopology("0", ["top-two"], repartition_sink_topics=["top-inner"]),
            Subtopology(
                "1",
                ["top-three"],
                repartition_source_topics=[TopicInfo("top-inner", 5)],
                copartition_groups=[CopartitionGroup([0], [], [0])],
            ),
        ],
        "a loop": [
            Subtopology("0", ["top-two"]),
            Subtopology("1", repartition_sink_topics=["top-other"], repartition_source_topics=[inner]),
            Subtopology("2", repartition_sink_topics=["top-inner"], repartition_source_topics=[TopicInfo("top-other")]),
        ],
        "no writer": [Subtopology("0", ["top-two"], repartition_source_topics=[inner])],
        "no sources": [Subtopology("0", state_changelog_topics=[TopicInfo("top-log")])],
        "no subtopologies": [],
        "a count of a changelog": [Subtopology("0", ["top-two"], state_changelog_topics=[TopicInfo("top-log", 3)])],
        "a negative count": [
            Subtopology("0", ["top-two"], repartition_sink_topics=["top-inner"]),
            Subtopology("1", repartition_source_topics=[TopicInfo("top-inner", -4)]),
        ],
        "a topic that exists with another count": [Subtopology("0", ["top-two"], state_changelog_topics=[TopicInfo("top-three")])],
        "a pattern": [Subtopology("0", ["top-two"], ["top-.*"])],
        "an internal topic": [Subtopology("0", ["__consumer_offsets"])],
        "an invalid name": [Subtopology("0", ["top two"])],
        "an index without a topic": [Subtopology("0", ["top-two"], copartition_groups=[CopartitionGroup([3])])],
        "twice the same": [Subtopology("0", ["top-two"]), Subtopology("0", ["top-three"])],
    }
    for label in (*cases, "bad", "later"):
        configure(probe, f"st-{label}", AT_ONCE)
    new_topic(probe, "top-two", 2)
    new_topic(probe, "top-three", 3)
    for label, subtopologies in cases.items():
        probe.ask(label, joining(f"st-{label}", "a", Topology(0, subtopologies)))
        described(probe, label, f"st-{label}")
    bad = TopicInfo("top-bad", topic_configs=[KeyValue("cleanup.policy", "nothing")])
    failing = joining("st-bad", "a", Topology(0, [Subtopology("0", ["top-two"], state_changelog_topics=[bad])]))
    for _ in until("the creation has failed"):
        if any("Creation failed" in status.status_detail for status in probe.ask_unrecorded(failing, 0).status):
            break
    probe.ask("a topic that cannot be created", failing)
    probe.ask("before its source", joining("st-later", "a", word_count("later")))
    described(probe, "before its source", "st-later")
    new_topic(probe, "later-text")
    settled(probe, "st-later")
    described(probe, "with its source", "st-later")
    probe.ask("an older topology", joining("st-later", "b", word_count("later", epoch=-1)))
    probe.ask("a newer topology", joining("st-later", "b", word_count("later", epoch=1)))
    probe.ask("another topology", joining("st-later", "b", Topology(0, [Subtopology("0", ["top-two"])])))
    probe.ask("its source is deleted", DeleteTopicsRequest([DeleteTopicState("later-text")], timeout_ms=5_000))


def refused(probe: Probe) -> None:
    """Send StreamsGroupHeartbeat requests that are rejected: joins and heartbeats with invalid fields."""
    new_topic(probe, "refused-text")
    topology = Topology(0, [Subtopology("0", ["refused-text"])])
    some = [TaskIds("0", [0])]
    for label, request in {
        "no group": joining("", "a", topology),
        "a blank group": joining(" ", "a", topology),
        "no member": joining("st-refused", "", topology),
        "no rebalance timeout": joining("st-refused", "a", topology, rebalance_timeout_ms=-1),
        "a rebalance timeout of nothing": joining("st-refused", "a", topology, rebalance_timeout_ms=0),
        "no topology": beat("st-refused", "a", JOIN, rebalance_timeout_ms=30_000, process_id="p", **NOTHING),
        "no list of tasks": joining("st-refused", "a", topology, active_tasks=None, standby_tasks=None, warmup_tasks=None),
        "one list of tasks": joining("st-refused", "a", topology, standby_tasks=None, warmup_tasks=None),
        "active tasks already": joining("st-refused", "a", topology, active_tasks=some),
        "standby tasks already": joining("st-refused", "a", topology, standby_tasks=some),
        "warm-up tasks": joining("st-refused", "a", topology, warmup_tasks=some),
        "an instance": joining("st-refused", "a", topology, instance_id="i"),
        "an instance without a name": joining("st-refused", "a", topology, instance_id=""),
        "a rack without a name": joining("st-refused", "a", topology, rack_id=""),
        "task offsets": joining("st-refused", "a", topology, task_offsets=[]),
        "task end offsets": joining("st-refused", "a", topology, task_end_offsets=[TaskOffset("0", 0, 1)]),
        "a topology after joining": beat("st-refused", "a", 1, topology=topology),
        "a heartbeat to no group there is": beat("st-nowhere", "a", 1),
        "leaving no group there is": beat("st-nowhere", "a", LEAVE),
        "a static leave": beat("st-refused", "a", LEAVE_STATIC),
        "a static leave of an instance": beat("st-refused", "a", LEAVE_STATIC, instance_id="i"),
    }.items():
        probe.ask(label, request)
    probe.ask("a simple group", commit_request("st-classic", 1, topic="refused-text"), 8)
    probe.ask("a join of a classic group", joining("st-classic", "a", topology))
    probe.ask("a heartbeat to a classic group", beat("st-classic", "a", 1))


def admin(probe: Probe) -> None:
    """Describe and list groups, commit and delete offsets, and send requests of one protocol for a group of another."""
    configure(probe, "st-adm", AT_ONCE)
    new_topic(probe, "admin-text")
    produce(probe, "records", "admin-text", batch(b"0", b"1", b"2"))
    probe.ask_unrecorded(joining("st-adm", "a", word_count("admin")), 0)
    epoch = settled(probe, "st-adm")["a"]
    for names in (["st-adm"], ["unknown"], [""], [], ["unknown", "st-adm"]):
        for operations in (False, True):
            probe.ask(f"describe {names}, {operations}", StreamsGroupDescribeRequest(names, operations))
    probe.ask("described as a classic one", DescribeGroupsRequest(["st-adm"]))
    probe.ask("described as a consumer group", ConsumerGroupDescribeRequest(["st-adm"]))
    for states, types in (([], []), (["stable"], []), ([], ["streams"]), ([], ["Streams", "classic"]), (["NotReady"], ["streams"])):
        if probe.ask(f"list {states} {types}", ListGroupsRequest(states, types), 5) is not None:
            shown: Any = probe.seen[-1].response
            shown["groups"] = [group for group in shown["groups"] if group["group_id"] == "st-adm"]
    probe.ask("a classic heartbeat", HeartbeatRequest("st-adm", epoch, "a"), 4)
    probe.ask("a consumer's join", consumer_beat("st-adm", "c", "admin-text"), 1)
    for label, member, generation in (
        ("its epoch", "a", epoch),
        ("an old epoch", "a", epoch - 1),
        ("a stranger", "b", epoch),
        ("none", "", -1),
    ):
        partition = OffsetCommitRequestPartition(0, 2)
        commit = OffsetCommitRequest("st-adm", generation, member, topics=[OffsetCommitRequestTopic("admin-text", partitions=[partition])])
        probe.ask(f"a commit with {label}", commit, 9)
        request_group = OffsetFetchRequestGroup("st-adm", member or None, generation, topics=None)
        probe.ask(f"offsets with {label}", OffsetFetchRequest(groups=[request_group]), 9)
    topics = [OffsetDeleteRequestTopic("admin-text", [OffsetDeleteRequestPartition(0)])]
    probe.ask("offsets deleted with a member", OffsetDeleteRequest("st-adm", topics))
    probe.ask("a leaves", beat("st-adm", "a", LEAVE))
    probe.ask("offsets deleted", OffsetDeleteRequest("st-adm", topics))
    probe.ask("a commit of nobody", commit_request("st-adm", 1, topic="admin-text"), 8)
    probe.ask("a consumer's join when empty", consumer_beat("st-adm", "c", "admin-text"), 1)
    probe.ask("deleted", DeleteGroupsRequest(["st-adm"]))
