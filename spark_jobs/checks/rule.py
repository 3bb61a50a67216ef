"""The class of audit rules, and the values of its fields."""

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
    """The rows that a rule compares with each other. The scope determines in which step the rule runs, and so which rows the tasks of the
    first step pass to the second step (`steps.SHUFFLED`). The views `logs` and `counts`, with one row per partition and directory, go to
    all tasks of the second step."""

    PARTITION = "partition"
    """Local: one log partition, or all partitions of a coordinator's topic (with --replicas, all copies). The task that reads it evaluates
    the rule, and only its findings leave the task."""
    PRODUCER = "producer"
    """Reduced, then shuffled: a producer's transactions in all partitions of a directory. Tasks pass on one row per transaction, per
    producer, per record of `__transaction_state`, and per offset that a transactional commit took back."""
    GROUP = "group"
    """Reduced, then shuffled: a share group's state and the ends of the topics that it reads. Tasks pass on one row per share partition."""
    KEY = "key"
    """Shuffled: the rule compares all records of a topic that have the same key. Tasks of the first step pass on one row per record with
    a key, without the record's value."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule of the audit. `proves`: the property that holds if there are no findings. `limits`: the cases that the rule cannot detect.
    `view`: the view that must exist for the rule. `needs`: the option without which the rule is not judged. `evidence`: the columns that
    its query adds to PLACE."""

    name: str
    title: str
    proves: str
    severity: Severity
    evidence: tuple[str, ...]
    advice: str
    """The meaning of a finding for the log's users, and the action to take."""
    limits: str
    sql: str
    scope: Scope
    view: str = "batches"
    needs_transactions: bool = False
    """The rule is skipped, and counts as judged with no findings, if no batch is transactional."""
    needs: Needs = Needs.NOTHING
