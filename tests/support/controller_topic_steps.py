"""Steps of `controller_steps` for topics, partitions, settings and features."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from ottla.broker.cluster.image import PartitionRegistration
from ottla.protocol.messages import k19_create_topics as k19
from ottla.protocol.messages import k20_delete_topics as k20
from ottla.protocol.messages import k33_alter_configs as k33
from ottla.protocol.messages import k37_create_partitions as k37
from ottla.protocol.messages import k43_elect_leaders as k43
from ottla.protocol.messages import k44_incremental_alter_configs as k44
from ottla.protocol.messages import k45_alter_partition_reassignments as k45
from ottla.protocol.messages import k46_list_partition_reassignments as k46
from ottla.protocol.messages import k56_alter_partition as k56
from ottla.protocol.messages import k57_update_features as k57
from ottla.protocol.messages import k73_assign_replicas_to_dirs as k73
from tests.support.controller_steps import (
    BROKERS,
    FEATURES,
    KINDS_OF_BROKERS,
    METADATA_LEVELS,
    Making,
    Plan,
    Step,
    a_partition,
    a_topic,
    directory,
    epoch_of,
    often,
    restore_brokers,
    some,
    topics,
)
from tests.support.controller_user_steps import KINDS_OF_USERS
from tests.support.kafka_controller import Known, Order, Request, Start

NAMES = [f"topic{letter}" for letter in "abcdefgh"]
BAD_NAMES = ["", ".", "a/b", "x" * 250, "topic_a", "topic.a", "__cluster_metadata"]
UNKNOWN_ID = bytes(15) + b"\x77"
TOPIC_CONFIGS = {
    "min.insync.replicas": ("1", "2", "2", "3", "4", "0", "-1", "two"),
    "unclean.leader.election.enable": ("true", "true", "false", "TRUE", "perhaps"),
    "retention.ms": ("1000", "-1", "-2", "x"),
    "cleanup.policy": ("compact", "compact,delete", "delete", "burn", ""),
    "segment.bytes": ("1048576", "1"),
    "compression.type": ("zstd", "none"),
    "no.such.setting": ("1",),
}
# Kafka's controller stores some values that cannot be parsed, and describes them for new topics; Ottla's describes the value in force.
BROKER_CONFIGS = {
    "min.insync.replicas": ("1", "2", "3"),  # Ottla's controller rejects values that Kafka's accepts although it cannot use them
    "unclean.leader.election.enable": ("true", "false", "FALSE"),
    "log.cleaner.threads": ("2", "x"),
    "follower.replication.throttled.rate": ("1000",),
    "advertised.listeners": ("PLAINTEXT://h:1",),
    "cordoned.log.dirs": ("/a", "", "*"),
    "num.io.threads": ("4",),
}
GROUP_CONFIGS = {"consumer.session.timeout.ms": ("50000", "1"), "consumer.heartbeat.interval.ms": ("6000", "0"), "no.such": ("1",)}
METRICS_CONFIGS = {"interval.ms": ("1000", "1"), "metrics": ("a.b,c", ""), "match": ("client_id=x", "what=x"), "no.such": ("1",)}

# --- topics ----------------------------------------------------------------------------------------------------------------------------


def create_topics(known: Known, random: Random) -> Iterator[Order]:
    """Send CreateTopics for one or several topics, sometimes with invalid names."""
    names = random.choices(NAMES, k=random.choice((1, 1, 2, 3)))
    if not often(random, 92):
        names.append(random.choice(BAD_NAMES))
    request = k19.CreateTopicsRequest([new_topic(known, random, name) for name in names], 10_000, not often(random, 92))
    yield Request(request, 7 if often(random) else random.randrange(2, 7), random.randrange(100))


def new_topic(known: Known, random: Random, name: str) -> k19.CreatableTopic:
    """Return a new topic for CreateTopics: mostly with manual assignments, else with a partition count and a replication factor."""
    topic = k19.CreatableTopic(name, -1, -1)
    if often(random, 65):
        factor = random.choice((1, 2, 3, 3, 3, 4, 5))
        for index in range(random.choice((1, 1, 2, 3))):
            topic.assignments.append(k19.CreatableReplicaAssignment(index, replicas(known, random, factor)))
        if not often(random, 96):
            topic.assignments[0].partition_index = random.choice((-1, 1, 5))
        if not often(random, 97):
            topic.num_partitions, topic.replication_factor = random.choice(((1, -1), (-1, 2), (3, 3)))
    else:
        topic.num_partitions = random.choice((-1, 1, 2, 5, 0, -2))
        topic.replication_factor = random.choice((-1, 1, 2, 3, 3, 5, 7, 0, -3))
    if not often(random, 60):
        for setting, value in settings(random, TOPIC_CONFIGS, valid=80):
            topic.configs.append(k19.CreatableTopicConfig(setting, value))
    return topic


def replicas(known: Known, random: Random, factor: int) -> list[int]:
    """Return `factor` random broker ids, mostly of registered brokers."""
    there = sorted(known.image.brokers)
    if len(there) < factor or not often(random, 95):
        return random.choice(([], [1, 1], random.sample(BROKERS, min(factor, 6)), [77], [-1]))
    return random.sample(there, factor)


def settings(random: Random, kinds: dict[str, tuple[str, ...]], valid: int) -> list[tuple[str, str]]:
    """Return one or two settings, which are valid in `valid` percent of the cases."""
    names = random.sample(sorted(kinds), random.choice((1, 1, 2)))
    if often(random, valid):
        names = [name for name in names if name in list(kinds)[:2]] or [list(kinds)[random.randrange(2)]]
        return [(name, random.choice(kinds[name][:3])) for name in names]
    return [(name, random.choice(kinds[name])) for name in names]


def delete_topics(known: Known, random: Random) -> Iterator[Order]:
    """Delete topics by name or id, sometimes unknown ones."""
    wanted = [each.name for each in random.sample(topics(known), min(len(topics(known)), random.choice((1, 1, 2))))]
    if not often(random, 80):
        wanted.append(random.choice([*NAMES, *wanted, "unknown"]))
    if often(random, 40):
        yield Request(k20.DeleteTopicsRequest([], wanted, 10_000), random.randrange(1, 6))
        return
    states = [k20.DeleteTopicState(name) for name in wanted]
    for state in states:
        topic = known.image.topic(state.name or "")
        if topic is not None and often(random, 50):
            state.topic_id = topic.topic_id
            state.name = None if often(random, 92) else state.name
    if not often(random, 90):
        states.append(k20.DeleteTopicState(None, random.choice((UNKNOWN_ID, bytes(16)))))
    yield Request(k20.DeleteTopicsRequest(states, [], 10_000), 6)


def create_partitions(known: Known, random: Random) -> Iterator[Order]:
    """Request more partitions for a topic, sometimes an invalid number. Topics with unequal replica counts are left out: for new partitions
    Kafka copies the count of an arbitrary one."""
    topic = a_topic(known, random)
    if topic is not None and len({len(each.replicas) for each in topic.partitions.values()}) > 1:
        return
    name, there = ("unknown", 0) if topic is None or not often(random, 95) else (topic.name, len(topic.partitions))
    count = there + random.choice((1, 1, 2, 0, -1))
    request = k37.CreatePartitionsTopic(name, count, None)
    if often(random, 50):
        factor = topic.replication_factor if topic is not None and often(random, 90) else 2
        lists = [replicas(known, random, factor) for _ in range(max(0, count - there))]
        request.assignments = [k37.CreatePartitionsAssignment(each) for each in lists]
        if not often(random, 92):
            request.assignments.append(k37.CreatePartitionsAssignment([1]))
    both = [request, k37.CreatePartitionsTopic(name if often(random, 30) else random.choice(NAMES), count + 1, None)]
    body = k37.CreatePartitionsRequest(both[: 1 if often(random) else 2], 10_000, not often(random, 92))
    yield Request(body, random.randrange(4), random.randrange(100))


# --- partitions ------------------------------------------------------------------------------------------------------------------------


def alter_partition(known: Known, random: Random) -> Iterator[Order]:
    """Let a leader propose another ISR with AlterPartition, sometimes with an invalid field."""
    found = a_partition(known, random)
    if found is None:
        return
    topic, index, partition = found
    leader = partition.leader if often(random, 96) else random.choice(BROKERS)
    right = 95
    isr = in_sync(random, partition) if often(random, right) else random.choice(([], [1, 1], [77], [*partition.replicas, 77]))
    epoch, partition_epoch = (
        each + (0 if often(random, right) else random.choice((-1, 1))) for each in (partition.leader_epoch, partition.partition_epoch)
    )
    proposed = k56.PartitionData(
        index if often(random, right) else 99,
        epoch,
        isr,
        [k56.BrokerState(each, epoch_of(known, random, each) if often(random, right) else -1) for each in isr],
        partition.leader_recovery_state if not often(random, 50) else int(not often(random, right)),
        partition_epoch,
    )
    topic_id = topic.topic_id if often(random, right) else UNKNOWN_ID
    request = k56.AlterPartitionRequest(leader, epoch_of(known, random, leader), [k56.TopicData(topic_id, [proposed])])
    yield Request(request, 3 if often(random, 80) else 2)


def in_sync(random: Random, partition: PartitionRegistration) -> list[int]:
    """Return some of the partition's replicas, mostly including the leader."""
    isr = some(random, list(partition.replicas))
    if partition.leader in partition.replicas and partition.leader not in isr and often(random, 90):
        isr.append(partition.leader)
    return isr


