"""Compare Ottla with Apache Kafka by requests that create, grow, delete and describe topics, and by every reason to reject them."""

from __future__ import annotations

from client_compat.differential.probe import Probe
from client_compat.differential.scenarios.common import UNKNOWN_ID, batch, create, produce, until, wait_until_deleted, wait_until_led
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k03_metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.k19_create_topics import CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from ottla.protocol.messages.k20_delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.protocol.messages.k21_delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from ottla.protocol.messages.k37_create_partitions import CreatePartitionsAssignment, CreatePartitionsRequest, CreatePartitionsTopic
from ottla.protocol.messages.k75_describe_topic_partitions import Cursor, DescribeTopicPartitionsRequest, TopicRequest


def creating(probe: Probe) -> None:
    """Send CreateTopics at each version: a new topic, the same name again, and with validate_only."""
    for version in probe.range(ApiKey.CREATE_TOPICS):
        name = f"created-{version}"
        topic = CreatableTopic(name, 2, 1, configs=[CreatableTopicConfig("retention.ms", "1000")])
        probe.ask("validate only", CreateTopicsRequest([topic], 5_000, True), version)
        probe.ask("create", CreateTopicsRequest([topic], 5_000), version)
        probe.ask("again", CreateTopicsRequest([topic], 5_000), version)
        probe.ask("again, validate only", CreateTopicsRequest([topic], 5_000, True), version)
        probe.ask("defaults", CreateTopicsRequest([CreatableTopic(f"{name}-d", -1, -1)], 5_000), version)
    probe.ask("nothing", CreateTopicsRequest([], 5_000))


def creating_refused(probe: Probe) -> None:
    """Create topics with invalid names, counts, replication factors, assignments and settings."""
    names = ["", ".", "..", "a b", "a" * 249, "a" * 250, "ä", "a/b", "__consumer_offsets", "__cluster_metadata", "__transaction_state"]
    for name in names:
        probe.ask(f"name {name[:20]!r}", CreateTopicsRequest([CreatableTopic(name, 1, 1)], 5_000, True))
    probe.ask("first of a collision", CreateTopicsRequest([CreatableTopic("colli.de", 1, 1)], 5_000))
    probe.ask("collision", CreateTopicsRequest([CreatableTopic("colli_de", 1, 1)], 5_000))
    probe.ask("twice in one request", CreateTopicsRequest([CreatableTopic("twice", 1, 1), CreatableTopic("twice", 2, 1)], 5_000))
    for count, factor in ((0, 1), (-2, 1), (1, 0), (1, -2), (1, 2), (1, 3), (100_000, 1), (0, 0)):
        probe.ask(f"{count} partitions, {factor} replicas", CreateTopicsRequest([CreatableTopic("counts", count, factor)], 5_000, True))
    assignments: dict[str, list[tuple[int, list[int]]]] = {
        "of one": [(0, [1])],
        "with a hole": [(0, [1]), (2, [1])],
        "of a twice": [(0, [1, 1])],
        "of nobody": [(0, [])],
        "unknown node": [(0, [9])],
        "same index": [(0, [1]), (0, [1])],
        "negative node": [(0, [-1])],
        "uneven": [(0, [1]), (1, [])],
    }
    for label, given in assignments.items():
        wanted = [CreatableReplicaAssignment(index, nodes) for index, nodes in given]
        probe.ask(f"assignment {label}", CreateTopicsRequest([CreatableTopic("assigned", -1, -1, wanted)], 5_000, True))
        probe.ask(f"assignment {label} and a count", CreateTopicsRequest([CreatableTopic("assigned", 1, 1, wanted)], 5_000, True))
    values = {
        "unknown": ("no.such", "1"),
        "not a number": ("retention.ms", "soon"),
        "below its least": ("retention.ms", "-2"),
        "no value": ("retention.ms", None),
        "policy": ("cleanup.policy", "burn"),
        "both policies": ("cleanup.policy", "compact,delete"),
        "empty policy": ("cleanup.policy", ""),
        "codec": ("compression.type", "rar"),
        "segment": ("segment.bytes", "1"),
        "min isr": ("min.insync.replicas", "0"),
        "boolean": ("preallocate", "yes"),
        "spaces": ("retention.ms", " 5 "),
        "list with spaces": ("cleanup.policy", "compact, delete"),
        "timestamp type": ("message.timestamp.type", "Never"),
        "ratio": ("min.cleanable.dirty.ratio", "1.5"),
        "throttled": ("leader.replication.throttled.replicas", "x"),
        "throttled, without numbers": ("leader.replication.throttled.replicas", "a:b"),
        "throttled, and nothing": ("leader.replication.throttled.replicas", "0:1,"),
        "a space of Unicode": ("retention.ms", "\u00a05"),
        "removed": ("message.format.version", "3.0"),
        "max lag below min": ("max.compaction.lag.ms", "0"),
        "remote": ("remote.storage.enable", "true"),
        "local": ("local.retention.ms", "5"),
    }
    for label, (key, value) in values.items():
        topic = CreatableTopic("configured", 1, 1, configs=[CreatableTopicConfig(key, value)])
        probe.ask(f"config: {label}", CreateTopicsRequest([topic], 5_000, True))
    same_key = [CreatableTopicConfig("retention.ms", "5"), CreatableTopicConfig("retention.ms", "6")]
    probe.ask("config: twice", CreateTopicsRequest([CreatableTopic("configured", 1, 1, configs=same_key)], 5_000, True))


