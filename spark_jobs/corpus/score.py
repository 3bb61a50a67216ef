"""The audit's score on logs with known findings: the number planted, found, missed and falsely reported, by rule.

Invariant: a finding is correct if its rule, severity, kind and place are the expected ones. Otherwise it is a false alarm, and the expected
finding is a miss. So a violation reported as a warning counts as both.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from rich.table import Table
from rich.text import Text

from ottla.spark_jobs.audit import audit
from ottla.spark_jobs.checks import RULES
from ottla.spark_jobs.corpus.case import Case, Expected
from ottla.spark_jobs.verdict import DirectoryVerdict

ALL_SAMPLES: Final = 1_000_000
"""A number of samples that is above the number of findings in any log of the corpus, so that all findings are returned."""


@dataclass(slots=True)
class Score:
    """The result of judging the corpus. `legal`: the number of cases in which no violation is expected. `missed` and `false_alarms` are
    pairs of a case's name and a finding."""

    cases: int = 0
    legal: int = 0
    planted: Counter[str] = field(default_factory=Counter)
    found: Counter[str] = field(default_factory=Counter)
    missed: list[tuple[str, Expected]] = field(default_factory=list)
    false_alarms: list[tuple[str, Expected]] = field(default_factory=list)

    @property
    def perfect(self) -> bool:
        """Whether every expected finding was found, without false alarms."""
        return not self.missed and not self.false_alarms

    def add(self, name: str, expected: Sequence[Expected], found: Sequence[Expected]) -> None:
        """Add the expected and the reported findings of one judged log to the score."""
        wanted, got = Counter(expected), Counter(found)
        self.cases += 1
        self.legal += not any(severity == "violation" for _, severity, _, _ in expected)
        self.planted.update(rule for rule, *_ in expected)
        self.found.update(rule for rule, *_ in (wanted & got).elements())
        self.missed += [(name, finding) for finding in (wanted - got).elements()]
        self.false_alarms += [(name, finding) for finding in (got - wanted).elements()]


def write(cases: Mapping[str, Case], root: Path) -> None:
    """Write the log of each case to a subdirectory of `root` that has the case's name."""
    for name, case in cases.items():
        case.write(root / name)


def judge(cases: Mapping[str, Case], root: Path, engine: str = "duckdb") -> Score:
    """Judge the written cases (all single directories in one audit, and each set of replicas in its own audit), and return the score."""
    score = Score()
    single = [name for name, case in cases.items() if not case.directories]
    judged = audit([root / name for name in single], key_field="row", samples=ALL_SAMPLES, engine=engine, deep=True)
    for name, directory in zip(single, judged.directories, strict=True):
        score.add(name, cases[name].expected, findings([directory]))
    for name, case in cases.items():
        if case.directories:
            paths = [root / name / directory for directory in case.directories]
            score.add(name, case.expected, findings(audit(paths, samples=ALL_SAMPLES, engine=engine, replicas=True, deep=True).directories))
    return score


def findings(directories: Iterable[DirectoryVerdict]) -> list[Expected]:
    """Return all findings in the verdicts as (rule, severity, kind, place), so that they can be compared with the expected findings."""
    return [
        (finding.rule, str(finding.severity), finding.kind, finding.where)
        for directory in directories
        for result in directory.rules.values()
        for finding in result.samples
    ]


def table(score: Score) -> Table:
    """Return the score as a table for the terminal, with one row per rule and a row of sums: the findings planted, found, missed and
    falsely reported."""
    shown = Table(title=f"{score.cases} logs, {score.legal} of them without a violation", title_justify="left", header_style="bold")
    for title in ("Rule", "Planted", "Found", "Missed", "False alarms", "Recall", "Precision"):
        shown.add_column(title, justify="left" if title == "Rule" else "right")
    missed = Counter(rule for _, (rule, *_) in score.missed)
    false = Counter(rule for _, (rule, *_) in score.false_alarms)
    for rule in RULES:
        shown.add_row(*_cells(rule.name, [counter[rule.name] for counter in (score.planted, score.found, missed, false)]))
    shown.add_section()
    shown.add_row(*_cells("all", [counter.total() for counter in (score.planted, score.found, missed, false)]))
    return shown


def _cells(name: str, counts: Sequence[int]) -> Sequence[str | Text]:
    planted, found, missed, false = counts
    recall = f"{found / planted:.0%}" if planted else "-"
    precision = f"{found / (found + false):.0%}" if found + false else "-"
    style = "red" if missed or false else "green"
    return name, str(planted), Text(str(found), style), str(missed), str(false), recall, precision


def details(score: Score) -> list[str]:
    """Return a line of text for each finding that the audit missed, and for each one that it reported falsely."""
    lines = [f"missed       {name}: {' '.join(finding)}" for name, finding in score.missed]
    return lines + [f"false alarm  {name}: {' '.join(finding)}" for name, finding in score.false_alarms]
