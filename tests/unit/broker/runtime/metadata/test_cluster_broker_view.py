"""The cluster's metadata as a broker describes it to clients; responses over a socket: `tests/wire/test_in_a_cluster.py`."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.broker.cluster.image import LOST, MIGRATING, UNASSIGNED
from ottla.broker.cluster.image_changes import difference
from ottla.broker.cluster.metadata_records import MetadataRecord, PartitionRecord, RegisterBrokerRecord, TopicRecord
from ottla.broker.cluster.topic_ids import ZERO_ID
from ottla.broker.groups.topics_view import TopicInfo
from ottla.broker.runtime.metadata.cluster_broker_view import NO_CONTROLLER, ClusterBrokerView
from ottla.broker.runtime.metadata.cluster_view import ClientListener
from tests.support.cluster_broker_dirs import ClusterBrokerDir, broker, partition
from tests.support.metadata_images import made_of

ID = b"i" * 16
AT = ClientListener("PLAINTEXT", "me", 1)
HERE, THERE = b"h" * 16, b"t" * 16


@pytest.fixture
def view(tmp_path: Path) -> ClusterBrokerView:
    member = ClusterBrokerDir(tmp_path)
    member.close()
    return ClusterBrokerView(member.catalog, member.partitions, 1, choose=min)


def with_metadata(view: ClusterBrokerView, *records: MetadataRecord) -> ClusterBrokerView:
    image = made_of(*records)
    view.catalog.publish(image, difference(view.catalog.image, image))
    return view


def test_the_controller_id_is_an_alive_broker_or_none(view: ClusterBrokerView) -> None:
    assert with_metadata(view, broker(1, fenced=True), broker(2), broker(3)).controller_id == 2
    assert with_metadata(view, broker(1, fenced=True)).controller_id == NO_CONTROLLER


def test_a_broker_has_its_endpoint_of_the_clients_listener(view: ClusterBrokerView) -> None:
    with_metadata(view, broker(1, listeners={"PLAINTEXT": ("a", 1), "INTERNAL": ("b", 2)}))
    assert [view.brokers(ClientListener(name, "me", 1))[0][1:3] for name in ("PLAINTEXT", "INTERNAL")] == [("a", 1), ("b", 2)]
    assert view.brokers(ClientListener("OTHER", "me", 1)) == []
    assert view.alive_broker(1, ClientListener("OTHER", "me", 1)) is None


@pytest.mark.parametrize(
    ("directory", "registered", "offline"),
    [
        (HERE, [HERE], ()),
        (THERE, [HERE], (2,)),
        (LOST, [HERE], (2,)),
        (LOST, [], (2,)),
        (UNASSIGNED, [HERE], ()),
        (MIGRATING, [HERE], ()),
        (THERE, [], ()),
    ],
)
def test_a_replica_in_an_offline_directory_is_offline(
    view: ClusterBrokerView, directory: bytes, registered: list[bytes], offline: tuple[int, ...]
) -> None:
    other: RegisterBrokerRecord = broker(2)
    other.log_dirs = registered
    placed = PartitionRecord(0, ID, [1, 2], [1, 2], leader=1, leader_epoch=0, partition_epoch=0, directories=[ZERO_ID, directory])
    topic = with_metadata(view, broker(1), other, TopicRecord("t", ID), placed).catalog.topic("t")
    assert topic is not None
    assert view.partition(topic, 0, AT).offline == offline


def test_groups_see_the_racks_of_each_partitions_replicas(view: ClusterBrokerView) -> None:
    brokers = [broker(node) for node in (1, 2, 3)]
    brokers[0].rack, brokers[1].rack = "b", "a"
    with_metadata(view, *brokers, TopicRecord("t", ID), partition(ID, 0, [1, 2]), partition(ID, 1, [3, 4]))
    assert view.by_name("t") == TopicInfo("t", ID, 2, (("a", "b"), ()))
