"""The same requests to Apache Kafka and to Ottla: each field of each response is equal, except as docs/deviations.md says."""

from __future__ import annotations

from pathlib import Path

import pytest

from client_compat.differential.known import KNOWN
from client_compat.differential.logins import differential_of_logins
from client_compat.differential.run import Report, differential
from client_compat.support.kerberos import PRINCIPALS
from tests.support.apache_kafka import jars_or_skip
from tests.support.kerberos import realm_or_skip, why_missing


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    jars_or_skip()
    return differential(Path(tmp_path_factory.mktemp("differential")))


def test_every_difference_from_kafkas_responses_is_explained(report: Report) -> None:
    assert report.answers > 2_000
    assert report.unexplained == []


def test_every_listed_deviation_still_explains_a_difference(report: Report) -> None:
    assert report.explained_nothing(KNOWN) == []


@pytest.fixture(scope="module")
def of_logins(tmp_path_factory: pytest.TempPathFactory) -> Report:
    jars_or_skip()
    directory = tmp_path_factory.mktemp("logins")
    if why_missing() is not None:
        return differential_of_logins(directory, log_ins=300)
    with realm_or_skip(directory / "realm", PRINCIPALS) as realm:
        return differential_of_logins(directory, log_ins=300, realm=realm)


def test_authentication_in_and_out_of_order_is_answered_like_kafka(of_logins: Report) -> None:
    assert of_logins.answers > 700
    assert [each for each in of_logins.differences if each.scenario != "tickets"] == []


def test_valid_and_invalid_kerberos_tickets_are_answered_like_kafka(of_logins: Report) -> None:
    if (missing := why_missing()) is not None:
        pytest.skip(missing)
    assert "tickets" in of_logins.scenarios
    assert [each for each in of_logins.differences if each.scenario == "tickets"] == []
