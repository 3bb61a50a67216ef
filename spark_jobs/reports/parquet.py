"""The findings as a Parquet file or as a table of any format, for queries: one row per finding, with its evidence as JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from ottla.spark_jobs.sinks import TableFormat, open_sink
from ottla.spark_jobs.sinks.schemas import FINDINGS
from ottla.spark_jobs.verdict import Verdict


def write(verdict: Verdict, path: Path) -> None:
    """Write the verdict's samples of findings to the file `path`."""
    pq.write_table(rows(verdict), path)


def write_table(verdict: Verdict, kind: TableFormat, directory: str | Path) -> None:
    """Replace the content of the table `findings` in `directory` by the verdict's samples of findings. Raises CannotJudge if the table
    cannot be opened or another run has changed it, OSError if it cannot be written."""
    with open_sink(kind, directory, FINDINGS) as sink:
        sink.commit(sink.staging.stage(rows(verdict)), {}, None)


def rows(verdict: Verdict) -> pa.Table:
    """Return the verdict's samples of findings, with the columns of FINDINGS."""
    found = [
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
    return pa.Table.from_pylist(found, FINDINGS.schema)
