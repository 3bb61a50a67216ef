"""The benchmark's report: ratios come from paired runs, values are medians of runs, blanks have reasons, and missed targets are named."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from client_compat.bench import report
from client_compat.bench.model import OURS, REFERENCE, Ability, Benchmark, Figure, Peer, Results, Site, Values
from client_compat.support.brokers import BrokerProcess

RATE = Figure("rate", "a second", more_is_better=True, target=1.0, digits=0)
DELAY = Figure("delay", "ms", target=0.5, needs=frozenset({Ability.RETENTION}))


def never_made(_directory: Path) -> BrokerProcess:
    raise AssertionError("no broker is started here")


def never_measured(_site: Site) -> Values:
    raise AssertionError("nothing is measured here")


CASE = Benchmark("some case", "Some section", (RATE, DELAY), never_measured)
PEERS = [
    Peer(OURS, "Ottla", never_made),
    Peer(REFERENCE, "Apache Kafka", never_made),
    Peer("mock", "a mock", never_made, {Ability.RETENTION: "forgets"}),
]


def results(ours: list[float], theirs: list[float], figure: Figure = RATE) -> Results:
    found = Results(len(ours), [OURS, REFERENCE, "mock"])
    for name, values in ((OURS, ours), (REFERENCE, theirs)):
        for value in values:
            found.add(CASE, name, {figure.name: value})
    return found


def test_a_ratio_is_of_the_two_brokers_in_one_run() -> None:
    assert results([100, 300], [200, 100]).ratios(CASE, RATE, REFERENCE) == [0.5, 3.0]


def test_failed_run_has_no_ratio_and_shifts_no_other() -> None:
    found = Results(2, [OURS, REFERENCE])
    found.add(CASE, OURS, {"rate": 10})
    found.add(CASE, OURS, {"rate": 40})
    found.fail(CASE, REFERENCE, "refused")
    found.add(CASE, REFERENCE, {"rate": 20})
    assert found.ratios(CASE, RATE, REFERENCE) == [2.0]
    assert any("failed in 1 of 2 runs: refused" in line for line in report.blanks(found, [CASE], PEERS))


def test_peer_that_does_not_start_is_a_dash_and_one_line_of_reason() -> None:
    found = Results(2, [OURS, REFERENCE])
    for _ in range(2):
        found.add(CASE, OURS, {"rate": 10})
        found.fail(CASE, REFERENCE, "kafka ended by itself with exit code 2:\n[main] no such listener\nTraceback")
    (row, _) = report.figures_table(found, [CASE], "Some section", PEERS[:2])[1:]
    assert row[2:] == ["10", "–"]
    line = "kafka, some case: failed in 2 of 2 runs: kafka ended by itself with exit code 2"
    assert report.blanks(found, [CASE], PEERS[:2]) == [line]
    with (console := Console(width=200)).capture() as captured:
        console.print(report.screen(found, [CASE], PEERS[:2]))
    assert captured.get().endswith(f"{line}\n")


def test_target_is_a_minimum_for_rates_and_a_maximum_for_delays() -> None:
    assert results([100, 90, 120], [100, 100, 100]).missed([CASE]) == []
    assert [(f.name, ratio) for _, f, ratio in results([90, 90, 200], [100, 100, 100]).missed([CASE])] == [("rate", 0.9)]
    assert results([5], [10], DELAY).missed([CASE]) == []
    assert [f.name for _, f, _ in results([6], [10], DELAY).missed([CASE])] == ["delay"]


def test_unsupported_figure_of_a_peer_is_a_named_blank() -> None:
    found = results([5], [10])
    found.add(CASE, "mock", {"rate": 7})
    rows = report.figures_table(found, [CASE], "Some section", PEERS)
    assert rows[1:] == [["some case: rate", "a second", "5", "10", "7"], ["some case: delay", "ms", "–", "–", "–"]]
    assert "mock forgets" in report.blanks(found, [CASE], PEERS)
    assert CASE.blank(PEERS[2], DELAY) == "forgets"
    assert CASE.blank(PEERS[2], RATE) is None


def test_section_shows_the_measured_brokers_and_ratios_only_beside_another() -> None:
    alone = Results(1, [OURS, REFERENCE, "mock"])
    alone.add(CASE, OURS, {"rate": 10})
    assert [rows[0] for _, rows in report.tables(alone, [CASE], "Some section", PEERS)] == [["", "unit", OURS]]
    alone.fail(CASE, REFERENCE, "refused")
    assert [rows[0][2:] for _, rows in report.tables(alone, [CASE], "Some section", PEERS)] == [[OURS, REFERENCE], ["target", "÷ kafka"]]


def test_the_ratios_table_gives_median_spread_and_target_and_marks_a_miss() -> None:
    rows = report.ratios_table(results([50, 80, 90], [100, 100, 100]), [CASE], "Some section", PEERS)
    assert rows[1] == ["some case: rate", "more", "≥ 1", "0.80 (0.50–0.90) ✗", "–"]


def test_small_value_keeps_a_significant_digit() -> None:
    assert report.number(0.004, 1) == "0.004"
    assert report.number(1234.5, 0) == "1,234"
    assert report.number(0, 1) == "0.0"


def test_json_results_round_trip() -> None:
    found = results([1, 2], [2, 2])
    found.fail(CASE, "mock", "why")
    assert report.from_json(report.as_json(found)) == found
