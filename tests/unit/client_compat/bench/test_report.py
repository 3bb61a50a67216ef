"""The benchmark's figures: ratios are of pairs, medians are of runs, missed targets are named."""

from __future__ import annotations

import json

from client_compat.bench import report
from client_compat.bench.cases import CASES, Measured
from client_compat.bench.run import OURS, THEIRS, Results, with_producers

CASE = CASES[0]
MIB = 1024 * 1024


def results(ours: list[float], theirs: list[float]) -> Results:
    found = Results(start_seconds={OURS: [0.2, 0.3, 0.25]}, rss_idle={OURS: [40 * MIB]}, rss_loaded={OURS: [60 * MIB]})
    found.measured = {
        (CASE.name, name): [Measured(rate, 2.0) for rate in rates] for name, rates in ((OURS, ours), (THEIRS, theirs)) if rates
    }
    return found


def test_a_ratio_is_of_the_two_brokers_in_one_run() -> None:
    assert results([100, 300], [200, 100]).ratios(CASE) == [0.5, 3.0]


def test_a_missed_target_is_named_and_a_kept_one_is_not() -> None:
    assert report.missed(results([80, 90, 100], [100, 100, 100]), [CASE]) == []
    (line,) = report.missed(results([70, 70, 200], [100, 100, 100]), [CASE])
    assert CASE.name in line


def test_without_the_other_broker_there_is_no_ratio_and_no_target_to_miss() -> None:
    alone = results([100], [])
    assert report.missed(alone, [CASE]) == []
    assert "| 100 | – | – |" in report.markdown(alone, [CASE], 1)


def test_json_holds_every_measurement() -> None:
    document = json.loads(report.as_json(results([1, 2], [2, 2]), [CASE], 2))
    assert [one["rate"] for one in document["cases"][0]["measured"][OURS]] == [1, 2]
    assert document["cases"][0]["ratios"] == [0.5, 1.0]


def test_a_consume_case_alone_brings_the_produce_case_that_fills_its_topic() -> None:
    consume = next(case for case in CASES if case.verb == "consume")
    assert [case.verb for case in with_producers([consume], CASES)] == ["produce", "consume"]
