"""The report has the results of a run, and nothing that differs in the next run of the same versions."""

from __future__ import annotations

import json

from client_compat.matrix.brokers import KAFKA, OURS
from client_compat.matrix.control import Ready
from client_compat.matrix.outcomes import Cell, Outcome, plain
from client_compat.matrix.report import Versions, as_json, differences, json_text, markdown
from client_compat.matrix.scenario import Scenario

SCENARIOS = [Scenario(name, "area", f"The promise of {name}.", lambda context: None) for name in ("one", "two")]
VERSIONS = Versions({"Ottla": "0.1", "Apache Kafka": "9.9"}, {"quick": Ready("quick", "1.0", "go"), "slow": Ready("slow", "2.0", "jvm")})
CELLS = [
    Cell("quick", "area/one", OURS, Outcome.PASS, "", 1.5),
    Cell("slow", "area/one", OURS, Outcome.UNSUPPORTED, "slow has no one"),
    Cell("quick", "area/two", OURS, Outcome.FAIL, "3 records, where 4 were to be in topic-quick-17-4"),
    Cell("slow", "area/two", OURS, Outcome.UNSUPPORTED, "slow has no one"),
    Cell("quick", "area/two", KAFKA, Outcome.PASS),
    Cell("gone", "area/two", OURS, Outcome.SKIPPED, "no cc here"),
]


def test_a_broker_has_a_table_with_a_sign_for_each_cell_and_equal_reasons_share_a_footnote() -> None:
    text = markdown(CELLS, SCENARIOS, VERSIONS)
    assert "| area/one | ✓ | –<sup>1</sup> |" in text
    assert "| area/two | ✗<sup>2</sup> | –<sup>1</sup> |" in text
    assert "1. slow has no one\n2. 3 records, where 4 were to be in …" in text


def test_report_lists_versions_missing_toolchains_and_promises() -> None:
    text = markdown(CELLS, SCENARIOS, VERSIONS)
    assert "against Ottla 0.1 and Apache Kafka 9.9" in text
    assert "| quick | 1.0 | go |" in text
    assert "| gone | not run |" in text
    assert "- **area/two**: The promise of two." in text


def test_a_difference_from_apache_kafka_comes_before_the_tables() -> None:
    assert [(ours.scenario, theirs.outcome) for ours, theirs in differences(CELLS)] == [("area/two", Outcome.PASS)]
    text = markdown(CELLS, SCENARIOS, VERSIONS)
    assert text.index("| quick | area/two | ✗ | ✓ | 3 records") < text.index("## Ottla\n")
    assert "There are no differences" in markdown([CELLS[0], Cell("quick", "area/one", KAFKA, Outcome.PASS)], SCENARIOS, VERSIONS)


def test_reason_is_one_line_without_run_specific_names_ports_and_times() -> None:
    reason = "topic-java-2.8-4711-12 at 127.0.0.1:23456 of 1700000000000 is gone\nit wrote: much"
    assert plain(reason) == "… at … of … is gone"
    assert plain("") == ""
    assert len(plain("x" * 1000)) < 300


def test_reasons_special_characters_are_escaped_in_a_table() -> None:
    text = markdown([Cell("quick", "area/one", OURS, Outcome.FAIL, "a|b <c>")], SCENARIOS, VERSIONS)
    assert "1. a\\|b &lt;c>" in text


def test_the_json_text_has_one_line_for_each_cell() -> None:
    document = as_json(CELLS, SCENARIOS, VERSIONS)
    text = json_text(document)
    assert json.loads(text) == document
    assert sum(line.startswith('{"client":') for line in text.splitlines()) == len(CELLS)


def test_the_json_has_every_cell_and_both_sides_versions() -> None:
    document = as_json(CELLS, SCENARIOS, VERSIONS)
    assert document["brokers"]["Apache Kafka"] == "9.9"
    assert document["clients"]["quick"]["version"] == "1.0"
    assert document["cells"][0] == {
        "client": "quick",
        "scenario": "area/one",
        "broker": OURS,
        "outcome": "pass",
        "reason": "",
        "seconds": 1.5,
        "found": "",
    }
