"""The same requests to Apache Kafka directly and through a gateway: responses differ only in addresses."""

from __future__ import annotations

from pathlib import Path

from client_compat.differential.through_gateway import (
    differential_of_access_through_gateway,
    differential_of_clusters_through_gateway,
    differential_of_logins_through_gateway,
    differential_through_gateway,
)
from tests.support.apache_kafka import jars_or_skip

BRIEF = ("describe.", "fetch.", "groups.", "offsets.", "produce.", "telemetry.", "transactions.")
"""`make differential ARGS=--through-gateway` runs all scenarios."""
OF_CLUSTERS = ("cluster.coordinators", "cluster.describe", "cluster.reading", "cluster.writing")


def test_a_gateway_changes_nothing_in_the_responses_of_a_node(tmp_path: Path) -> None:
    jars_or_skip()
    report = differential_through_gateway(tmp_path, BRIEF)
    assert report.answers > 2_000
    assert report.unexplained == []


def test_a_gateway_changes_only_addresses_in_the_responses_of_three_brokers(tmp_path: Path) -> None:
    jars_or_skip()
    report = differential_of_clusters_through_gateway(tmp_path, OF_CLUSTERS)
    assert report.answers > 500
    assert report.unexplained == []


def test_authentication_through_a_gateway_is_answered_as_without_it(tmp_path: Path) -> None:
    jars_or_skip()
    report = differential_of_logins_through_gateway(tmp_path, log_ins=150)
    assert report.answers > 300
    assert report.unexplained == []


def test_acls_apply_to_the_user_that_authenticates_through_the_gateway(tmp_path: Path) -> None:
    jars_or_skip()
    report = differential_of_access_through_gateway(tmp_path, 300)
    assert report.denials > 50
    assert report.unexplained == []
