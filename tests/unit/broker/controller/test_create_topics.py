from __future__ import annotations

import pytest

from ottla.broker.cluster.image import PartitionRegistration
from ottla.broker.cluster.metadata_records import ConfigRecord, PartitionRecord, TopicRecord
from ottla.broker.cluster.topic_ids import ZERO_ID
from ottla.broker.controller.create_topics import MorePartitions, NewTopic, create_partitions, create_topics
from ottla.broker.controller.placement import Placement
from ottla.broker.core.rejected import Rejected
from ottla.protocol.error_codes import ErrorCode
from tests.support.catalogs import NODE, LiveCatalog, code_of

PLACEMENT = Placement.on_one(NODE)


@pytest.fixture
def live() -> LiveCatalog:
    return LiveCatalog()


def codes(live: LiveCatalog, *topics: NewTopic) -> list[ErrorCode]:
    return [code_of(created.error) for created in live.create(*topics)]


def test_a_created_topic_has_its_partitions_on_this_node_in_epoch_0(live: LiveCatalog) -> None:
    (created,) = live.create(NewTopic("flights", 3, 1, configs=[("retention.ms", "5")]))
    assert (created.error, created.num_partitions, created.replication_factor, created.configs) == (None, 3, 1, {"retention.ms": "5"})
    topic = live.catalog.topic("flights")
    assert topic is not None
    assert topic.topic_id == created.topic_id
    assert topic.partitions == dict.fromkeys(range(3), PartitionRegistration((NODE,), (ZERO_ID,), (NODE,), NODE, 0, 0))


def test_a_topics_records_are_topic_configs_and_partitions_in_order(live: LiveCatalog) -> None:
    effects = create_topics(live.catalog, [NewTopic("t", 2, configs=[("flush.ms", "1")])], PLACEMENT, lambda _: None, live.new_id)
    assert [type(record) for record in effects.records] == [TopicRecord, ConfigRecord, PartitionRecord, PartitionRecord]
    assert live.catalog.topic("t") is None, "deciding changed the state"


def test_counts_of_minus_1_use_the_brokers_defaults(live: LiveCatalog) -> None:
    (created,) = live.create(NewTopic("t"), placement=Placement.on_one(NODE, num_partitions=4))
    assert (created.num_partitions, created.replication_factor) == (4, 1)


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "x" * 250])
def test_an_illegal_name_is_an_invalid_topic(live: LiveCatalog, name: str) -> None:
    assert codes(live, NewTopic(name)) == [ErrorCode.INVALID_TOPIC_EXCEPTION]


def test_an_existing_name_is_checked_first(live: LiveCatalog) -> None:
    live.create(NewTopic("a.b"))
    assert codes(live, NewTopic("a.b", 0, configs=[("x", None)])) == [ErrorCode.TOPIC_ALREADY_EXISTS]


def test_a_name_that_collides_with_an_existing_one_is_an_invalid_topic(live: LiveCatalog) -> None:
    live.create(NewTopic("a.b"))
    assert codes(live, NewTopic("a_b")) == [ErrorCode.INVALID_TOPIC_EXCEPTION]


def test_a_duplicate_name_is_refused_once_and_creates_nothing(live: LiveCatalog) -> None:
    assert codes(live, NewTopic("a"), NewTopic("b"), NewTopic("a")) == [ErrorCode.INVALID_REQUEST, ErrorCode.NONE]
    assert live.catalog.topic("a") is None
    assert live.catalog.topic("b") is not None


def test_the_metadata_topic_cannot_be_created(live: LiveCatalog) -> None:
    assert codes(live, NewTopic("__cluster_metadata")) == [ErrorCode.INVALID_REQUEST]


@pytest.mark.parametrize("count", [0, -2])
def test_a_partition_count_below_one_is_invalid(live: LiveCatalog, count: int) -> None:
    assert codes(live, NewTopic("t", count)) == [ErrorCode.INVALID_PARTITIONS]


@pytest.mark.parametrize("factor", [0, -2, 2, 3])
def test_a_replication_factor_that_one_broker_cannot_meet_is_invalid(live: LiveCatalog, factor: int) -> None:
    assert codes(live, NewTopic("t", 1, factor)) == [ErrorCode.INVALID_REPLICATION_FACTOR]


@pytest.mark.parametrize(
    "configs",
    [[("retention.ms", None)], [("no.such.key", "1")], [("retention.ms", "soon")], [("segment.bytes", "13")], [("cleanup.policy", "x")]],
)
def test_a_null_unknown_or_invalid_config_is_refused(live: LiveCatalog, configs: list[tuple[str, str | None]]) -> None:
    assert codes(live, NewTopic("t", 1, configs=configs)) == [ErrorCode.INVALID_CONFIG]


