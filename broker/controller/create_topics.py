"""Deciding CreateTopics and CreatePartitions (Kafka's `ReplicationControlManager`): checks, and the records that make it so.

Rules that hold inside:
- Nothing here changes state; all records of one request are one batch, so that a crash leaves each topic whole or absent.
- One topic's mistake refuses that topic only; a name that appears twice in a request is refused everywhere it appears.
- The order of checks is Kafka's: name, existence, configs, assignment or counts.
- There is one broker, so every partition lives on it, and a replication factor above one cannot be met.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from ottla.broker.cluster.catalog import Catalog
from ottla.broker.cluster.image import ResourceType, TopicImage
from ottla.broker.cluster.metadata_records import ConfigRecord, MetadataRecord, PartitionRecord, TopicRecord
from ottla.broker.cluster.topic_ids import ZERO_ID
from ottla.broker.cluster.topic_names import CLUSTER_METADATA, is_internal, name_problem
from ottla.broker.core.effects import Effects
from ottla.broker.core.rejected import Rejected
from ottla.protocol.error_codes import ErrorCode

PARTITIONS_PER_REQUEST_MAX: Final = 10_000
"""Kafka's own bound on one request's new partitions; at some 300 bytes a record the batch stays near 3 MB."""

DEFAULT_COUNT: Final = -1
"""A partition count or replication factor that the client leaves to the broker."""


@dataclass(frozen=True, slots=True)
class Placement:
    """Where new partitions go, and how many there are when the client does not say."""

    node_id: int
    num_partitions: int = 1
    replication_factor: int = 1
    directory_id: bytes = ZERO_ID


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create. `assignments` are (partition, broker ids); with them both counts must be -1. A null config value is refused."""

    name: str
    num_partitions: int = DEFAULT_COUNT
    replication_factor: int = DEFAULT_COUNT
    assignments: Sequence[tuple[int, Sequence[int]]] = ()
    configs: Sequence[tuple[str, str | None]] = ()


@dataclass(frozen=True, slots=True)
class CreatedTopic:
    """The answer for one topic: `error` is None when it was (or, when only validating, would be) created."""

    name: str
    error: Rejected | None = None
    topic_id: bytes = ZERO_ID
    num_partitions: int = -1
    replication_factor: int = -1
    configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MorePartitions:
    """Grow `name` to `count` partitions; `assignments` (broker ids, one list for each added partition) or None."""

    name: str
    count: int
    assignments: Sequence[Sequence[int]] | None = None


CheckConfigs = Callable[[Mapping[str, str]], None]
"""Raises `Rejected(INVALID_CONFIG)` when a topic could not have these overrides."""


