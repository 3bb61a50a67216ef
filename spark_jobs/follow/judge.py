"""Judges one micro-batch of batch headers with the rules' SQL. A few remembered rows represent everything that was read before.

Invariants:
- The remembered rows are rows of level batches, a few for each partition and producer. If a rule's window functions run over them and the
  micro-batch, they give the micro-batch's rows the same values as over the whole log.
- A finding is reported only if it is located in the micro-batch. A hanging transaction is reported once.
- The memory is bounded: at most eight rows per partition; per producer and partition the last five batches of its two newest epochs, one
  row for the range of sequences before those, and at most six more rows.
- A producer is forgotten after producer.id.expiration.ms of the log's time, unless its transaction is open.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa

from ottla.spark_jobs import views
from ottla.spark_jobs.checks import RULES
from ottla.spark_jobs.checks.rule import PLACE, Rule
from ottla.spark_jobs.engines.embedded import EmbeddedEngine, arrow_schema, embedded_engine
from ottla.spark_jobs.follow.sql import ARRIVED, EMPTY_STATES, JUDGED, REMEMBERED, ROLES, SPANS, STATE_COLUMNS

CONTINUOUS: Final = (
    "duplicate-sequence",
    "sequence-gap",
    "sequence-order",
    "epochs",
    "offsets",
    "leader-epochs",
    "timestamps",
    "crc",
    "counts",
    "hanging-transaction",
    "zombie-batch",
    "mixed-transaction",
    "markers",
)
"""The rules that the continuous audit applies: those that can be evaluated while a log grows. All other rules compare files, transactions
across partitions, groups or records."""
HANGING: Final = "hanging-transaction"
STATE_SCHEMA: Final = arrow_schema(STATE_COLUMNS)
ARRIVING_SCHEMA: Final = arrow_schema(views.RAW_BATCHES_NEED)


@dataclass(slots=True)
class Judged:
    """The result of one micro-batch: findings as JSON objects in log order, the state (batch rows that represent the log read so far), and
    the numbers of batches and records read."""

    findings: list[dict[str, Any]]
    state: pa.Table
    batches: int = 0
    records: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    """The number of findings by severity."""


def rules() -> list[Rule]:
    """Return the rules that the continuous audit applies (CONTINUOUS), in the order of `RULES`."""
    return [rule for rule in RULES if rule.name in CONTINUOUS]


def judge(arriving: pa.Table, state: pa.Table | None, args: Mapping[str, Any], *, caught_up: bool) -> Judged:
    """Apply the continuous audit's rules (CONTINUOUS) to one micro-batch. Return its findings, and the state for the next micro-batch.

    `arriving`: the micro-batch, with the columns `views.RAW_BATCHES_NEED` and one row per record batch (or per range of bytes that is not a
    batch), in any order. `state`: the `Judged.state` of the previous micro-batch, which represents everything that was read before; None
    for the first micro-batch. `args`: `expiration_ms` (producer.id.expiration.ms), `transaction_timeout_ms` (transaction.max.timeout.ms).
    `caught_up`: every partition has been read to its end, so that timestamps of different partitions can be compared; only then are hanging
    transactions reported.
    """
    with embedded_engine(arriving.nbytes) as engine:
        engine.register("arriving", arriving.select(ARRIVING_SCHEMA.names).cast(ARRIVING_SCHEMA))
        engine.register("state", STATE_SCHEMA.empty_table() if state is None else state)
        _make_views(engine, args)
        found = _findings(engine, args, caught_up)
        hanging = [(row["log_dir"], row["file"], row["position"]) for row in found if row["rule"] == HANGING]
        engine.table("reported_now", "log_dir string, file string, position bigint", hanging)
        clock = "directory_time" if caught_up else "partition_time"
        for name, query in (("spans", SPANS), ("roles", ROLES.format(clock=clock)), ("remembered", REMEMBERED)):
            engine.define(name, query, args)
        following = engine.arrow("remembered").select(STATE_SCHEMA.names).cast(STATE_SCHEMA)
        (seen,) = engine.rows(ARRIVED, args)
    counts: dict[str, int] = {}
    for row in found:
        counts[row["severity"]] = counts.get(row["severity"], 0) + 1
    return Judged(found, following, seen["batches"], seen["records"], counts)


def _make_views(engine: EmbeddedEngine, args: Mapping[str, Any]) -> None:
    every, forgotten = "*", ">= :expiration_ms"
    assert forgotten in views.producer_batches(every)
    engine.define("raw_batches", JUDGED["raw_batches"], args)
    engine.define("computed", views.batches(f"{views.TRUSTED_COLUMNS}, error, torn, from_state, merged"), args)
    engine.define("batches", JUDGED["batches"], args)
    # All rows of a producer in `state` belong to one session. A long time between two of them does not mean that the producer was
    # forgotten, because rows between them were dropped.
    engine.define("producer_batches", views.producer_batches(every).replace(forgotten, forgotten + " AND NOT from_state"), args)
    engine.define("sequences", views.sequences(every), args)
    engine.define("late_retries", views.LATE_RETRIES, args)
    engine.define("transactions", views.TRANSACTIONS, args)
    for name, columns in EMPTY_STATES.items():
        engine.table(name, columns, [])
    engine.define("logs", views.LOGS, args)
    engine.define("unended", views.UNENDED, args)
    # A newer epoch in another partition proves nothing, because the two partitions were not read at the same moment.
    engine.define("newest_epochs", JUDGED["newest_epochs"], args)
    engine.define("open_transactions", JUDGED["open_transactions"], args)


def _findings(engine: EmbeddedEngine, args: Mapping[str, Any], caught_up: bool) -> list[dict[str, Any]]:
    place = ", ".join(PLACE)
    found = " UNION ALL ".join(
        f"SELECT '{rule.name}' AS rule, {place}, to_json(struct({', '.join(rule.evidence)})) AS evidence FROM ({rule.sql})"
        for rule in rules()
        if caught_up or rule.name != HANGING
    )
    rows = engine.rows(
        f"""
        SELECT f.* FROM ({found}) f
        LEFT JOIN (SELECT DISTINCT log_dir, file, position FROM arriving) a USING (log_dir, file, position)
        LEFT JOIN (SELECT DISTINCT log_dir, file, position FROM state WHERE told) t USING (log_dir, file, position)
        WHERE f.severity <> 'info' AND (a.file IS NOT NULL OR f.rule = '{HANGING}' AND t.file IS NULL)
        ORDER BY log_dir, topic, partition, file, position, rule
        """,
        args,
    )
    return [{**row, "evidence": json.loads(row["evidence"])} for row in rows]