def join_in_sync(known: Known, random: Random) -> Iterator[Order]:
    """Let leaders propose, one after the other, that every live replica join the ISR. This also completes reassignments."""
    for topic in topics(known):
        for index in sorted(topic.partitions):
            partition = known.image.topics[topic.topic_id].partitions[index]
            there = [each for each in partition.replicas if is_there(known, each)]
            if partition.leader >= 0 and set(there) != set(partition.isr) and often(random, 70):
                states = [k56.BrokerState(each, known.image.brokers[each].epoch) for each in there]
                proposed = k56.PartitionData(index, partition.leader_epoch, there, states, 0, partition.partition_epoch)
                epoch = known.image.brokers[partition.leader].epoch
                yield Request(k56.AlterPartitionRequest(partition.leader, epoch, [k56.TopicData(topic.topic_id, [proposed])]), 3)


def is_there(known: Known, broker_id: int) -> bool:
    """Return whether the broker is neither fenced nor in a controlled shutdown, so that it may be in an ISR."""
    broker = known.image.brokers.get(broker_id)
    return broker is not None and not broker.fenced and not broker.in_controlled_shutdown


def elect_leaders(known: Known, random: Random) -> Iterator[Order]:
    """Send an ElectLeaders request."""
    wanted: list[k43.TopicPartitions] | None = None
    if often(random, 70):
        wanted = [k43.TopicPartitions(each.name, some(random, sorted(each.partitions), 3)) for each in topics(known) if often(random, 60)]
        if not often(random, 93):
            wanted.append(k43.TopicPartitions(random.choice(("unknown", *NAMES)), [0, 99]))
    kind = random.choice((0, 0, 0, 1, 1)) if often(random, 98) else 2
    yield Request(k43.ElectLeadersRequest(kind, wanted, 10_000), 2 if often(random) else random.randrange(2))


