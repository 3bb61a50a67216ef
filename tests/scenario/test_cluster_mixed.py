"""The short form of `make cluster-mixed`: one fault of every kind on the brokers of a cluster in turn, under load from real clients."""

from __future__ import annotations

from pathlib import Path

import pytest

from client_compat.cluster_mixed.faults import BASIC_FAULTS, Fault
from client_compat.cluster_mixed.run import run
from client_compat.kafka.cluster import MIXED, Cluster
from client_compat.kafka.inter_node_security import USERS, password_settings
from client_compat.support.load import CLIENTS
from tests.support.apache_kafka import jars_or_skip

SEED = 20_130_101


@pytest.fixture(autouse=True)
def _kafka() -> None:
    jars_or_skip()


def test_acknowledged_records_are_on_all_replicas_once_after_every_fault(tmp_path: Path) -> None:
    """Scenario 38: brokers of Apache Kafka and Ottla, which authenticate to each other, are restarted, killed and paused in turn."""
    cluster = Cluster(tmp_path / "cluster", MIXED, inter_broker_listener=True, users=USERS, settings=password_settings(tmp_path / "tls"))
    found = run(cluster, CLIENTS, len(BASIC_FAULTS), BASIC_FAULTS, SEED)
    assert found.good, found


def test_kafka_and_ottla_brokers_take_over_each_others_directories_under_load_and_back(tmp_path: Path) -> None:
    found = run(Cluster(tmp_path / "cluster", MIXED), CLIENTS, 4, [Fault.TAKEOVER], SEED)
    assert found.good, found


def test_load_without_replication_acks_is_seen_to_lose_records(tmp_path: Path) -> None:
    found = run(Cluster(tmp_path / "cluster"), CLIENTS, 1, [Fault.CUT_OFF], SEED, careless=True)
    assert found.acks.lost > 0
    assert not found.good
