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


def test_a_partition_is_found_by_name_and_by_topic_id_as_the_same_object(harness: PartitionHarness) -> None:
    by_id = harness.partitions.by_topic_id(TOPIC_ID)
    assert by_id is not None
    assert by_id is harness.partitions.by_name("t")
    assert by_id.get(2) is harness.partitions.get("t", 2)
    assert len(harness.partitions) == len(list(harness.partitions)) == 3


@pytest.mark.parametrize(("topic", "index"), [("t", 3), ("t", -1), ("other", 0)])
def test_what_is_not_here_is_unknown(harness: PartitionHarness, topic: str, index: int) -> None:
    with pytest.raises(Rejected) as caught:
        harness.partitions.get(topic, index)
    assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_partition_that_the_disk_refuses_is_answered_a_storage_error(harness: PartitionHarness) -> None:
    harness.partitions.add_offline("t", TOPIC_ID, 3)
    topic = harness.partitions.by_name("t")
    assert topic is not None
    assert (len(topic.offline), len(topic.partitions)) == (1, 3)
    with pytest.raises(Rejected) as caught:
        harness.partitions.get("t", 3)
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR


def test_a_topic_without_partitions_here_is_found_neither_by_name_nor_by_id(harness: PartitionHarness) -> None:
    removed = [harness.partitions.remove("t", index) for index in range(3)]
    assert [partition.removed for partition in removed if partition is not None] == [True] * 3
    assert harness.partitions.by_name("t") is harness.partitions.by_topic_id(TOPIC_ID) is None
    assert harness.partitions.remove("t", 0) is None


def test_what_was_appended_counts_on_when_its_partition_goes_and_in_all_when_its_topic_does(harness: PartitionHarness) -> None:
    batch = one_batch(b"a", b"b")
    for index in range(3):
        harness.partitions.get("t", index).append(batch)
    all_of_it = Appended(6, 3 * len(batch))
    for index in 0, 1:
        harness.partitions.remove("t", index)
        assert harness.partitions.appended() == ({"t": all_of_it}, all_of_it)
    harness.partitions.remove("t", 2)
    assert harness.partitions.appended() == ({}, all_of_it)


def test_a_removed_partition_leaves_the_others_of_its_topic(harness: PartitionHarness) -> None:
    harness.partitions.add_offline("t", TOPIC_ID, 3)
    for index in (0, 3):
        harness.partitions.remove("t", index)
        with pytest.raises(Rejected) as caught:
            harness.partitions.get("t", index)
        assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert [partition.index for partition in harness.partitions] == [1, 2]


@pytest.mark.parametrize("topic", ["t", "other", TOPIC_ID, bytes(16)])
def test_who_asks_for_a_partition_that_only_others_have_is_sent_on(tmp_path: Path, topic: str | bytes) -> None:
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