def reassign(known: Known, random: Random) -> Iterator[Order]:
    """Start or cancel reassignments."""
    request = k45.AlterPartitionReassignmentsRequest(10_000, often(random, 85))
    for _ in range(random.choice((1, 1, 2))):
        found = a_partition(known, random)
        if found is None:
            break
        topic, index, partition = found
        if any(each.name == topic.name for each in request.topics) and often(random, 95):
            continue
        part = k45.ReassignablePartition(index if often(random, 97) else 99, target(known, random, partition))
        request.topics.append(k45.ReassignableTopic(topic.name if often(random, 97) else "unknown", [part]))
    yield Request(request, 1 if often(random) else 0)


def target(known: Known, random: Random, partition: PartitionRegistration) -> list[int] | None:
    """Return a partition's target replicas; None cancels the reassignment."""
    is_moved = bool(partition.adding_replicas or partition.removing_replicas)
    if (is_moved and often(random, 35)) or not often(random, 92):
        return None
    factor = len(partition.replicas) if often(random, 60) else random.randint(1, 5)
    return replicas(known, random, factor) if often(random, 85) else random.sample(partition.replicas, len(partition.replicas))


def list_reassignments(known: Known, random: Random) -> Iterator[Order]:
    """List reassignments."""
    some_topics = [k46.ListPartitionReassignmentsTopics(each.name, [*sorted(each.partitions), 99]) for each in topics(known)[:2]]
    yield Request(k46.ListPartitionReassignmentsRequest(10_000, None if often(random, 70) else some_topics), 0)


def assign_directories(known: Known, random: Random) -> Iterator[Order]:
    """Let a broker report the directories of its replicas."""
    broker_id = random.choice(BROKERS)
    request = k73.AssignReplicasToDirsRequest(broker_id, epoch_of(known, random, broker_id))
    numbers = (1, 2) if often(random, 80) else (1, 3)
    for number in numbers:
        place = k73.DirectoryData(directory(broker_id, number) if often(random, 95) else random.choice((bytes(16), bytes(15) + b"\x01")))
        for topic in topics(known):
            indexes = [at for at, each in sorted(topic.partitions.items()) if broker_id in each.replicas or not often(random, 90)]
            if indexes and often(random, 45):
                parts = [k73.PartitionData(at if often(random, 97) else 99) for at in indexes]
                place.topics.append(k73.TopicData(topic.topic_id if often(random, 97) else UNKNOWN_ID, parts))
        request.directories.append(place)
    yield Request(request, 0)


# --- settings and features -------------------------------------------------------------------------------------------------------------


