"""Merges the results of an audit's tasks (`steps.Answer`): counts are added up, and of the findings only the first are kept.

Invariant:
- Merging in any order, and merging merged answers again, gives the same first findings and the same counts.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any, Final

from ottla.spark_jobs.engines import Row
from ottla.spark_jobs.steps import Answer

EXTRA_FINDINGS_MAX: Final = 1000
"""How much longer than twice `samples` the list of a rule's findings may become before it is sorted and cut to `samples`. The list is not
sorted for each answer, because that would be slow."""


class Merged:
    """The answers of an audit's tasks (rows by kind, such as findings and counts), merged into one. `samples`: the number of findings to
    keep of each directory, rule and severity."""

    def __init__(self, samples: int) -> None:
        self.answers = 0
        self._samples = max(1, samples)
        self._others: Answer = defaultdict(list)
        self._counts: dict[str, dict[str, Any]] = {}
        self._totals: dict[tuple[str, str, str], int] = defaultdict(int)
        self._findings: dict[tuple[str, str, str], list[Row]] = defaultdict(list)

    def add(self, answer: Answer) -> None:
        """Merge an answer (the findings, counts and other rows of a task) into this object. The answer may itself be merged from
        several."""
        self.answers += 1
        for name, rows in answer.items():
            match name:
                case "findings":
                    self._add_findings(rows)
                case "counts":
                    self._add_counts(rows)
                case _:
                    self._others[name] += rows

    def answer(self) -> Answer:
        """Return all added answers as one: the exact counts, and the first `samples` findings of each directory, rule and severity."""
        findings: list[Row] = []
        for kind in sorted(self._findings):
            rows = sorted(self._findings[kind], key=finding_order)[: self._samples]
            findings += [{**row, "total": self._totals[kind], "place": place} for place, row in enumerate(rows, 1)]
        return {**self._others, "counts": [*self._counts.values()], "findings": findings}

    def _add_findings(self, rows: list[Row]) -> None:
        for row in rows:
            kind = row["log_dir"], row["rule"], row["severity"]
            self._totals[kind] += row["total"] if row["place"] == 1 else 0
            held = self._findings[kind]
            held.append(row)
            if len(held) > 2 * self._samples + EXTRA_FINDINGS_MAX:
                held.sort(key=finding_order)
                del held[self._samples :]

    def _add_counts(self, rows: list[Row]) -> None:
        for row in rows:
            sums = self._counts.setdefault(row["log_dir"], {**dict.fromkeys(row, 0), "log_dir": row["log_dir"]})
            for name in row.keys() - {"log_dir"}:
                sums[name] += row[name]


def finding_order(row: Row) -> tuple[Any, ...]:
    """Return the sort key of a finding, which orders findings as the rules' queries do: by place, kind and evidence, nulls first."""
    values = [row[name] for name in ("topic", "partition", "file", "position", "offset", "kind", "evidence")]
    return tuple((value is not None, value) for value in values)
