from __future__ import annotations

from pathlib import Path

from junitparser import Error, Failure, JUnitXml, Skipped

from ottla.spark_jobs.checks import RULES
from ottla.spark_jobs.reports import junit
from ottla.spark_jobs.reports.pictures import Pictures
from ottla.spark_jobs.verdict import Verdict


def test_junit_case_of_a_rule_fails_passes_or_is_skipped(judged: tuple[Verdict, dict[str, Pictures]], tmp_path: Path) -> None:
    verdict, _ = judged
    junit.write(verdict, tmp_path / "audit.xml")
    first, second = JUnitXml.fromfile(str(tmp_path / "audit.xml"))
    assert first.tests == len(RULES)
    results = {case.classname.removeprefix("audit."): case.result for case in first}
    assert isinstance(results["torn-transaction"][0], Failure)
    assert "payments-1@3" in results["torn-transaction"][0].text
    assert results["sequence-gap"] == []
    assert isinstance(results["business-key"][0], Skipped)
    assert first.failures == sum(result.violations > 0 for result in verdict.directories[0].rules.values())
    problems = [case.result[0] for case in second if case.classname == "audit.problems"]
    assert [isinstance(problem, Error) for problem in problems] == [True]
