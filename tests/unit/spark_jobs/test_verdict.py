"""The exit code that follows from findings and problems."""

from __future__ import annotations

import pytest

from spark_jobs.verdict import DirectoryVerdict, RuleResult, Verdict


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
def test_violations_outweigh_what_could_not_be_judged_and_that_outweighs_clean(result: RuleResult, problems: list[str], code: int) -> None:
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
def test_only_what_has_neither_violations_nor_warnings_is_called_clean(result: RuleResult, words: str) -> None:
    assert Verdict([DirectoryVerdict("d", rules={"crc": result})]).headline == words
