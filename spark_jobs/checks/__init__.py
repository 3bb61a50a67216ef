"""The audit's rules, one file per rule. A rule is data: the property it proves, a severity, the evidence it shows, its limits, and one
query.

Each query reads the views of `views.py` and returns the columns of `PLACE` and the rule's evidence columns, one row per finding. No rule
processes rows in Python.
"""

from __future__ import annotations

from typing import Final

from ottla.spark_jobs.checks import (
    business_key,
    counts,
    crc,
    duplicate_sequence,
    epochs,
    group_members,
    group_offsets,
    hanging_transaction,
    indexes,
    input_consumed_twice,
    leader_epochs,
    log_end,
    markers,
    mixed_transaction,
    offsets,
    offsets_outside_transaction,
    producer_snapshots,
    replicas,
    sequence_gap,
    sequence_order,
    share_beyond_log,
    share_delivery,
    share_state,
    suspected_replay,
    timestamps,
    torn_transaction,
    transaction_epochs,
    zombie_batch,
)
from ottla.spark_jobs.checks.rule import Rule

RULES: Final[tuple[Rule, ...]] = (
    duplicate_sequence.RULE,
    sequence_gap.RULE,
    sequence_order.RULE,
    epochs.RULE,
    offsets.RULE,
    log_end.RULE,
    leader_epochs.RULE,
    timestamps.RULE,
    indexes.RULE,
    producer_snapshots.RULE,
    replicas.RULE,
    crc.RULE,
    counts.RULE,
    hanging_transaction.RULE,
    torn_transaction.RULE,
    zombie_batch.RULE,
    mixed_transaction.RULE,
    markers.RULE,
    transaction_epochs.RULE,
    input_consumed_twice.RULE,
    offsets_outside_transaction.RULE,
    group_offsets.RULE,
    group_members.RULE,
    share_state.RULE,
    share_delivery.RULE,
    share_beyond_log.RULE,
    suspected_replay.RULE,
    business_key.RULE,
)
