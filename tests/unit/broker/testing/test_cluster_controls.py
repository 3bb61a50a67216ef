from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest

from ottla.broker.core.rejected import Rejected
from ottla.broker.testing.cluster import InProcessCluster
from ottla.protocol.error_codes import ErrorCode
from tests.support.cluster_produce import produce_to


@pytest.fixture(scope="module")
def cluster() -> Iterator[InProcessCluster]:
    with InProcessCluster() as running:
        yield running


def test_created_topic_has_its_replicas_and_configs_and_is_known_to_every_broker(cluster: InProcessCluster) -> None:
    assert cluster.topics.create("two", 3, {"min.insync.replicas": "2"}, replicas=2) == "two"
    assert [len(each.replicas) for each in cluster.partitions_of("two").values()] == [2, 2, 2]
    assert "two" in cluster.topics.names()
    assert all(broker.call(lambda node: node.services.topics.topic("two") is not None) for broker in cluster.brokers.values())


def test_topic_configs_are_changed_or_rejected(cluster: InProcessCluster) -> None:
    cluster.topics.create("set")
    cluster.topics.configure("set", {"max.message.bytes": "10"})
    leader = cluster.brokers[cluster.leader_of("set")]
    cluster.wait_until(lambda: produce_to(leader, b"a", "set").error_code == ErrorCode.MESSAGE_TOO_LARGE, "the setting is in force")
    with pytest.raises(Rejected):
        cluster.topics.configure("set", {"max.message.bytes": "none"})


def test_controllers_rejection_is_raised(cluster: InProcessCluster) -> None:
    cluster.topics.create("once")
    with pytest.raises(Rejected) as refused:
        cluster.topics.create("once")
    assert refused.value.code == ErrorCode.TOPIC_ALREADY_EXISTS
    with pytest.raises(RuntimeError, match="use the cluster"):
        cluster.brokers[1].topics.create("mine")


def test_leader_is_moved_only_to_an_in_sync_replica(cluster: InProcessCluster) -> None:
    cluster.topics.create("moved", 2)
    for number in (3, 1, 1, 2):
        cluster.move_leader("moved", 1, number)
        assert cluster.leader_of("moved", 1) == number
    assert cluster.registration("moved", 1).replicas[0] == 2
    cluster.topics.create("one", replicas=1)
    stranger = next(number for number in cluster.brokers if number != cluster.leader_of("one"))
    with pytest.raises(Rejected) as refused:
        cluster.move_leader("one", 0, stranger)
    assert refused.value.code == ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE


def test_advancing_the_clock_an_hour_keeps_leaders_and_synchronises_all_clocks(cluster: InProcessCluster) -> None:
    cluster.topics.create("clock")
    leader, epoch = cluster.leader_of("clock"), cluster.registration("clock", 0).leader_epoch
    before = cluster.clock.now_ms()
    cluster.clock.advance(timedelta(hours=1))
    assert cluster.clock.now_ms() - before >= 3_600_000
    for broker in cluster.brokers.values():
        assert abs(broker.clock.now_ms() - cluster.clock.now_ms()) < 1_000
    cluster.wait_in_sync("clock")
    assert (cluster.leader_of("clock"), cluster.registration("clock", 0).leader_epoch) == (leader, epoch)
    assert produce_to(cluster.brokers[leader], b"a", "clock").error_code == ErrorCode.NONE