def growing(probe: Probe) -> None:
    """Send valid and invalid CreatePartitions requests."""
    create(probe, "grow", 2)
    for version in probe.range(ApiKey.CREATE_PARTITIONS):
        for label, topic in {
            "the same count": CreatePartitionsTopic("grow", 2 + version, None),
            "fewer": CreatePartitionsTopic("grow", 1, None),
            "none": CreatePartitionsTopic("grow", 0, None),
            "negative": CreatePartitionsTopic("grow", -1, None),
            "unknown topic": CreatePartitionsTopic("nowhere", 3, None),
            "empty name": CreatePartitionsTopic("", 3, None),
            "too few assignments": CreatePartitionsTopic("grow", 20, [CreatePartitionsAssignment([1])]),
            "too many assignments": CreatePartitionsTopic("grow", 3 + version, [CreatePartitionsAssignment([1])] * 2),
            "unknown node": CreatePartitionsTopic("grow", 3 + version, [CreatePartitionsAssignment([7])]),
            "a node twice": CreatePartitionsTopic("grow", 3 + version, [CreatePartitionsAssignment([1, 1])]),
            "no node": CreatePartitionsTopic("grow", 3 + version, [CreatePartitionsAssignment([])]),
            "no assignments": CreatePartitionsTopic("grow", 3 + version, []),
            "far too many": CreatePartitionsTopic("grow", 100_000, None),
            "the offsets topic": CreatePartitionsTopic("__consumer_offsets", 1, None),
        }.items():
            probe.ask(label, CreatePartitionsRequest([topic], 5_000, True), version)
        probe.ask("one more", CreatePartitionsRequest([CreatePartitionsTopic("grow", 3 + version, None)], 5_000), version)
    twice = [CreatePartitionsTopic("grow", 30, None), CreatePartitionsTopic("grow", 31, None)]
    probe.ask("a topic twice", CreatePartitionsRequest(twice, 5_000, True))
    wait_until_led(probe, "grow", 2 + len(probe.range(ApiKey.CREATE_PARTITIONS)))
    probe.ask("grown", MetadataRequest([MetadataRequestTopic(name="grow")]))


