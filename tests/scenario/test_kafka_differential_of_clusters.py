"""The same requests to three brokers of Apache Kafka and to three of Ottla, each under Apache Kafka's controller. No field of a response
differs except as docs/deviations.md says: with all brokers up, with one stopped, with one killed, and after its restart."""

from __future__ import annotations

from pathlib import Path

import pytest

from client_compat.differential.clusters import differential_of_clusters
from client_compat.differential.known import KNOWN_OF_CLUSTERS
from client_compat.differential.run import Report
from tests.support.apache_kafka import jars_or_skip


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    jars_or_skip()
    return differential_of_clusters(Path(tmp_path_factory.mktemp("clusters")))


def test_every_difference_from_a_kafka_clusters_responses_is_explained(report: Report) -> None:
    assert report.answers > 8_000
    assert report.unexplained == []


def test_every_listed_deviation_of_clusters_still_explains_a_difference(report: Report) -> None:
    assert report.explained_nothing(KNOWN_OF_CLUSTERS) == []
