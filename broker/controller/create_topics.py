"""Decides CreateTopics and CreatePartitions (Kafka's `ReplicationControlManager`).

Invariants:
- These functions change no state. All records of one request are one batch, so a crash leaves each topic whole or absent.
- An error rejects only the topic that it concerns. A name that appears twice in a request is rejected.
- The order of checks is Kafka's: name, existence, configs, assignment or counts. The texts and the order of records are Kafka's, too.
- A partition is created only if at least one of its replicas can be in the ISR.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from ottla.broker.cluster.catalog import Catalog
from ottla.broker.cluster.image import ResourceType, TopicImage
from ottla.broker.cluster.metadata_records import ConfigRecord, MetadataRecord, TopicRecord
from ottla.broker.cluster.topic_ids import ZERO_ID
from ottla.broker.cluster.topic_names import CLUSTER_METADATA, is_internal
from ottla.broker.configs.topic_config import check_topic_configs
from ottla.broker.controller.batches import RECORDS_PER_REQUEST_MAX, TOO_LARGE, check_size
from ottla.broker.controller.clear_elr import cleared_elr
from ottla.broker.controller.placement import Placement, check_assignment
from ottla.broker.controller.state import ControllerState
from ottla.broker.core.effects import Effects
from ottla.broker.core.java_hash import in_hash_order, string_hash
from ottla.broker.core.rejected import Rejected
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.topic_names import name_problem
from ottla.protocol.uuids import random_uuid

PARTITIONS_PER_REQUEST_MAX: Final = 10_000
"""Kafka's limit of new partitions per request. At some 300 bytes per metadata record, the request's batch of records stays near 3 MB."""

DEFAULT_COUNT: Final = -1
"""A partition count or replication factor for which the broker's default is used."""


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create. `assignments` is a list of (partition index, broker ids); if it is not empty, `num_partitions` and
    `replication_factor` must be -1. A topic with a None value in `configs` is rejected.
    """

    name: str
    num_partitions: int = DEFAULT_COUNT
    replication_factor: int = DEFAULT_COUNT
    assignments: Sequence[tuple[int, Sequence[int]]] = ()
    configs: Sequence[tuple[str, str | None]] = ()


@dataclass(frozen=True, slots=True)
class CreatedTopic:
    """The result for one topic: `error` is None if it was created, or would be without validate_only."""

    name: str
    error: Rejected | None = None
    topic_id: bytes = ZERO_ID
    num_partitions: int = -1
    replication_factor: int = -1
    configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MorePartitions:
    """A CreatePartitions request for one topic: increase the number of its partitions to `count`. `assignments` has one list of broker ids
    per added partition; None: the controller places them.
    """

    name: str
    count: int
    assignments: Sequence[Sequence[int]] | None = None


CheckConfigs = Callable[[Mapping[str, str]], None]
"""A function that gets a topic's overrides (name to value, as text), and raises `Rejected(INVALID_CONFIG)` if one is invalid."""


def create_topics(
    catalog: Catalog,
    topics: Sequence[NewTopic],
    placement: Placement,
    check_configs: CheckConfigs,
    new_id: Callable[[], bytes],
    *,
    charge: Callable[[int], None] = lambda _: None,
    code_of_null: ErrorCode = ErrorCode.INVALID_CONFIG,
) -> Effects[MetadataRecord, list[CreatedTopic]]:
    """Decide a CreateTopics request: return the metadata records to write, and one result per distinct name, in the request's order.

    `charge` gets the partition count of each new topic, and raises Rejected if that exceeds the client's quota (KIP-599). `code_of_null` is
    the error of a setting without a value. Raises `Rejected(POLICY_VIOLATION)` if the request has too many partitions or records.
    """
    seen = Counter(topic.name for topic in topics)
    _check_total([topic for topic in topics if form_error(topic.name, seen[topic.name]) is None], placement)
    records: list[MetadataRecord] = []
    results: dict[str, CreatedTopic] = {}
    for topic in topics:
        try:
            if (malformed := form_error(topic.name, seen[topic.name])) is not None:
                raise malformed
            _check_name(catalog, topic.name)
            configs = _checked_configs(topic, check_configs, code_of_null)
            replicas = _manual_replicas(topic, placement) if topic.assignments else _placed_replicas(topic, placement)
            charge(len(replicas))
            topic_id = new_id()
            records.extend(_creation(topic.name, topic_id, configs, replicas, placement))
            results[topic.name] = CreatedTopic(topic.name, None, topic_id, len(replicas), len(replicas[0]), configs)
        except Rejected as error:
            results[topic.name] = CreatedTopic(topic.name, error.without_traceback())
    check_size(records)
    return Effects(records, list(results.values()))


