from __future__ import annotations

from collections.abc import Iterator

import pytest

from ottla.broker.testing.cluster import InProcessCluster
from ottla.broker.testing.cluster_verdict import examine
from ottla.broker.testing.verdict import NotExactlyOnce
from tests.support.cluster_produce import produce_to


@pytest.fixture
def cluster() -> Iterator[InProcessCluster]:
    with InProcessCluster(settings={"replica.lag.time.max.ms": 60_000}).record() as running:
        running.topics.create("t")
        yield running


def lose_the_leader(cluster: InProcessCluster) -> int:
    """Kill the leader of t-0; return the next leader."""
    cluster.kill(cluster.leader_of("t"))
    cluster.clock.advance(10)
    return cluster.wait_until_led("t")


def test_retry_at_the_next_leader_is_exactly_once_only_with_a_producer_id(cluster: InProcessCluster) -> None:
    leader = cluster.leader_of("t")
    produce_to(cluster.brokers[leader], b"once", producer_id=1_000)
    produce_to(cluster.brokers[leader], b"twice")
    after = lose_the_leader(cluster)
    assert produce_to(cluster.brokers[after], b"once", producer_id=1_000).base_offset == 0
    cluster.assert_exactly_once(expected=[b"once", b"twice"])
    produce_to(cluster.brokers[after], b"twice")
    cluster.restart(leader)
    cluster.wait_in_sync("t")
    with pytest.raises(NotExactlyOnce) as found:
        cluster.assert_exactly_once()
    assert [anomaly.kind for anomaly in found.value.anomalies] == ["duplicate"]


def test_record_acknowledged_only_by_the_killed_leader_is_reported_lost(cluster: InProcessCluster) -> None:
    leader = cluster.leader_of("t")
    for follower in set(cluster.brokers) - {leader}:
        cluster.partition({follower}, {leader})
    assert produce_to(cluster.brokers[leader], b"gone", acks=1).base_offset == 0
    lose_the_leader(cluster)
    found = examine(cluster, audit=False)
    assert [anomaly.kind for anomaly in found.anomalies] == ["lost-write"]
    with pytest.raises(NotExactlyOnce, match="lost-write"):
        cluster.assert_exactly_once(["t"], by="value")


def test_replica_that_differs_in_committed_records_is_reported(cluster: InProcessCluster) -> None:
    pytest.importorskip("duckdb")
    leader = cluster.leader_of("t")
    produce_to(cluster.brokers[leader], b"aaaa")
    produce_to(cluster.brokers[leader], b"bbbb")
    cluster.wait_in_sync("t")
    follower = next(number for number in cluster.brokers if number != leader)
    cluster.wait_until(
        lambda: cluster.brokers[follower].call(lambda node: node.services.partitions.get("t", 0).log.high_watermark) == 2, "it is told"
    )
    cluster.assert_exactly_once()
    segment = cluster.brokers[follower].data_dir / "t-0" / f"{0:020}.log"
    segment.write_bytes(segment.read_bytes().replace(b"aaaa", b"cccc"))
    with pytest.raises(NotExactlyOnce, match=f"broker{follower}"):
        cluster.assert_exactly_once()


def test_verdict_without_recording_raises() -> None:
    with InProcessCluster(1) as cluster, pytest.raises(RuntimeError, match=r"record\(\)"):
        cluster.assert_exactly_once()
