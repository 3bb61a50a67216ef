from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from ottla.spark_jobs.corpus import payments
from ottla.spark_jobs.reports import parquet
from ottla.spark_jobs.reports.pictures import Pictures
from ottla.spark_jobs.sinks import TableFormat
from ottla.spark_jobs.sinks.schemas import FINDINGS
from ottla.spark_jobs.verdict import Verdict
from tests.support.tables import read_back


def test_each_finding_is_a_parquet_row_with_its_evidence(judged: tuple[Verdict, dict[str, Pictures]], tmp_path: Path) -> None:
    verdict, _ = judged
    parquet.write(verdict, tmp_path / "findings.parquet")
    rows = pq.read_table(tmp_path / "findings.parquet").to_pylist()
    found = sorted((row["rule"], row["kind"], f"{row['topic']}-{row['partition']}@{row['offset']}") for row in rows)
    assert found == sorted(payments.PLANTED)
    assert all("producer_id" in json.loads(row["evidence"]) for row in rows)


def test_clean_log_gives_an_empty_table_with_the_same_schema(tmp_path: Path) -> None:
    parquet.write(Verdict([]), tmp_path / "none.parquet")
    assert pq.read_table(tmp_path / "none.parquet").schema.equals(FINDINGS.schema)


@pytest.mark.parametrize("kind", TableFormat)
def test_findings_table_has_the_findings_of_the_last_audit(
    judged: tuple[Verdict, dict[str, Pictures]], tmp_path: Path, kind: TableFormat
) -> None:
    verdict, _ = judged
    for _ in range(2):
        parquet.write_table(verdict, kind, tmp_path)
        found = sorted(
            (row["rule"], row["kind"], f"{row['topic']}-{row['partition']}@{row['offset']}")
            for row in read_back(kind, tmp_path, "findings")
        )
        assert found == sorted(payments.PLANTED)
    parquet.write_table(Verdict([]), kind, tmp_path)
    assert read_back(kind, tmp_path, "findings") == []