def deleting(probe: Probe) -> None:
    """Send DeleteTopics by name and by id, each twice: the second request is about a deleted topic."""
    for version in probe.range(ApiKey.DELETE_TOPICS):
        topic_id = create(probe, f"deleted-{version}")
        for label in ("delete", "again"):
            by_name = DeleteTopicsRequest([DeleteTopicState(f"deleted-{version}")], [f"deleted-{version}"], 5_000)
            probe.ask(label, by_name, version)
        probe.ask("unknown", DeleteTopicsRequest([DeleteTopicState("nowhere")], ["nowhere", ""], 5_000), version)
        probe.ask("an internal one", DeleteTopicsRequest([DeleteTopicState("__cluster_metadata")], ["__cluster_metadata"], 5_000), version)
        wait_until_deleted(probe, topic_id)
        probe.ask("fetch metadata of a deleted id", MetadataRequest([MetadataRequestTopic(topic_id, None)], False), 12)
    topic_id = create(probe, "by-id")
    for label, state in {
        "unknown id": DeleteTopicState(None, UNKNOWN_ID),
        "zero id": DeleteTopicState(None, bytes(16)),
        "name and id": DeleteTopicState("by-id", topic_id),
        "by id": DeleteTopicState(None, topic_id),
        "by id again": DeleteTopicState(None, topic_id),
    }.items():
        probe.ask(label, DeleteTopicsRequest([state], timeout_ms=5_000), 6)
    create(probe, "twice-named")
    probe.ask("twice", DeleteTopicsRequest([DeleteTopicState("twice-named"), DeleteTopicState("twice-named")], timeout_ms=5_000), 6)
    topic_id = create(probe, "both-ways")
    both = [DeleteTopicState("both-ways"), DeleteTopicState(None, topic_id)]
    probe.ask("by name and by id", DeleteTopicsRequest(both, timeout_ms=5_000), 6)


def metadata(probe: Probe) -> None:
    """Request metadata by name, by id, for all topics, for unknown ones, and with topic creation allowed."""
    topic_id = create(probe, "meta", 3)
    for version in probe.range(ApiKey.METADATA):
        named = [MetadataRequestTopic(name="meta")]
        probe.ask("one", MetadataRequest(named, False), version)
        for label, name in {"unknown": "nowhere", "empty name": "", "illegal name": "a b"}.items():
            if version >= 4:
                probe.ask(label, MetadataRequest([MetadataRequestTopic(name=name)], False), version)
        if version >= 1:
            probe.ask("none", MetadataRequest([], False), version)
        if version >= 8:
            full = MetadataRequest(
                named, False, include_cluster_authorized_operations=version <= 10, include_topic_authorized_operations=True
            )
            probe.ask("with operations", full, version)
    for version in (10, 11, 12, 13):
        probe.ask("by id", MetadataRequest([MetadataRequestTopic(topic_id, None if version >= 12 else "")], False), version)
        probe.ask("unknown id", MetadataRequest([MetadataRequestTopic(UNKNOWN_ID, None)], False), version)
        probe.ask("id and name", MetadataRequest([MetadataRequestTopic(topic_id, "meta")], False), version)
        probe.ask("neither", MetadataRequest([MetadataRequestTopic(bytes(16), None)], False), version)
    probe.ask("illegal, may be created", MetadataRequest([MetadataRequestTopic(name="a b")], True))
    probe.ask("name twice", MetadataRequest([MetadataRequestTopic(name="meta"), MetadataRequestTopic(name="meta")], False))


def creating_by_asking(probe: Probe) -> None:
    """Create topics automatically, with Metadata requests. A new topic is missing from the response to the request that creates it, also if
    a topic with this name was deleted before."""
    create(probe, "colliding.name")
    request = MetadataRequest([MetadataRequestTopic(name="automatic")], True)
    for turn in ("first", "after its deletion"):
        probe.ask(f"unknown, may be created: {turn}", request)
        wait_until_led(probe, "automatic", 1)
        for _ in until("it is described"):
            if (
                probe.ask_unrecorded(MetadataRequest([MetadataRequestTopic(name="automatic")], False), 12).topics[0].error_code
                == ErrorCode.NONE
            ):
                break
        probe.ask(f"created: {turn}", request)
        probe.ask(f"delete: {turn}", DeleteTopicsRequest([DeleteTopicState("automatic")], timeout_ms=5_000), 6)
        for _ in until("it is gone"):
            gone = probe.ask_unrecorded(CreateTopicsRequest([CreatableTopic("automatic", 1, 1)], 5_000, True), 5)
            if gone.topics[0].error_code == ErrorCode.NONE:
                break
    for label in ("collides with another", "still collides"):
        probe.ask(label, MetadataRequest([MetadataRequestTopic(name="colliding_name")], True))
    several = [MetadataRequestTopic(name=name) for name in ("colliding.name", "a b", "..", "x" * 250, "another")]
    probe.ask("several", MetadataRequest(several, True))
    wait_until_led(probe, "another", 1)