def create_topics(
    catalog: Catalog,
    topics: Sequence[NewTopic],
    placement: Placement,
    check_configs: CheckConfigs,
    new_id: Callable[[], bytes],
) -> Effects[MetadataRecord, list[CreatedTopic]]:
    """Decides a whole request; answers come in the request's order, one for each name.

    Raises `Rejected(POLICY_VIOLATION)` when the request asks for more partitions than one request may.
    """
    _check_total(topics, placement)
    seen = Counter(topic.name for topic in topics)
    records: list[MetadataRecord] = []
    results: dict[str, CreatedTopic] = {}
    for topic in topics:
        try:
            if seen[topic.name] > 1:
                raise Rejected(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            _check_name(catalog, topic.name)
            configs = _checked_configs(topic, check_configs)
            replicas = _manual_replicas(topic, placement) if topic.assignments else _placed_replicas(topic, placement)
            topic_id = new_id()
            records.extend(_creation(topic.name, topic_id, configs, replicas, placement))
            results[topic.name] = CreatedTopic(topic.name, None, topic_id, len(replicas), len(replicas[0]), configs)
        except Rejected as error:
            results[topic.name] = CreatedTopic(topic.name, error)
    return Effects(records, list(results.values()))


def _check_total(topics: Sequence[NewTopic], placement: Placement) -> None:
    total = 0
    for topic in topics:
        wanted = placement.num_partitions if topic.num_partitions == DEFAULT_COUNT else max(topic.num_partitions, 0)
        total += len(topic.assignments) or wanted
    if total > PARTITIONS_PER_REQUEST_MAX:
        raise Rejected(ErrorCode.POLICY_VIOLATION, f"{total} partitions in one request, more than {PARTITIONS_PER_REQUEST_MAX}.")


def _creation(
    name: str, topic_id: bytes, configs: Mapping[str, str], replicas: Sequence[Sequence[int]], placement: Placement
) -> Iterator[MetadataRecord]:
    yield TopicRecord(name=name, topic_id=topic_id)
    for key, value in configs.items():
        yield config_record(ResourceType.TOPIC, name, key, value)
    for index, brokers in enumerate(replicas):
        yield partition_record(topic_id, index, brokers, placement)


def _check_name(catalog: Catalog, name: str) -> None:
    if name == CLUSTER_METADATA:
        raise Rejected(ErrorCode.INVALID_REQUEST, f"Creation of internal topic {CLUSTER_METADATA} is prohibited.")
    if catalog.topic(name) is not None:
        raise Rejected(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    if (problem := name_problem(name)) is not None:
        raise Rejected(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {problem}")
    if (other := catalog.colliding(name)) is not None:
        raise Rejected(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with existing topic: {other}")


def _checked_configs(topic: NewTopic, check_configs: CheckConfigs) -> dict[str, str]:
    nulls = [name for name, value in topic.configs if value is None]
    if nulls:
        raise Rejected(ErrorCode.INVALID_CONFIG, f"Null value not supported for topic configs: {','.join(nulls)}")
    configs = {name: value for name, value in topic.configs if value is not None}
    check_configs(configs)
    return configs


def _placed_replicas(topic: NewTopic, placement: Placement) -> list[list[int]]:
    if topic.replication_factor < DEFAULT_COUNT or topic.replication_factor == 0:
        raise Rejected(ErrorCode.INVALID_REPLICATION_FACTOR, "Replication factor must be larger than 0, or -1 to use the default value.")
    if topic.num_partitions < DEFAULT_COUNT or topic.num_partitions == 0:
        raise Rejected(ErrorCode.INVALID_PARTITIONS, "Number of partitions was set to an invalid non-positive value.")
    factor = placement.replication_factor if topic.replication_factor == DEFAULT_COUNT else topic.replication_factor
    count = placement.num_partitions if topic.num_partitions == DEFAULT_COUNT else topic.num_partitions
    if factor > 1:
        raise Rejected(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Unable to replicate the partition {factor} time(s): only 1 broker is registered.",
        )
    return [[placement.node_id] for _ in range(count)]


def _manual_replicas(topic: NewTopic, placement: Placement) -> list[list[int]]:
    if topic.replication_factor != DEFAULT_COUNT:
        raise Rejected(ErrorCode.INVALID_REQUEST, "A manual partition assignment was given, but the replication factor was not -1.")
    if topic.num_partitions != DEFAULT_COUNT:
        raise Rejected(ErrorCode.INVALID_REQUEST, "A manual partition assignment was given, but the number of partitions was not -1.")
    by_index: dict[int, list[int]] = {}
    factor: int | None = None
    for index, brokers in topic.assignments:
        if index in by_index:
            raise Rejected(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"Found multiple manual assignments for partition {index}.")
        check_assignment(brokers, factor, placement)
        factor = len(brokers)
        by_index[index] = list(brokers)
    if sorted(by_index) != list(range(len(by_index))):
        raise Rejected(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "Partitions should be a consecutive 0-based integer sequence.")
    return [by_index[index] for index in range(len(by_index))]


def check_assignment(brokers: Sequence[int], factor: int | None, placement: Placement) -> None:
    """Raises `Rejected(INVALID_REPLICA_ASSIGNMENT)`; `factor` is what the other partitions have, None for the first."""
    code = ErrorCode.INVALID_REPLICA_ASSIGNMENT
    if not brokers:
        raise Rejected(code, "The manual partition assignment includes an empty replica list.")
    unknown = sorted(set(brokers) - {placement.node_id})
    if unknown:
        raise Rejected(code, f"The manual partition assignment includes broker {unknown[0]}, but no such broker is registered.")
    if len(set(brokers)) != len(brokers):
        raise Rejected(code, f"The manual partition assignment includes the broker {placement.node_id} more than once.")
    if factor is not None and len(brokers) != factor:
        raise Rejected(code, f"An assignment has {len(brokers)} replica(s), while other partitions have {factor}.")


def create_partitions(
    catalog: Catalog, topics: Sequence[MorePartitions], placement: Placement
) -> Effects[MetadataRecord, list[tuple[str, Rejected | None]]]:
    """Decides a whole request; one (name, error or None) for each name."""
    seen = Counter(topic.name for topic in topics)
    records: list[MetadataRecord] = []
    results: dict[str, Rejected | None] = {}
    for topic in topics:
        try:
            if seen[topic.name] > 1:
                raise Rejected(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            added = _more_partitions(catalog, topic, placement, PARTITIONS_PER_REQUEST_MAX - len(records))
            records.extend(added)
            results[topic.name] = None
        except Rejected as error:
            results[topic.name] = error
    return Effects(records, list(results.items()))


def _more_partitions(catalog: Catalog, wanted: MorePartitions, placement: Placement, most: int) -> list[MetadataRecord]:
    topic = catalog.topic(wanted.name)
    if topic is None:
        raise Rejected(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")
    _check_growth(topic, wanted, most)
    current = len(topic.partitions)
    added = wanted.count - current
    if wanted.assignments is None:
        replicas: Sequence[Sequence[int]] = [[placement.node_id]] * added
    else:
        if len(wanted.assignments) != added:
            raise Rejected(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Attempted to add {added} additional partition(s), but only {len(wanted.assignments)} assignment(s) were specified.",
            )
        for brokers in wanted.assignments:
            check_assignment(brokers, topic.replication_factor, placement)
        replicas = wanted.assignments
    return [partition_record(topic.topic_id, current + i, brokers, placement) for i, brokers in enumerate(replicas)]


def _check_growth(topic: TopicImage, wanted: MorePartitions, most: int) -> None:
    current = len(topic.partitions)
    if wanted.count == current:
        raise Rejected(ErrorCode.INVALID_PARTITIONS, f"Topic already has {current} partition(s).")
    if wanted.count < current:
        raise Rejected(
            ErrorCode.INVALID_PARTITIONS,
            f"The topic {topic.name} currently has {current} partition(s); {wanted.count} would not be an increase.",
        )
    if wanted.count - current > most:
        raise Rejected(ErrorCode.POLICY_VIOLATION, f"More than {PARTITIONS_PER_REQUEST_MAX} partitions in one request.")
    if is_internal(topic.name):
        # A group or transaction belongs to hash(id) mod the partition count: growth would orphan every one of them.
        raise Rejected(ErrorCode.INVALID_TOPIC_EXCEPTION, f"The number of partitions of the internal topic {topic.name} is fixed.")


def partition_record(topic_id: bytes, index: int, brokers: Sequence[int], placement: Placement, leader_epoch: int = 0) -> PartitionRecord:
    """A partition whose replicas are all in sync and whose first one leads."""
    return PartitionRecord(
        partition_id=index,
        topic_id=topic_id,
        replicas=list(brokers),
        isr=list(brokers),
        leader=brokers[0],
        leader_epoch=leader_epoch,
        partition_epoch=0,
        directories=[placement.directory_id] * len(brokers),
    )


def config_record(resource_type: int, resource_name: str, name: str, value: str | None) -> ConfigRecord:
    """Sets, or with None deletes, one configuration of a resource."""
    return ConfigRecord(resource_type=int(resource_type), resource_name=resource_name, name=name, value=value)
