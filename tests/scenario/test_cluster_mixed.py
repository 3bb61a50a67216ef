"""The short form of `make cluster-mixed`: one fault of every kind on the brokers of a cluster in turn, under load from real clients."""

from __future__ import annotations

from pathlib import Path

import pytest

from client_compat.cluster_mixed.faults import EVERY, Fault
from client_compat.cluster_mixed.run import run
from client_compat.kafka.cluster import Cluster
from client_compat.kafka.jars import KafkaMissing, jars
from client_compat.support.load import CLIENTS

pytestmark = pytest.mark.clusters

SEED = 20_130_101


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    try:
        jars()
    except KafkaMissing as missing:
        pytest.skip(str(missing))
    return Cluster(tmp_path / "cluster")


def test_after_every_fault_what_was_acknowledged_stands_once_whole_and_on_all_replicas(cluster: Cluster) -> None:
    """Scenario 38, on Apache Kafka's brokers: the first round restarts every one of them."""
    found = run(cluster, CLIENTS, len(EVERY), EVERY, SEED)
    assert found.good, found


def test_a_load_that_does_not_wait_for_replicas_is_seen_to_lose_records(cluster: Cluster) -> None:
    found = run(cluster, CLIENTS, 1, [Fault.CUT_OFF], SEED, careless=True)
    assert found.acks.lost > 0
    assert not found.good
