"""Reads tables of `ottla.spark_jobs.sinks` back with another engine: DuckDB, over the files that the table's format lists."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import unquote

import duckdb
from deltalake import DeltaTable

from ottla.spark_jobs.sinks import TableFormat
from ottla.spark_jobs.sinks.iceberg_tables import NAME, open_catalog


def read_back(kind: TableFormat, directory: Path, table: str) -> list[dict[str, Any]]:
    """Return the rows of a table, in no order; none if the table does not exist."""
    files = listed(kind, directory, table)
    if not files:
        return []
    with duckdb.connect() as engine:
        found = engine.read_parquet(files, hive_partitioning=kind is not TableFormat.ICEBERG)
        return [dict(zip(found.columns, row, strict=True)) for row in found.fetchall()]


def listed(kind: TableFormat, directory: Path, table: str) -> list[str]:
    """Return the paths of the data files in the table's current version."""
    root = directory / table
    match kind:
        case TableFormat.PARQUET:
            return sorted(map(str, root.glob("**/*.parquet")))
        case TableFormat.DELTA:
            return sorted(map(unquote, DeltaTable(root).file_uris())) if DeltaTable.is_deltatable(str(root)) else []
        case TableFormat.ICEBERG:
            if not directory.exists():
                return []
            with open_catalog(directory) as catalog:
                if not catalog.table_exists((NAME, table)):
                    return []
                return sorted(task.file.file_path for task in catalog.load_table((NAME, table)).scan().plan_files())
