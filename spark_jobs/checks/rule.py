"""The parts of an audit rule."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

PLACE: Final = ("severity", "kind", "log_dir", "topic", "partition", "offset", "file", "position")
"""The columns that every rule's query returns: the severity, the rule's kind of finding, and the place (`position`: bytes from the start
of the segment file)."""


class Severity(StrEnum):
    """The severity of a finding. Only violations make the verdict fail. A warning needs a person's judgement; an info is listed for
    completeness."""

    VIOLATION = "violation"
    WARNING = "warning"
    INFO = "info"


class Needs(StrEnum):
    """The command-line option without which a rule is not judged."""

    NOTHING = ""
    KEY = "--key-field"
    DEEP = "--deep"
    REPLICAS = "--replicas"


class Scope(StrEnum):
    """The rows that a rule compares with each other. Different tasks may judge different partitions, producers or keys; see `sharing`."""

    PARTITION = "partition"
    """One log partition (with --replicas, all its copies): the task that reads it evaluates the rule."""
    PRODUCER = "producer"
    """A producer's transactions in all partitions of a directory: tasks hand on one row per transaction."""
    GROUP = "group"
    """A share group's state and the topics that it reads: tasks hand on one row per share partition."""
    KEY = "key"
    """All records of a topic with the same key: tasks hand on one row per record."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule. `limits`: the cases that the rule cannot detect. `view`: the view that must exist for the rule. `needs`: the option
    without which the rule is not judged. `evidence`: the columns that its query adds to PLACE."""

    name: str
    title: str
    proves: str
    severity: Severity
    evidence: tuple[str, ...]
    advice: str
    """The meaning of a finding for the log's users, and the action to take."""
    limits: str
    sql: str
    view: str = "batches"
    needs_transactions: bool = False
    """The rule is skipped, and counts as judged with no findings, if no batch is transactional."""
    needs: Needs = Needs.NOTHING
    scope: Scope = Scope.PARTITION
