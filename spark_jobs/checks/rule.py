"""What a rule of the audit consists of."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

PLACE: Final = ("severity", "kind", "log_dir", "topic", "partition", "offset", "file", "position")
"""The columns every rule's query gives: how bad, which of the rule's cases, and where (byte position in the segment file)."""


class Severity(StrEnum):
    """Only violations break the verdict. A warning needs a human's look, an info is told for completeness."""

    VIOLATION = "violation"
    WARNING = "warning"
    INFO = "info"


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule. `view` is the view it needs (a rule whose view is not there is not judged); `evidence` are the columns its query adds to
    PLACE."""

    name: str
    title: str
    proves: str
    severity: Severity
    evidence: tuple[str, ...]
    limits: str
    sql: str
    view: str = "batches"
    needs_transactions: bool = False
    """Where no batch is transactional the rule has nothing to judge: it is not run, and found nothing."""
