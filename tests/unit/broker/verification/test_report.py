from __future__ import annotations

from pathlib import Path

from junitparser import JUnitXml

from ottla.broker.verification.judge import Breach, Guarantee, Result, ScenarioOutcome
from ottla.broker.verification.report import COLUMNS, as_json, explanations, rows, summary, write_junit
from ottla.broker.verification.stage import Ending

ONCE = Breach(Guarantee.ONCE, "1 duplicate", "record-1 is there twice\n  at t-0@1")
LOST = Breach(Guarantee.COMPLETE, "1 acknowledged record was lost", by_setting=True)
RESULTS = [
    Result("calm", "nothing", ScenarioOutcome.HELD, ending=Ending(fault_occurred=True, seconds=1.25)),
    Result("lost-ack", "acks are lost", ScenarioOutcome.BROKEN, "kept in /x", [ONCE], Ending(restarts=2, seconds=2)),
    Result("delayed-end-txn", "late", ScenarioOutcome.EXPOSED, "old protocol", [ONCE]),
    Result("unclean-election", "elected", ScenarioOutcome.LOST_BY_SETTING, "set another", [LOST]),
    Result("late-ack", "late", ScenarioOutcome.NOT_MET),
    Result("rebalance", "joins", ScenarioOutcome.DOES_NOT_APPLY, "no group"),
]


def test_report_row_shows_each_guarantee() -> None:
    table = [dict(zip(COLUMNS, row, strict=True)) for row in rows(RESULTS)]
    assert [row["once"] for row in table] == ["✓", "✗", "!", "✓", "–", "–"]
    assert [row["complete"] for row in table] == ["✓", "✓", "✓", "!", "–", "–"]
    assert [row[""] for row in table] == ["", "", "exposed", "lost by a setting", "not met", "does not apply: no group"]
    assert (table[1]["restarts"], table[1]["seconds"], table[5]["seconds"]) == ("2", "2.0", "")


def test_loss_by_a_setting_is_not_counted_as_broken_beside_a_broken_guarantee() -> None:
    (row,) = rows([Result("unclean-election", "elected", ScenarioOutcome.BROKEN, breaches=[ONCE, LOST])])
    cells = dict(zip(COLUMNS, row, strict=True))
    assert (cells["once"], cells["complete"]) == ("✗", "!")


def test_the_report_explains_each_breach() -> None:
    text = "\n".join(explanations(RESULTS))
    assert "lost-ack: acks are lost\n  once: 1 duplicate\n    record-1 is there twice\n      at t-0@1\n  kept in /x" in text
    assert "calm" not in text


def test_the_summary_counts_scenarios_by_standing() -> None:
    assert summary(RESULTS) == "1 held, 1 broken, 1 exposed, 1 lost by a setting, 1 not met, 1 does not apply"


def test_json_report_is_complete() -> None:
    report = as_json(RESULTS, ["my", "program"], "producer")
    assert (report["command"], report["role"]) == (["my", "program"], "producer")
    baseline, lost, _, unclean, not_met, _ = report["scenarios"]
    assert baseline["guarantees"] == dict.fromkeys(("complete", "once", "order", "committed", "whole", "finished"), True)
    assert not lost["guarantees"]["once"]
    assert lost["breaches"] == [
        {"guarantee": "once", "says": "1 duplicate", "by_setting": False, "explanation": ["record-1 is there twice", "  at t-0@1"]}
    ]
    assert (lost["restarts"], lost["seconds"], lost["standing"]) == (2, 2, "broken")
    assert (unclean["standing"], unclean["note"], unclean["breaches"][0]["by_setting"]) == ("lost by a setting", "set another", True)
    assert not_met["guarantees"] == {}


def test_junit_report_fails_broken_and_skips_inapplicable_scenarios(tmp_path: Path) -> None:
    write_junit(RESULTS, "my program", tmp_path / "verify.xml")
    (suite,) = JUnitXml.fromfile(str(tmp_path / "verify.xml"))
    assert (suite.tests, suite.failures, suite.skipped) == (6, 1, 4)
    failed = next(case for case in suite if case.name == "lost-ack")
    assert failed.result[0].message == "once: 1 duplicate"
    assert "record-1 is there twice" in failed.result[0].text


def test_failed_verification_is_reported_in_junit_and_json(tmp_path: Path) -> None:
    write_junit(RESULTS[:1], "my program", tmp_path / "verify.xml", "it differs\x00")
    (suite,) = JUnitXml.fromfile(str(tmp_path / "verify.xml"))
    assert (suite.tests, suite.failures, suite.errors) == (2, 0, 1)
    assert as_json(RESULTS[:1], [], "producer", "it differs")["could_not_judge"] == "it differs"
    assert as_json(RESULTS, [], "producer")["could_not_judge"] is None


def test_junit_report_is_valid_xml_for_any_records(tmp_path: Path) -> None:
    odd = Breach(Guarantee.ONCE, "1 \x00 duplicate", "\x1b[31m\x0b ]]> <b> \ud800 ü 🙂")
    broken = Result("lost-ack", "", ScenarioOutcome.BROKEN, "", [odd])
    skipped = Result("zombie", "a\x02b", ScenarioOutcome.NOT_MET, "kept in a\x03b")
    write_junit([broken, skipped], "a\x01b", tmp_path / "verify.xml")
    (suite,) = JUnitXml.fromfile(str(tmp_path / "verify.xml"))
    case, other = suite
    assert "ü 🙂" in case.result[0].text
    assert (other.system_out, other.result[0].message) == ("a\ufffdb", f"{ScenarioOutcome.NOT_MET.value}: kept in a\ufffdb")
