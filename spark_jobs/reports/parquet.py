"""The findings as a Parquet file for queries: one row per finding, with its evidence as JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from ottla.spark_jobs.verdict import Verdict

SCHEMA: Final = pa.schema(
    [
        ("log_dir", pa.string()),
        ("rule", pa.string()),
        ("severity", pa.string()),
        ("kind", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("file", pa.string()),
        ("position", pa.int64()),
        ("evidence", pa.string()),
    ]
)
"""`offset` is null if the bytes are not a batch; `position` counts bytes from the start of `file`; `evidence` is a JSON object."""


def write(verdict: Verdict, path: Path) -> None:
    """Write the verdict's samples of findings to `path`."""
    rows = [
        {
            "log_dir": directory.path,
            "rule": finding.rule,
            "severity": str(finding.severity),
            "kind": finding.kind,
            "topic": finding.topic,
            "partition": finding.partition,
            "offset": finding.offset,
            "file": finding.file,
            "position": finding.position,
            "evidence": json.dumps(finding.evidence, default=str),
        }
        for directory in verdict.directories
        for result in directory.rules.values()
        for finding in result.samples
    ]
    pq.write_table(pa.Table.from_pylist(rows, SCHEMA), path)
