"""Arrow schemas for the columns that `ottla.spark_jobs.columns` declares in Spark's DDL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from ottla.spark_jobs.columns import LEVELS, SEGMENT_COLUMNS

ARROW_TYPES: Final = {
    "string": pa.string(),
    "binary": pa.binary(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "array<string>": pa.list_(pa.string()),
    "array<struct<key:string,value:binary>>": pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
}


def arrow_schema(level: str, columns: Sequence[str] | None = None) -> pa.Schema:
    """Return the schema of a level, or of some of its columns in the given order. Raises ValueError on an unknown level, KeyError on an
    unknown column."""
    if level not in LEVELS:
        raise ValueError(f"unknown level {level!r}: one of {', '.join(LEVELS)}")
    kinds = SEGMENT_COLUMNS | LEVELS[level]
    return pa.schema([(name, ARROW_TYPES[kinds[name]]) for name in (kinds if columns is None else columns)])