def resources(known: Known, random: Random) -> tuple[int, str, dict[str, tuple[str, ...]]]:
    """Return a resource's type and name, and its possible settings."""
    match random.randrange(12):
        case 0:
            return 4, random.choice([*map(str, BROKERS), "3000", "77", "x", "-1"]), BROKER_CONFIGS
        case 1 | 2 | 3:
            return 4, "", BROKER_CONFIGS
        case 4:
            return 32, random.choice(("group1", "group2", "")), GROUP_CONFIGS
        case 5:
            return 16, random.choice(("metrics1", "metrics2", "")), METRICS_CONFIGS
        case _:
            topic = a_topic(known, random)
            return 2, topic.name if topic is not None and often(random, 95) else random.choice(("unknown", "", "a/b")), TOPIC_CONFIGS


def alter_configs(known: Known, random: Random) -> Iterator[Order]:
    """Change settings incrementally."""
    request = k44.IncrementalAlterConfigsRequest([], not often(random, 93))
    for _ in range(random.choice((1, 1, 1, 2))):
        kind, name, kinds = resources(known, random)
        changes = []
        for setting, value in settings(random, kinds, valid=75):
            operation = 0 if often(random, 75) else random.choice((1, 1, 1, 2, 3))
            changes.append(k44.AlterableConfig(setting, operation, None if operation == 1 or not often(random, 98) else value))
        request.resources.append(k44.AlterConfigsResource(kind if often(random, 99) else 99, name, changes))
    yield Request(request, random.randrange(2))


def replace_configs(known: Known, random: Random) -> Iterator[Order]:
    """Replace all settings of a resource."""
    kind, name, kinds = resources(known, random)
    changes = [k33.AlterableConfig(*each) for each in settings(random, kinds, valid=80)]
    resource = k33.AlterConfigsResource(kind, name, changes if often(random) else [])
    yield Request(k33.AlterConfigsRequest([resource], not often(random, 93)), random.randrange(3))


def update_features(known: Known, random: Random) -> Iterator[Order]:
    """Raise, lower or validate a feature."""
    request = k57.UpdateFeaturesRequest(10_000, [], not often(random, 88))
    version = random.choice((0, 1, 1, 2, 2))
    for name in random.sample(sorted(FEATURES), random.choice((1, 1, 1, 2))):
        level = known.image.features.get(name, 0)
        if often(random, 75):
            level += random.choice((1, 1, 2, -1))
        else:
            level = random.choice([0, FEATURES[name][1], FEATURES[name][1] + 1, *METADATA_LEVELS])
        kind = random.choice((1, 1, 1, 2, 3)) if often(random, 98) else random.choice((0, 4))
        request.feature_updates.append(k57.FeatureUpdateKey(name, max(level, -1), not often(random, 70), kind))
    if not often(random, 95):
        request.feature_updates.append(k57.FeatureUpdateKey("no.such.version", 1))
    yield Request(request, version)


KINDS_OF_TOPICS: dict[Making, int] = {
    create_topics: 10,
    delete_topics: 3,
    create_partitions: 3,
    alter_partition: 18,
    join_in_sync: 8,
    elect_leaders: 8,
    reassign: 12,
    list_reassignments: 2,
    assign_directories: 5,
    alter_configs: 8,
    replace_configs: 2,
    update_features: 4,
}
OF_ALL: dict[Making, int] = {**KINDS_OF_BROKERS, **KINDS_OF_TOPICS, **KINDS_OF_USERS}
KINDS: dict[str, Making] = {kind.__name__: kind for kind in OF_ALL}
WEIGHTS: dict[str, int] = {kind.__name__: weight for kind, weight in OF_ALL.items()}


def plan(seed: int, length: int) -> Plan:
    """Return the plan that belongs to a seed. It begins with unfenced brokers and some topics."""
    random = Random(seed)
    level = random.choice((*METADATA_LEVELS, 30, 30, 25))
    features = {"metadata.version": level}
    if level >= 23 and often(random, 70):
        features["eligible.leader.replicas.version"] = 1
    if level >= 24 and often(random, 80):
        features |= {"group.version": 1, "transaction.version": 2}
    files = {"num.partitions": random.choice("12"), "default.replication.factor": random.choice("123")}
    if not often(random, 70):
        files["min.insync.replicas"] = random.choice("12")
    if not often(random, 85):
        files["unclean.leader.election.enable"] = "true"
    begin = [Step(restore_brokers.__name__, random.randrange(1 << 30)) for _ in range(2)]
    begin += [Step(create_topics.__name__, random.randrange(1 << 30)) for _ in range(3)]
    kinds = random.choices(list(WEIGHTS), list(WEIGHTS.values()), k=length)
    return Plan(seed, Start(features, files), (*begin, *(Step(kind, random.randrange(1 << 30)) for kind in kinds)))
