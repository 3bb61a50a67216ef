"""The class `Rule`, which describes one rule of the audit, and the enums of its fields."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

PLACE: Final = ("severity", "kind", "log_dir", "topic", "partition", "offset", "file", "position")
"""The columns that every rule's query returns for a finding: its severity, its kind (a short text that says what is wrong, such as `records
unreadable`), and its place in the log (`position`: bytes from the start of the segment file)."""


class Severity(StrEnum):
    """The severity of a finding. Only violations make the verdict fail. A warning needs a person's judgement; an info is listed for
    completeness."""

    VIOLATION = "violation"
    WARNING = "warning"
    INFO = "info"


class Needs(StrEnum):
    """The command-line option that a rule needs. Without the option the rule is skipped and reported as not judged."""

    NOTHING = ""
    KEY = "--key-field"
    DEEP = "--deep"
    REPLICAS = "--replicas"


class Scope(StrEnum):
    """The set of rows that a rule compares with each other. A rule with the scope PARTITION runs in the audit's first step, all others in
    the second step (see `steps`). The scope also determines which rows the tasks of the first step pass to the second step
    (`steps.SHUFFLED`). The small views `logs` (one row per partition) and `counts` (one per directory) go to all tasks of the second step.
    """

    PARTITION = "partition"
    """The rule compares rows of one log partition, or of all partitions of a coordinator's topic (with --replicas, of all copies of a
    partition). The task that reads these partitions evaluates the rule, and only the findings leave the task."""
    PRODUCER = "producer"
    """The rule compares a producer's transactions in all partitions of a directory. Tasks of the first step pass on one row per
    transaction, per producer, per record of `__transaction_state`, and per group offset that a transactional commit moved back."""
    GROUP = "group"
    """The rule compares a share group's state with the ends of the topics that the group reads. Tasks of the first step pass on one row per
    share partition."""
    KEY = "key"
    """The rule compares all records of a topic that have the same key. Tasks of the first step pass on one row per record with a key,
    without the record's value."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule of the audit. `proves`: the property that holds if there are no findings. `limits`: the cases that the rule cannot detect.
    `sql`: the query that returns the findings; of a batch, it can read only the columns in `views.RAW_BATCHES_NEED`. `view`: the view that
    must exist for the query. `needs`: the option without which the rule is not judged. `evidence`: the columns that the query adds to
    PLACE."""

    name: str
    title: str
    proves: str
    severity: Severity
    evidence: tuple[str, ...]
    advice: str
    """What a finding means for the log's users, and what to do about it."""
    limits: str
    sql: str
    scope: Scope
    view: str = "batches"
    needs_transactions: bool = False
    """True if the rule is only about transactions: it is skipped, and counts as judged with no findings, if no batch is transactional."""
    needs: Needs = Needs.NOTHING
