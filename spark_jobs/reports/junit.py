"""The verdict as JUnit XML for CI systems: one suite per directory, one test case per rule."""

from __future__ import annotations

from pathlib import Path

from junitparser import Error as CouldNotJudge
from junitparser import Failure, JUnitXml, Skipped, TestCase, TestSuite

from ottla.protocol.printable import printable_name
from ottla.spark_jobs.checks import RULES
from ottla.spark_jobs.verdict import DirectoryVerdict, Finding, Verdict


def write(verdict: Verdict, path: Path) -> None:
    """Write the verdict to `path`. A rule with violations is a failure, a rule that was not judged is skipped, a problem is an error."""
    xml = JUnitXml("ottla audit")
    for directory in verdict.directories:
        xml.add_testsuite(_suite(directory))
    xml.time = verdict.seconds
    xml.write(str(path), pretty=True)


def _suite(directory: DirectoryVerdict) -> TestSuite:
    suite = TestSuite(directory.path)
    for rule in RULES:
        case = TestCase(rule.title, classname=f"audit.{rule.name}")
        result = directory.rules[rule.name]
        if not result.judged:
            case.result = [Skipped(f"not judged{f' without {rule.needs}' if rule.needs else ''}")]
        elif result.violations:
            failure = Failure(f"{result.violations} violations", type_=rule.name)
            failure.text = "\n".join([*map(_line, result.samples), rule.advice])
            case.result = [failure]
        case.system_out = rule.proves
        suite.add_testcase(case)
    for problem in directory.problems:
        case = TestCase("everything could be read", classname="audit.problems")
        case.result = [CouldNotJudge(printable_name(problem))]
        suite.add_testcase(case)
    return suite


def _line(finding: Finding) -> str:
    evidence = ", ".join(f"{name}={value}" for name, value in finding.evidence.items() if value not in ("", None))
    return printable_name(f"{finding.severity}: {finding.where} {finding.kind} ({finding.file}:{finding.position}) {evidence}")
