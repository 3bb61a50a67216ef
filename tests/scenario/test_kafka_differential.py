"""The same requests to Apache Kafka and to this broker: no field differs but where docs/deviations.md says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from client_compat.differential.known import KNOWN, KnownDifference
from client_compat.differential.probe import Seen
from client_compat.differential.run import Difference, Report, differential
from client_compat.kafka.jars import KafkaMissing, jars


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    try:
        jars()
    except KafkaMissing as missing:
        pytest.skip(str(missing))
    return differential(Path(tmp_path_factory.mktemp("differential")))


def test_no_field_of_an_answer_differs_without_an_explanation(report: Report) -> None:
    assert report.answers > 2_000
    assert report.unexplained == []


def test_every_row_of_what_is_meant_still_explains_a_difference(report: Report) -> None:
    def explains(row: KnownDifference, found: Difference) -> bool:
        return row.explains(Seen(found.label, found.api, found.version, None), found.path, found.kafka, found.ours)

    assert [row for row in KNOWN if not any(explains(row, found) for found in report.differences)] == []
