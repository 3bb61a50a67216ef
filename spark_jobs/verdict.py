"""The result of an audit: findings with evidence, by rule and directory, and the exit code."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any

from ottla.spark_jobs.checks.rule import Severity
from ottla.spark_jobs.costs import TopicCosts
from ottla.spark_jobs.deliveries import ShareDeliveries


@dataclass(frozen=True, slots=True)
class Finding:
    """One violation, warning or info that a rule reports. `offset` is None if the bytes are not a batch; `position` counts bytes from the
    start of `file`."""

    rule: str
    severity: Severity
    kind: str
    topic: str
    partition: int
    offset: int | None
    file: str
    position: int
    evidence: dict[str, Any]

    @property
    def where(self) -> str:
        """The finding's place as `topic-partition@offset`, with a question mark for an unknown offset."""
        return f"{self.topic}-{self.partition}@{'?' if self.offset is None else self.offset}"


@dataclass(slots=True)
class RuleResult:
    """The findings of one rule in one directory: exact counts by severity, and the first findings in log order (`samples`). `judged` is
    False if the option that the rule needs was not given, or the files that it needs are missing."""

    judged: bool = False
    violations: int = 0
    warnings: int = 0
    infos: int = 0
    samples: list[Finding] = field(default_factory=list)


@dataclass(slots=True)
class DirectoryVerdict:
    """The verdict on one directory. `records`: the number of records in batches with a correct CRC, including aborted records but not
    control records and messages in the formats before v2. `retries_absorbed`: the number of retries that the broker recognized as
    duplicates, as given by the caller, because the log does not contain it."""

    path: str
    topics: int = 0
    partitions: int = 0
    segments: int = 0
    size_bytes: int = 0
    batches: int = 0
    records: int = 0
    producers: int = 0
    retries_absorbed: int | None = None
    rules: dict[str, RuleResult] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    costs: list[TopicCosts] = field(default_factory=list)
    deliveries: list[ShareDeliveries] = field(default_factory=list)

    @property
    def violations(self) -> int:
        """The number of findings of severity violation that all rules reported for the directory."""
        return sum(result.violations for result in self.rules.values())

    @property
    def warnings(self) -> int:
        """The number of findings of severity warning that all rules reported for the directory."""
        return sum(result.warnings for result in self.rules.values())


def counted(number: int, what: str) -> str:
    """Return a number and its noun, which gets an `s` unless the number is 1: `1 note`, `2 notes`."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


@dataclass(slots=True)
class Verdict:
    """The result of an audit of one or several directories. `seconds`: elapsed time including the engine's start; `engine`: the engine that
    ran the rules, `duckdb` or `spark`."""

    directories: list[DirectoryVerdict]
    seconds: float = 0.0
    engine: str = ""

    @property
    def exit_code(self) -> int:
        """The audit's exit code. 0: clean; 1: violations; 2: something could not be judged."""
        if any(directory.violations for directory in self.directories):
            return 1
        return 2 if any(directory.problems for directory in self.directories) else 0

    @property
    def headline(self) -> str:
        """The verdict as one short text: clean, the number of violations or warnings, or that not everything was judged."""
        violations, warnings = (sum(getattr(directory, name) for directory in self.directories) for name in ("violations", "warnings"))
        if self.exit_code == 1:
            return counted(violations, "violation")
        if self.exit_code == 2:
            return "Could not judge everything"
        return f"No rule was broken, {counted(warnings, 'warning')}" if warnings else "Clean: no rule was broken"

    def to_json(self) -> str:
        """Return the verdict, with its exit code, as JSON."""
        return json.dumps({"exit_code": self.exit_code, **asdict(self)}, indent=2, default=str)
