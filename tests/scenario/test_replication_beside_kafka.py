"""Known failures of replication with real processes: a broker of Apache Kafka and two of Ottla, under Kafka's controller and real load.

Every partition has a replica on each broker, and each broker leads one. All tests share the cluster; each has its own topic and leaves
every broker running and in sync.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random

import pytest

from client_compat.cluster_mixed import replicas
from client_compat.cluster_mixed.faults import cut_off
from client_compat.kafka.cluster import Cluster, Node, kinds_of, running
from client_compat.support import raised_epochs
from client_compat.support.load import Load, under
from client_compat.support.verdict import judge
from tests.support.apache_kafka import jars_or_skip
from tests.support.group_calls import wait_until

CLIENTS = ("confluent-kafka",)
PARTITIONS = 3
RATE_MAX = 200
TIMEOUT_S = 120.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    jars_or_skip()
    with running(Cluster(tmp_path_factory.mktemp("mixed"), kinds_of("kafka,ottla,ottla"))) as made:
        yield made


@contextmanager
def loaded(cluster: Cluster, topic: str) -> Iterator[Callable[[], None]]:
    """Run an idempotent producer with acks=all; yield a function that waits for its next acknowledgement. At the end, wait until it has
    finished."""
    cluster.create_topic(topic, PARTITIONS)
    load = Load(cluster.bootstrap, topic, cluster.directory / topic, RATE_MAX, CLIENTS)
    load.directory.mkdir()
    with under(load) as acks:

        def served() -> None:
            acks.check()
            before = acks.answered[0]
            wait_until(lambda: acks.answered[0] > before + RATE_MAX // 10, "the producer is served", TIMEOUT_S)

        served()
        yield served
        acks.finish(TIMEOUT_S)


def nothing_is_lost(cluster: Cluster, topic: str) -> None:
    """Check that every acknowledged record is in the log once and in order, and that all replicas are equal."""
    cluster.settle()
    found = judge(Load(cluster.bootstrap, topic, cluster.directory / topic, RATE_MAX, CLIENTS), PARTITIONS)
    directories = [broker.directory for broker in cluster.brokers]
    last = [f"{topic}-{index}" for index in range(PARTITIONS)]

    def committed() -> bool:
        marks = [replicas.high_watermarks(directory) for directory in directories]
        return sum(mark.get(name, 0) for mark in marks for name in last) == len(directories) * found.in_log

    wait_until(committed, "every checkpoint has every high watermark", TIMEOUT_S)
    compared = replicas.compare(directories)
    assert compared.good, compared
    raised_epochs.excuse(found, directories[0], topic)
    assert found.good, found


def leaders(cluster: Cluster, node: Node, topic: str) -> set[int]:
    """Return the leaders of the topic's partitions, according to the broker `node`."""
    return {one.leader_id for each in cluster.seen_by(node).topics if each.name == topic for one in each.partitions}


def test_acknowledged_records_survive_a_rolling_restart_and_preferred_leaders_return(cluster: Cluster) -> None:
    """Scenario 38: all brokers are restarted one after the other under load."""
    with loaded(cluster, "rolling") as served:
        for broker in cluster.brokers:
            broker.stop()
            served()
            broker.start()
            cluster.settle()
    nothing_is_lost(cluster, "rolling")


def test_tail_that_only_a_leader_had_is_truncated_and_acknowledged_records_are_kept(cluster: Cluster) -> None:
    """KIP-101, scenarios 1 and 2: each broker in turn appends records that its followers do not get, is killed, and restarts."""
    with loaded(cluster, "tails") as served:
        for broker in cluster.brokers:
            cut_off(cluster, broker, Random(broker.node_id))
            cluster.settle()
            served()
    nothing_is_lost(cluster, "tails")


def test_broker_paused_longer_than_its_session_resumes_fenced_and_rejoins(cluster: Cluster) -> None:
    """KIP-841, scenarios 18 and 31: others lead its partitions, and its fetches do not bring it back into the ISR while it is fenced."""
    with loaded(cluster, "asleep") as served:
        for broker in cluster.brokers:
            other = cluster.brokers[broker.node_id % len(cluster.brokers)]
            broker.process.pause()
            wait_until(lambda: broker.node_id not in {one.node_id for one in cluster.seen_by(other).brokers}, "it is fenced", TIMEOUT_S)  # noqa: B023 # called at once
            served()
            broker.process.resume()
            cluster.settle()
    nothing_is_lost(cluster, "asleep")


@pytest.mark.parametrize("node", [1, 3], ids=["kafka", "ottla"])
def test_broker_restarted_with_an_empty_disk_is_in_sync_only_with_every_record_and_leads_again(cluster: Cluster, node: int) -> None:
    """KIP-903 and KIP-858, scenario 19: its directory also has a new id."""
    topic, broker = f"empty-{node}", cluster.broker(node)
    with loaded(cluster, topic) as served:
        broker.process.kill()
        shutil.rmtree(broker.directory)
        broker.format()
        broker.start()
        cluster.settle()
        served()
    nothing_is_lost(cluster, topic)


def test_broker_stopped_cleanly_before_the_last_replica_was_killed_may_lead_and_lacks_nothing(cluster: Cluster) -> None:
    """KIP-966, scenario 34: one is stopped, then another, and the last one is killed; the second is the first to restart."""
    with loaded(cluster, "standing"):
        pass
    first, second, last = cluster.brokers
    first.stop()
    second.stop()
    last.process.kill()
    second.start()
    wait_until(lambda: leaders(cluster, second, "standing") == {second.node_id}, "it leads", TIMEOUT_S)
    for broker in (first, last):
        broker.start()
    nothing_is_lost(cluster, "standing")
