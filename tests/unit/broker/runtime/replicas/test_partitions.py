from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.broker.core.clock import VirtualClock
from ottla.broker.core.rejected import Rejected
from ottla.broker.replication.brokers import Brokers
from ottla.broker.runtime.replicas.partition import ClusterContext, Partition
from ottla.broker.runtime.replicas.partitions import Appended
from ottla.protocol.error_codes import ErrorCode
from tests.support.partition_logs import TOPIC_ID, PartitionHarness, one_batch


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[PartitionHarness]:
    opened = PartitionHarness(tmp_path / "data", VirtualClock(), partitions=3)
    yield opened
    opened.close()


def test_lookup_by_name_and_topic_id_returns_the_same_object(harness: PartitionHarness) -> None:
    by_id = harness.partitions.by_topic_id(TOPIC_ID)
    assert by_id is not None
    assert by_id is harness.partitions.by_name("t")
    assert by_id.get(2) is harness.partitions.get("t", 2)
    assert len(harness.partitions) == len(list(harness.partitions)) == 3


@pytest.mark.parametrize(("topic", "index"), [("t", 3), ("t", -1), ("other", 0)])
def test_missing_partition_is_unknown_topic_or_partition(harness: PartitionHarness, topic: str, index: int) -> None:
    with pytest.raises(Rejected) as caught:
        harness.partitions.get(topic, index)
    assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_offline_partition_is_a_storage_error(harness: PartitionHarness) -> None:
    harness.partitions.add_offline("t", TOPIC_ID, 3)
    topic = harness.partitions.by_name("t")
    assert topic is not None
    assert (len(topic.offline), len(topic.partitions)) == (1, 3)
    with pytest.raises(Rejected) as caught:
        harness.partitions.get("t", 3)
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR


def test_topic_without_local_partitions_is_not_found_by_name_or_id(harness: PartitionHarness) -> None:
    removed = [harness.partitions.remove("t", index) for index in range(3)]
    assert [partition.removed for partition in removed if partition is not None] == [True] * 3
    assert harness.partitions.by_name("t") is harness.partitions.by_topic_id(TOPIC_ID) is None
    assert harness.partitions.remove("t", 0) is None


def test_append_counters_survive_removed_partitions_and_the_total_survives_the_topic(harness: PartitionHarness) -> None:
    batch = one_batch(b"a", b"b")
    for index in range(3):
        harness.partitions.get("t", index).append(batch)
    all_of_it = Appended(6, 3 * len(batch))
    for index in 0, 1:
        harness.partitions.remove("t", index)
        assert harness.partitions.appended() == ({"t": all_of_it}, all_of_it)
    harness.partitions.remove("t", 2)
    assert harness.partitions.appended() == ({}, all_of_it)


def test_removing_a_partition_keeps_the_topics_others(harness: PartitionHarness) -> None:
    harness.partitions.add_offline("t", TOPIC_ID, 3)
    for index in (0, 3):
        harness.partitions.remove("t", index)
        with pytest.raises(Rejected) as caught:
            harness.partitions.get("t", index)
        assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert [partition.index for partition in harness.partitions] == [1, 2]


@pytest.mark.parametrize("topic", ["t", "other", TOPIC_ID, bytes(16)])
def test_partition_on_other_brokers_only_is_not_leader_or_follower(tmp_path: Path, topic: str | bytes) -> None:
    def nothing(_: Partition) -> None: ...

    three = ClusterContext(Brokers(), nothing, lambda _, index: index is None or index < 3)
    harness = PartitionHarness(tmp_path / "data", VirtualClock(), context=three)
    with pytest.raises(Rejected) as caught:
        harness.partitions.get(topic, 2)
    assert caught.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    with pytest.raises(Rejected) as caught:
        harness.partitions.get(topic, 3)
    assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "the topic is known, by its id too"
    harness.close()
