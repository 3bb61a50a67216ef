"""Schemas of the tables that `ottla audit` and `ottla dedup` write: the names and types of the columns, and the columns by which the rows
are partitioned."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from ottla.spark_jobs.tables.schemas import ARROW_TYPES

DATE: Final = "date"
TOPIC: Final = "topic"


@dataclass(frozen=True, slots=True)
class TableSpec:
    """A table. Its rows are partitioned by topic; with `dated`, the name of a column in ms since the epoch, also by the UTC date of that
    time, in the additional column `date` (null outside the years 1970 to 9999)."""

    name: str
    columns: tuple[tuple[str, str], ...]
    """Names and types of the columns, the types in Spark's DDL."""
    dated: str | None = None

    @property
    def schema(self) -> pa.Schema:
        """The names and types of the table's columns, including `date`."""
        fields = [(name, ARROW_TYPES[kind]) for name, kind in self.columns]
        return pa.schema([*fields, (DATE, pa.date32())] if self.dated else fields)

    @property
    def partition_by(self) -> tuple[str, ...]:
        """The names of the table's partition columns."""
        return (TOPIC, DATE) if self.dated else (TOPIC,)


_PLACE: Final = (("topic", "string"), ("partition", "int"))
_RECORD: Final = (
    *_PLACE,
    ("offset", "bigint"),
    ("timestamp", "bigint"),
    ("key", "binary"),
    ("value", "binary"),
    ("headers", "array<struct<key:string,value:binary>>"),
    ("producer_id", "bigint"),
    ("producer_epoch", "int"),
    ("sequence", "bigint"),
)
RECORDS: Final = TableSpec("records", _RECORD, dated="timestamp")
"""Committed records; each (producer id, epoch, sequence) is in the table once. Each run of `ottla dedup` appends new rows."""
UNIQUE_RECORDS: Final = TableSpec("unique_records", _RECORD, dated="timestamp")
"""Committed records; each business key is in the table once. Each run of `ottla dedup` replaces all rows of the topics that it read,
because a record that appears later may have an earlier timestamp than the copy that an earlier run wrote."""
PRODUCERS: Final = TableSpec(
    "producers",
    (
        ("log_dir", "string"),
        *_PLACE,
        ("producer_id", "bigint"),
        ("producer_epoch", "int"),
        ("transactional", "boolean"),
        ("batches", "bigint"),
        ("records", "bigint"),
        ("first_offset", "bigint"),
        ("last_offset", "bigint"),
        ("first_timestamp", "bigint"),
        ("last_timestamp", "bigint"),
    ),
)
"""One row per partition and producer epoch: the number of batches and records that it wrote, and their offsets and timestamps."""
TRANSACTIONS: Final = TableSpec(
    "transactions",
    (
        ("log_dir", "string"),
        *_PLACE,
        ("producer_id", "bigint"),
        ("producer_epoch", "int"),
        ("transactional_id", "string"),
        ("outcome", "string"),
        ("batches", "bigint"),
        ("records", "bigint"),
        ("first_offset", "bigint"),
        ("marker_offset", "bigint"),
        ("first_timestamp", "bigint"),
        ("marker_timestamp", "bigint"),
    ),
    dated="first_timestamp",
)
"""One row per transaction and partition. `outcome`: commit, abort, or null while the transaction is open. `transactional_id` is null if
`__transaction_state` was not read or does not hold the producer id."""
FINDINGS: Final = TableSpec(
    "findings",
    (
        ("log_dir", "string"),
        ("rule", "string"),
        ("severity", "string"),
        ("kind", "string"),
        *_PLACE,
        ("offset", "bigint"),
        ("file", "string"),
        ("position", "bigint"),
        ("evidence", "string"),
    ),
)
"""One row per finding. `offset` is null if the bytes are not a batch; `position` counts bytes from the start of `file`; `evidence` is a
JSON object."""
FOLLOWED_FINDINGS: Final = TableSpec("followed_findings", (("micro_batch", "bigint"), *FINDINGS.columns))
"""The findings of `ottla audit --follow`. `micro_batch`: the number of the micro-batch in its checkpoint."""
FILES: Final = "path string, size_bytes bigint, rows bigint"
"""The columns of the rows that Spark's tasks return to the driver, one row per data file that a task wrote."""
