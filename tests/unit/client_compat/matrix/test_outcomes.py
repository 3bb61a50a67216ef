from __future__ import annotations

from client_compat.matrix.brokers import GATEWAY, KAFKA, OURS, TANSU
from client_compat.matrix.outcomes import Cell, KnownFailure, Outcome, client_failures, differing_reports, failures, known, unneeded


def cell(broker: str, outcome: Outcome, client: str = "c", scenario: str = "area/s", found: str = "") -> Cell:
    return Cell(client, scenario, broker, outcome, "why", found=found)


def test_cell_that_fails_on_ottla_and_passes_on_kafka_fails_the_run() -> None:
    ours = cell(OURS, Outcome.FAIL)
    assert failures([ours, cell(KAFKA, Outcome.PASS)], ()) == [ours]


def test_cell_that_fails_on_ottla_without_a_kafka_result_fails_the_run() -> None:
    ours = cell(OURS, Outcome.FAIL)
    assert failures([ours], ()) == [ours]
    assert failures([ours, cell(KAFKA, Outcome.SKIPPED)], ()) == [ours]


def test_cell_that_differs_through_the_gateway_fails_the_run_unless_known_of_either_side() -> None:
    through, theirs = cell(GATEWAY, Outcome.FAIL), cell(KAFKA, Outcome.PASS)
    with_another_report = cell(GATEWAY, Outcome.PASS, found="other words")
    assert failures([through, theirs], ()) == [through]
    assert failures([with_another_report, theirs], ()) == [with_another_report]
    for side in (OURS, KAFKA):
        assert failures([through, theirs], (KnownFailure("c", "area/s", "it is so", broker=side),)) == []


def test_cell_that_fails_on_an_imitated_older_release_fails_the_run_and_other_texts_do_not() -> None:
    older, theirs = cell("ottla-3.3", Outcome.FAIL), cell(KAFKA, Outcome.PASS, found="words")
    assert failures([older, theirs], ()) == [older]
    assert failures([cell("ottla-3.3", Outcome.PASS, found="words of 3.3"), theirs], ()) == []


def test_cell_that_also_fails_on_kafka_is_the_clients_failure() -> None:
    theirs = cell(KAFKA, Outcome.FAIL)
    assert failures([cell(OURS, Outcome.FAIL), theirs], ()) == []
    assert client_failures([cell(OURS, Outcome.FAIL), theirs]) == [theirs]


def test_failure_on_a_third_broker_does_not_fail_the_run() -> None:
    assert failures([cell(OURS, Outcome.PASS), cell(TANSU, Outcome.FAIL), cell(KAFKA, Outcome.PASS)], ()) == []


def test_known_failure_matches_whole_patterns_of_client_and_scenario() -> None:
    table = (KnownFailure("c|d", "area/.*", "it is so"),)
    other = cell(OURS, Outcome.FAIL, client="cc")
    assert failures([cell(OURS, Outcome.FAIL), other], table) == [other]


def test_known_failure_of_kafka_alone_excuses_no_failure_on_ottla() -> None:
    table = (KnownFailure("c", "area/s", "it is slow", broker=KAFKA),)
    ours = cell(OURS, Outcome.FAIL)
    assert failures([ours], table) == [ours]
    assert known(cell(KAFKA, Outcome.FAIL), table) == table[0]


def test_known_failure_that_passes_now_is_reported() -> None:
    table = (KnownFailure("c", "area/.*", "it is so"), KnownFailure("other", ".*", "not run"))
    assert unneeded([cell(OURS, Outcome.PASS)], table) == [table[0]]
    assert unneeded([cell(OURS, Outcome.PASS), cell(OURS, Outcome.FAIL, scenario="area/t")], table) == []
    assert unneeded([cell(OURS, Outcome.PASS), cell(KAFKA, Outcome.FAIL)], table) == []


def test_client_with_another_text_on_ottla_than_on_kafka_fails_the_run() -> None:
    ours, theirs = cell(OURS, Outcome.PASS, found="a wrong password"), cell(KAFKA, Outcome.PASS, found="no such user")
    assert differing_reports([ours, theirs]) == [(ours, theirs)]
    assert failures([ours, theirs], ()) == [ours]
    table = (KnownFailure("c", "area/s", "it is so"),)
    assert failures([ours, theirs], table) == []
    assert unneeded([ours, theirs], table) == []
    same = cell(KAFKA, Outcome.PASS, found="a wrong password")
    assert (failures([ours, same], ()), unneeded([ours, same], table)) == ([], list(table))
    assert differing_reports([ours, cell(KAFKA, Outcome.FAIL, found="half the way")]) == []
