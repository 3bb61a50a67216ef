from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.broker.core.clock import VirtualClock
from ottla.broker.core.rejected import Rejected
from ottla.broker.replication.brokers import Brokers
from ottla.broker.runtime.replicas.partition import Membership, Partition
from ottla.broker.runtime.replicas.partitions import Appended
from ottla.protocol.error_codes import ErrorCode
from tests.support.partition_logs import TOPIC_ID, PartitionScene, one_batch


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[PartitionScene]:
    opened = PartitionScene(tmp_path / "data", VirtualClock(), partitions=3)
    yield opened
    opened.close()


def test_a_partition_is_found_by_name_and_by_topic_id_as_the_same_object(scene: PartitionScene) -> None:
    by_id = scene.partitions.by_topic_id(TOPIC_ID)
    assert by_id is not None
    assert by_id is scene.partitions.by_name("t")
    assert by_id.get(2) is scene.partitions.get("t", 2)
    assert len(scene.partitions) == len(list(scene.partitions)) == 3


@pytest.mark.parametrize(("topic", "index"), [("t", 3), ("t", -1), ("other", 0)])
def test_what_is_not_here_is_unknown(scene: PartitionScene, topic: str, index: int) -> None:
    with pytest.raises(Rejected) as caught:
        scene.partitions.get(topic, index)
    assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_partition_that_the_disk_refuses_is_answered_a_storage_error(scene: PartitionScene) -> None:
    scene.partitions.add_offline("t", TOPIC_ID, 3)
    topic = scene.partitions.by_name("t")
    assert topic is not None
    assert (len(topic.offline), len(topic.partitions)) == (1, 3)
    with pytest.raises(Rejected) as caught:
        scene.partitions.get("t", 3)
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR


def test_a_topic_without_partitions_here_is_found_neither_by_name_nor_by_id(scene: PartitionScene) -> None:
    removed = [scene.partitions.remove("t", index) for index in range(3)]
    assert [partition.removed for partition in removed if partition is not None] == [True] * 3
    assert scene.partitions.by_name("t") is scene.partitions.by_topic_id(TOPIC_ID) is None
    assert scene.partitions.remove("t", 0) is None


def test_what_was_appended_counts_on_when_its_partition_goes_and_in_all_when_its_topic_does(scene: PartitionScene) -> None:
    batch = one_batch(b"a", b"b")
    for index in range(3):
        scene.partitions.get("t", index).append(batch)
    all_of_it = Appended(6, 3 * len(batch))
    for index in 0, 1:
        scene.partitions.remove("t", index)
        assert scene.partitions.appended() == ({"t": all_of_it}, all_of_it)
    scene.partitions.remove("t", 2)
    assert scene.partitions.appended() == ({}, all_of_it)


def test_a_removed_partition_leaves_the_others_of_its_topic(scene: PartitionScene) -> None:
    scene.partitions.add_offline("t", TOPIC_ID, 3)
    for index in (0, 3):
        scene.partitions.remove("t", index)
        with pytest.raises(Rejected) as caught:
            scene.partitions.get("t", index)
        assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert [partition.index for partition in scene.partitions] == [1, 2]


@pytest.mark.parametrize("topic", ["t", "other", TOPIC_ID, bytes(16)])
def test_who_asks_for_a_partition_that_only_others_have_is_sent_on(tmp_path: Path, topic: str | bytes) -> None:
    def nothing(_: Partition) -> None: ...

    three = Membership(Brokers(), nothing, lambda _, index: index is None or index < 3)
    scene = PartitionScene(tmp_path / "data", VirtualClock(), membership=three)
    with pytest.raises(Rejected) as caught:
        scene.partitions.get(topic, 2)
    assert caught.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    with pytest.raises(Rejected) as caught:
        scene.partitions.get(topic, 3)
    assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "the topic is known, by its id too"
    scene.close()