def create_cluster_topics(
    state: ControllerState, topics: Sequence[NewTopic], *, charge: Callable[[int], None] = lambda _: None
) -> Effects[MetadataRecord, list[CreatedTopic]]:
    """Decide a CreateTopics request in a cluster: call `create_topics` with the controller's registered brokers, default settings and
    random topic ids.
    """

    def check(overrides: Mapping[str, str]) -> None:
        check_topic_configs(overrides, state.settings)

    return create_topics(
        state.catalog,
        topics,
        Placement.in_cluster(state),
        check,
        lambda: random_uuid(state.random.randbytes),
        charge=charge,
        code_of_null=ErrorCode.INVALID_REQUEST if state.settings.release_behaviour.has_zookeeper else ErrorCode.INVALID_CONFIG,
    )


def _check_total(topics: Sequence[NewTopic], placement: Placement) -> None:
    total = 0
    for topic in topics:
        wanted = placement.num_partitions if topic.num_partitions == DEFAULT_COUNT else max(topic.num_partitions, 0)
        total += len(topic.assignments) or wanted
    if total > PARTITIONS_PER_REQUEST_MAX:
        raise Rejected(ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request.")


def _creation(
    name: str, topic_id: bytes, configs: Mapping[str, str], replicas: Sequence[Sequence[int]], placement: Placement
) -> Iterator[MetadataRecord]:
    yield TopicRecord(name=name, topic_id=topic_id)
    settings = [config_record(ResourceType.TOPIC, name, key, configs[key]) for key in in_hash_order(configs, string_hash)]
    yield from settings
    if placement.has_elr:
        yield from cleared_elr(settings)
    for index, brokers in enumerate(replicas):
        yield placement.partition_record(topic_id, index, brokers)


def form_error(name: str, times: int) -> Rejected | None:
    """Return the error that Kafka returns before authorization for the topic `name`, which the request has `times` times: INVALID_REQUEST
    if `times` is above 1 or the name is `__cluster_metadata`. Return None otherwise."""
    if times == 1 and name == CLUSTER_METADATA:
        return Rejected(ErrorCode.INVALID_REQUEST, f"Creation of internal topic {CLUSTER_METADATA} is prohibited.")
    return duplicate_error(times)


def duplicate_error(times: int) -> Rejected | None:
    """Return INVALID_REQUEST if a request names the same topic more than once (`times` is above 1), otherwise None. Kafka returns this
    error before authorization."""
    return Rejected(ErrorCode.INVALID_REQUEST, "Duplicate topic name.") if times > 1 else None


def _check_name(catalog: Catalog, name: str) -> None:
    if catalog.topic(name) is not None:
        raise Rejected(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    if (problem := name_problem(name)) is not None:
        raise Rejected(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {problem}")
    if (other := catalog.colliding(name)) is not None:
        raise Rejected(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with existing topic: {other}")


def _checked_configs(topic: NewTopic, check_configs: CheckConfigs, code_of_null: ErrorCode) -> dict[str, str]:
    nulls = [name for name, value in topic.configs if value is None]
    if nulls:
        raise Rejected(code_of_null, f"Null value not supported for topic configs: {','.join(nulls)}")
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
    try:
        replicas = placement.place(count, factor)
    except Rejected as error:
        raise Rejected(error.code, f"Unable to replicate the partition {factor} time(s): {error.message}") from error
    _check_placed(replicas, factor, placement)
    return replicas


def _check_placed(replicas: Sequence[Sequence[int]], factor: int, placement: Placement) -> None:
    if not all(map(placement.in_sync, replicas)):
        text = f"Unable to replicate the partition {factor} time(s): All brokers are currently fenced or in controlled shutdown."
        raise Rejected(ErrorCode.INVALID_REPLICATION_FACTOR, text)


def _manual_replicas(topic: NewTopic, placement: Placement) -> list[list[int]]:
    given = "A manual partition assignment was specified, but"
    if topic.replication_factor != DEFAULT_COUNT:
        raise Rejected(ErrorCode.INVALID_REQUEST, f"{given} replication factor was not set to -1.")
    if topic.num_partitions != DEFAULT_COUNT:
        raise Rejected(ErrorCode.INVALID_REQUEST, f"{given} numPartitions was not set to -1.")
    by_index: dict[int, list[int]] = {}
    factor: int | None = None
    for index, brokers in topic.assignments:
        if index in by_index:
            raise Rejected(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"Found multiple manual partition assignments for partition {index}")
        _check_manual(brokers, factor, index, placement)
        factor = len(brokers)
        by_index[index] = list(brokers)
    if sorted(by_index) != list(range(len(by_index))):
        raise Rejected(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "partitions should be a consecutive 0-based integer sequence")
    return [by_index[index] for index in range(len(by_index))]


def _check_manual(brokers: Sequence[int], factor: int | None, index: int, placement: Placement) -> None:
    check_assignment(placement.brokers, brokers, factor)
    if not placement.in_sync(brokers):
        text = f"All brokers specified in the manual partition assignment for partition {index} are fenced or in controlled shutdown."
        raise Rejected(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)


def create_partitions(
    catalog: Catalog, topics: Sequence[MorePartitions], placement: Placement, charge: Callable[[int], None] = lambda _: None
) -> Effects[MetadataRecord, list[tuple[str, Rejected | None]]]:
    """Decide a CreatePartitions request: return the metadata records to write, and one (name, error or None) per distinct name. `charge`
    gets the number of new partitions of each topic, and raises Rejected if that exceeds the client's quota (KIP-599). Raises
    `Rejected(POLICY_VIOLATION)` if the request has too many new partitions."""
    seen = Counter(topic.name for topic in topics)
    records: list[MetadataRecord] = []
    results: dict[str, Rejected | None] = {}
    for topic in topics:
        try:
            if (malformed := duplicate_error(seen[topic.name])) is not None:
                raise malformed
            records.extend(_more_partitions(catalog, topic, placement, RECORDS_PER_REQUEST_MAX - len(records), charge))
            results[topic.name] = None
        except Rejected as error:
            if error.code is ErrorCode.POLICY_VIOLATION:
                raise  # the limit of the whole request
            results[topic.name] = error.without_traceback()
    return Effects(records, list(results.items()))


def _more_partitions(
    catalog: Catalog, wanted: MorePartitions, placement: Placement, records_max: int, charge: Callable[[int], None]
) -> list[MetadataRecord]:
    topic = catalog.topic(wanted.name)
    if topic is None:
        raise Rejected(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")
    _check_growth(topic, wanted)
    current = len(topic.partitions)
    added = wanted.count - current
    factor = topic.replication_factor
    if wanted.assignments is not None and len(wanted.assignments) != added:
        raise Rejected(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Attempted to add {added} additional partition(s), but only {len(wanted.assignments)} assignment(s) were specified.",
        )
    if added > records_max:
        raise Rejected(ErrorCode.POLICY_VIOLATION, TOO_LARGE)
    charge(added)
    if wanted.assignments is None:
        replicas: Sequence[Sequence[int]] = placement.place(added, factor)
        _check_placed(replicas, factor, placement)
    else:
        replicas = wanted.assignments
        for index, brokers in enumerate(replicas, current):
            _check_manual(brokers, factor, index, placement)
    return [placement.partition_record(topic.topic_id, index, brokers) for index, brokers in enumerate(replicas, current)]


def _check_growth(topic: TopicImage, wanted: MorePartitions) -> None:
    current = len(topic.partitions)
    if wanted.count == current:
        raise Rejected(ErrorCode.INVALID_PARTITIONS, f"Topic already has {current} partition(s).")
    if wanted.count < current:
        raise Rejected(
            ErrorCode.INVALID_PARTITIONS,
            f"The topic {topic.name} currently has {current} partition(s); {wanted.count} would not be an increase.",
        )
    if is_internal(topic.name):
        # A group or transaction belongs to hash(id) mod the partition count, so growth would orphan all of them.
        raise Rejected(ErrorCode.INVALID_TOPIC_EXCEPTION, f"The number of partitions of the internal topic {topic.name} is fixed.")


def config_record(resource_type: int, resource_name: str, name: str, value: str | None) -> ConfigRecord:
    """Return the record that sets one setting of a resource or, if `value` is None, deletes the setting."""
    return ConfigRecord(resource_type=int(resource_type), resource_name=resource_name, name=name, value=value)
