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


class Needs(StrEnum):
    """What must be asked for before a rule can judge: the option of the command."""

    NOTHING = ""
    KEY = "--key-field"
    DEEP = "--deep"
    REPLICAS = "--replicas"


class Scope(StrEnum):
    """The rows that a rule compares with each other. Different tasks may judge different partitions, producers or keys; see `sharing`."""

    PARTITION = "partition"
    """One log partition (with --replicas, all its copies): the task that reads it runs the rule."""
    PRODUCER = "producer"
    """A producer's transactions in all partitions of a directory: tasks hand on one row per transaction."""
    KEY = "key"
    """All records of a topic with the same key: tasks hand on one row per record."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule. `limits` say where it is blind. `view` is the view it reads; without what it `needs` it is not judged; `evidence` are the
    columns its query adds to PLACE."""

    name: str
    title: str
    proves: str
    severity: Severity
    evidence: tuple[str, ...]
    advice: str
    """What a finding means for those who use the log, and what to do about it."""
    limits: str
    sql: str
    view: str = "batches"
    needs_transactions: bool = False
    """Where no batch is transactional the rule has nothing to judge: it is not run, and found nothing."""
    needs: Needs = Needs.NOTHING
    scope: Scope = Scope.PARTITION