@pytest.mark.parametrize(
    ("assignments", "code"),
    [
        ([(0, [NODE]), (1, [NODE])], ErrorCode.NONE),
        ([(1, [NODE]), (0, [NODE])], ErrorCode.NONE),
        ([(0, [])], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ([(0, [NODE, NODE])], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ([(0, [7])], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ([(0, [NODE]), (0, [NODE])], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ([(0, [NODE]), (2, [NODE])], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ([(1, [NODE])], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_a_manual_assignment_has_this_broker_for_consecutive_partitions(
    live: LiveCatalog, assignments: list[tuple[int, list[int]]], code: ErrorCode
) -> None:
    assert codes(live, NewTopic("t", assignments=assignments)) == [code]


@pytest.mark.parametrize(("count", "factor"), [(1, -1), (-1, 1)])
def test_a_manual_assignment_beside_counts_is_an_invalid_request(live: LiveCatalog, count: int, factor: int) -> None:
    assert codes(live, NewTopic("t", count, factor, [(0, [NODE])])) == [ErrorCode.INVALID_REQUEST]


def test_more_than_ten_thousand_partitions_refuse_the_request(live: LiveCatalog) -> None:
    with pytest.raises(Rejected) as refused:
        live.create(NewTopic("a", 6_000), NewTopic("b", 4_001))
    assert refused.value.code is ErrorCode.POLICY_VIOLATION
    assert live.create(NewTopic("a", 6_000), NewTopic("b", 3_998))[1].error is None


def grow(live: LiveCatalog, *topics: MorePartitions) -> dict[str, ErrorCode]:
    return {name: code_of(error) for name, error in live.run(create_partitions(live.catalog, topics, PLACEMENT))}


def test_create_partitions_adds_only_the_missing_partitions(live: LiveCatalog) -> None:
    live.create(NewTopic("t", 2))
    assert grow(live, MorePartitions("t", 5)) == {"t": ErrorCode.NONE}
    topic = live.catalog.topic("t")
    assert topic is not None
    assert sorted(topic.partitions) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("count", [2, 1, 0, -1])
def test_create_partitions_needs_a_larger_count(live: LiveCatalog, count: int) -> None:
    live.create(NewTopic("t", 2))
    assert grow(live, MorePartitions("t", count)) == {"t": ErrorCode.INVALID_PARTITIONS}


@pytest.mark.parametrize(
    ("assignments", "code"),
    [
        ([[NODE]], ErrorCode.NONE),
        ([], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ([[NODE], [NODE]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ([[7]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ([[]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_added_partitions_have_one_assignment_each(live: LiveCatalog, assignments: list[list[int]], code: ErrorCode) -> None:
    live.create(NewTopic("t", 1))
    assert grow(live, MorePartitions("t", 2, assignments)) == {"t": code}


def test_partitions_of_unknown_repeated_and_internal_topics_are_refused(live: LiveCatalog) -> None:
    live.create(NewTopic("t", 1), NewTopic("__consumer_offsets", 1))
    increases = [MorePartitions("no", 2), MorePartitions("t", 2), MorePartitions("t", 3), MorePartitions("__consumer_offsets", 2)]
    assert grow(live, *increases) == {
        "no": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        "t": ErrorCode.INVALID_REQUEST,
        "__consumer_offsets": ErrorCode.INVALID_TOPIC_EXCEPTION,
    }


def test_more_than_ten_thousand_new_partitions_refuse_the_request(live: LiveCatalog) -> None:
    live.create(NewTopic("a", 1), NewTopic("b", 1))
    assert grow(live, MorePartitions("a", 5_001), MorePartitions("b", 5_001)) == {"a": ErrorCode.NONE, "b": ErrorCode.NONE}
    for increases in ([("a", 15_001), ("b", 5_002)], [("nowhere", 2), ("a", 2**31 - 1), ("b", 5_002)]):
        with pytest.raises(Rejected) as error:
            grow(live, *(MorePartitions(*increase) for increase in increases))
        assert error.value.code is ErrorCode.POLICY_VIOLATION


def test_a_topic_with_ten_thousand_records_is_the_largest(live: LiveCatalog) -> None:
    assert codes(live, NewTopic("a", 9_998, configs=[("flush.ms", "1")])) == [ErrorCode.NONE]
    with pytest.raises(Rejected) as error:
        live.create(NewTopic("b", 9_999, configs=[("flush.ms", "1")]))
    assert error.value.code is ErrorCode.POLICY_VIOLATION


def test_partitions_of_topics_that_are_rejected_by_name_do_not_count(live: LiveCatalog) -> None:
    topics = [NewTopic("a", 10_001), NewTopic("a"), NewTopic("__cluster_metadata", 10_001), NewTopic("b")]
    assert codes(live, *topics) == [ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_REQUEST, ErrorCode.NONE]
