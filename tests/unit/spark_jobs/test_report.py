from __future__ import annotations

import io

from rich.console import Console

from ottla.spark_jobs.checks import RULES
from ottla.spark_jobs.checks.rule import Severity
from ottla.spark_jobs.deliveries import ShareDeliveries
from ottla.spark_jobs.report import show
from ottla.spark_jobs.verdict import DirectoryVerdict, Finding, RuleResult, Verdict


def rendered(*directories: DirectoryVerdict, samples: int = 10) -> str:
    out = io.StringIO()
    show(Verdict(list(directories)), samples, Console(file=out, width=200))
    return out.getvalue()


def directory(path: str) -> DirectoryVerdict:
    return DirectoryVerdict(path, records=1234567, rules={rule.name: RuleResult(judged=True) for rule in RULES})


def test_directories_are_columns_named_by_their_last_path_component() -> None:
    text = rendered(directory("/x/on"), directory("/x/off"))
    assert "/x/on" not in text
    assert text.count("1,234,567") == 2


def test_directories_with_equal_names_are_shown_with_their_paths() -> None:
    text = rendered(directory("/x/logs"), directory("/y/logs"))
    assert "/x/logs" in text
    assert "/y/logs" in text


def test_brackets_in_a_path_are_printed_literally() -> None:
    assert "logs[old]" in rendered(directory("/x/logs[old]"))
    text = rendered(directory("/x[/y]/logs"), directory("/z/logs"))
    assert "/x[/y]/logs" in text


def test_finding_shows_its_place_and_a_missing_count_is_not_zero() -> None:
    bad = directory("/x/on")
    finding = Finding("crc", Severity.VIOLATION, "wrong CRC", "t", 3, 42, "/x/on/t-3/00000000000000000000.log", 777, {"size_bytes": 61})
    bad.rules["crc"] = RuleResult(judged=True, violations=1, samples=[finding])
    text = rendered(bad)
    assert "t-3@42" in text
    assert "violation, crc: wrong CRC" in text
    assert "t-3/00000000000000000000.log:777" in text
    assert text.count("What to do: Consumers fail here.") == 1
    assert "n/a" in text
    assert "t-3@42" not in rendered(bad, samples=0)


def test_share_group_deliveries_have_their_own_table() -> None:
    shared = directory("/x/on")
    assert "Deliveries" not in rendered(shared)
    shared.deliveries = [ShareDeliveries("g\x1b", "queue", 3, 1_000, 1_999, 1_234, 1_111, 22, 101, 333, 5)]
    text = rendered(shared)
    assert "queue-3" in text
    assert all(count in text for count in ("1,000", "1,234", "1,111", "22", "101", "333"))
    assert "\x1b" not in text
