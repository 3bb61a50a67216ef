"""The same requests to Apache Kafka and to this broker: no field differs but where docs/deviations.md says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from client_compat.differential.known import KNOWN
from client_compat.differential.logins import differential_of_logins
from client_compat.differential.run import Report, differential
from tests.support.apache_kafka import jars_or_skip


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    jars_or_skip()
    return differential(Path(tmp_path_factory.mktemp("differential")))


def test_no_field_of_an_answer_differs_without_an_explanation(report: Report) -> None:
    assert report.answers > 2_000
    assert report.unexplained == []


def test_every_row_of_what_is_meant_still_explains_a_difference(report: Report) -> None:
    assert report.explained_nothing(KNOWN) == []


def test_log_ins_in_and_out_of_turn_are_answered_alike(tmp_path: Path) -> None:
    jars_or_skip()
    report = differential_of_logins(tmp_path, stories=300)
    assert report.answers > 700
    assert report.differences == []
