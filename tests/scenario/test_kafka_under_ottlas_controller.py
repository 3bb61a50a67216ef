"""Apache Kafka's brokers, alone and together with Ottla's, under Ottla's controller."""

from __future__ import annotations

from pathlib import Path

import pytest

from client_compat.cluster_mixed.faults import BASIC_FAULTS, Fault
from client_compat.cluster_mixed.run import run
from client_compat.kafka.cluster import ALL_KAFKA, MIXED, Cluster, Kind, running
from client_compat.support.load import CLIENTS
from tests.support.apache_kafka import jars_or_skip

SEED = 20_130_101


@pytest.fixture(autouse=True)
def _kafka() -> None:
    jars_or_skip()


def test_kafkas_brokers_join_replicate_stop_and_restart_under_ottlas_controller(tmp_path: Path) -> None:
    with running(Cluster(tmp_path / "cluster", ALL_KAFKA, controller_kind=Kind.OTTLA)) as cluster:
        cluster.create_topic("t", 3)
        cluster.broker(1).stop()
        cluster.broker(1).start()
        cluster.settle()
        cluster.quorum[0].process.kill()
        cluster.quorum[0].start()
        cluster.create_topic("after", 3)
        cluster.settle()
        assert [broker.process.alive for broker in cluster.brokers] == [True, True, True]
        cluster.stop()


def test_acknowledged_records_are_on_all_replicas_once_after_every_fault(tmp_path: Path) -> None:
    found = run(Cluster(tmp_path / "cluster", MIXED, controller_kind=Kind.OTTLA), CLIENTS, len(BASIC_FAULTS), BASIC_FAULTS, SEED)
    assert found.good, found


def test_combined_node_is_taken_over_by_kafka_and_back_under_load(tmp_path: Path) -> None:
    """Node 1 is Ottla's, Apache Kafka's, and Ottla's again. Each takes over the cluster's metadata and controls its brokers."""
    cluster = Cluster(tmp_path / "cluster", (Kind.OTTLA, Kind.KAFKA, Kind.OTTLA), combined=True)
    found = run(cluster, CLIENTS, 4, [Fault.TAKEOVER], SEED)
    assert found.faults == {(1, Fault.TAKEOVER): 2, (2, Fault.TAKEOVER): 1, (3, Fault.TAKEOVER): 1}
    assert found.good, found
