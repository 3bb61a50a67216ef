"""The same requests to three brokers of Apache Kafka and to three of this project, each under a controller of Apache Kafka: no field of an
answer differs but where docs/deviations.md says so, with all brokers there, with one stopped, with one killed, and when it is back."""

from __future__ import annotations

from pathlib import Path

import pytest

from client_compat.differential.clusters import differential_of_clusters
from client_compat.differential.known import KNOWN_OF_CLUSTERS, KnownDifference
from client_compat.differential.probe import Seen
from client_compat.differential.run import Difference, Report
from client_compat.kafka.jars import KafkaMissing, jars

pytestmark = pytest.mark.clusters


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    try:
        jars()
    except KafkaMissing as missing:
        pytest.skip(str(missing))
    return differential_of_clusters(Path(tmp_path_factory.mktemp("clusters")))


def test_no_field_of_an_answer_of_a_cluster_differs_without_an_explanation(report: Report) -> None:
    assert report.answers > 8_000
    assert report.unexplained == []


def test_every_row_of_what_is_meant_of_clusters_still_explains_a_difference(report: Report) -> None:
    def explains(row: KnownDifference, found: Difference) -> bool:
        return row.explains(Seen(found.label, found.api, found.version, None), found.path, found.kafka, found.ours)

    assert [row for row in KNOWN_OF_CLUSTERS if not any(explains(row, found) for found in report.differences)] == []