def partitions(probe: Probe) -> None:
    """Send DescribeTopicPartitions with limits for the size of a page, and with cursors that continue after a page."""
    if not probe.knows(ApiKey.DESCRIBE_TOPIC_PARTITIONS):
        return
    create(probe, "paged-a", 3)
    create(probe, "paged-b", 3)
    both = [TopicRequest("paged-b"), TopicRequest("paged-a")]
    for label, request in {
        "both": DescribeTopicPartitionsRequest(both),
        "a page": DescribeTopicPartitionsRequest(both, 4),
        "a page of one topic": DescribeTopicPartitionsRequest(both, 3),
        "from a cursor": DescribeTopicPartitionsRequest(both, 2, Cursor("paged-a", 2)),
        "cursor past the end": DescribeTopicPartitionsRequest(both, 2, Cursor("paged-b", 9)),
        "cursor of an unknown topic": DescribeTopicPartitionsRequest(both, 2, Cursor("paged-aa", 0)),
        "cursor below zero": DescribeTopicPartitionsRequest(both, 2, Cursor("paged-a", -1)),
        "unknown": DescribeTopicPartitionsRequest([TopicRequest("nowhere")]),
        "empty name": DescribeTopicPartitionsRequest([TopicRequest("")]),
        "illegal name": DescribeTopicPartitionsRequest([TopicRequest("a b")]),
        "no limit": DescribeTopicPartitionsRequest(both, 0),
        "twice": DescribeTopicPartitionsRequest([both[0], both[0]]),
        "unknown among known": DescribeTopicPartitionsRequest([*both, TopicRequest("paged-aa")], 4),
    }.items():
        probe.ask(label, request, 0, sort=False)


def delete_records(probe: Probe) -> None:
    """Send DeleteRecords with offsets below, at and beyond the log's end, and for unknown partitions."""
    create(probe, "shorten", 2)
    produce(probe, "ten records", "shorten", batch(*[b"x"] * 10))
    for version in probe.range(ApiKey.DELETE_RECORDS):
        for partition, offset in ((0, 3 + version), (0, 1), (0, 11), (0, -2), (0, 0), (1, 0), (1, 1), (1, -1), (7, 0), (-1, 0)):
            wanted = [DeleteRecordsTopic("shorten", [DeleteRecordsPartition(partition, offset)])]
            probe.ask(f"{partition}: before {offset}", DeleteRecordsRequest(wanted, 5_000), version)
        probe.ask("unknown", DeleteRecordsRequest([DeleteRecordsTopic("nowhere", [DeleteRecordsPartition(0, 0)])], 5_000), version)
    create(probe, "kept", configs={"cleanup.policy": "compact"})
    produce(probe, "a keyed record", "kept", batch(b"x", keys=[b"k"]))
    probe.ask("compacted", DeleteRecordsRequest([DeleteRecordsTopic("kept", [DeleteRecordsPartition(0, 1)])], 5_000))
    probe.ask("all", DeleteRecordsRequest([DeleteRecordsTopic("shorten", [DeleteRecordsPartition(0, -1)])], 5_000))
    internal = DeleteRecordsTopic("__consumer_offsets", [DeleteRecordsPartition(0, 0)])
    probe.ask("internal", DeleteRecordsRequest([internal], 5_000))
