from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

from ottla.spark_jobs.checks import RULES
from ottla.spark_jobs.costs import TopicCosts
from ottla.spark_jobs.verdict import DirectoryVerdict, Finding, RuleResult, Verdict


@pytest.mark.parametrize(
    ("result", "problems", "code"),
    [
        (RuleResult(judged=True), [], 0),
        (RuleResult(judged=True, warnings=3, infos=2), [], 0),
        (RuleResult(judged=True, violations=1), [], 1),
        (RuleResult(judged=True), ["x: not readable"], 2),
        (RuleResult(judged=True, violations=1), ["x: not readable"], 1),
    ],
)
def test_exit_code_ranks_violations_above_unjudged_above_clean(result: RuleResult, problems: list[str], code: int) -> None:
    verdict = Verdict([DirectoryVerdict("clean"), DirectoryVerdict("d", rules={"crc": result}, problems=problems)])
    assert verdict.exit_code == code


@pytest.mark.parametrize(
    ("result", "words"),
    [
        (RuleResult(judged=True, infos=2), "Clean: no rule was broken"),
        (RuleResult(judged=True, warnings=1), "No rule was broken, 1 warning"),
        (RuleResult(judged=True, violations=1200, warnings=1), "1,200 violations"),
    ],
)
def test_headline_says_clean_only_without_violations_and_warnings(result: RuleResult, words: str) -> None:
    assert Verdict([DirectoryVerdict("d", rules={"crc": result})]).headline == words


def test_audit_page_names_every_json_field_and_rule() -> None:
    document = (Path(__file__).parents[3] / "docs" / "audit.md").read_text()
    fields = [field.name for kind in (Verdict, DirectoryVerdict, RuleResult, Finding, TopicCosts) for field in dataclasses.fields(kind)]
    assert [name for name in fields if not re.search(rf"[`.]{name}[`.\[]", document)] == []
    for rule in RULES:
        needs = f" ({rule.needs})" if rule.needs else ""
        assert f"| `{rule.name}`{needs} | {rule.severity} | {rule.proves} |" in document
