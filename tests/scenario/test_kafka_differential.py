"""The same requests to Apache Kafka and to this broker: no field differs but where docs/deviations.md says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from client_compat.differential.run import Report, differential
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


def test_every_meant_difference_is_still_there(report: Report) -> None:
    from client_compat.differential.known import KNOWN

    seen = {found.known for found in report.differences}
    assert sorted({row.why for row in KNOWN} - seen) == []
