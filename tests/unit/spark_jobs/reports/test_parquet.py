from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq

from ottla.spark_jobs.corpus import payments
from ottla.spark_jobs.reports import parquet
from ottla.spark_jobs.reports.pictures import Pictures
from ottla.spark_jobs.verdict import Verdict


def test_each_finding_is_a_row_with_its_evidence(judged: tuple[Verdict, dict[str, Pictures]], tmp_path: Path) -> None:
    verdict, _ = judged
    parquet.write(verdict, tmp_path / "findings.parquet")
    rows = pq.read_table(tmp_path / "findings.parquet").to_pylist()
    found = sorted((row["rule"], row["kind"], f"{row['topic']}-{row['partition']}@{row['offset']}") for row in rows)
    assert found == sorted(payments.PLANTED)
    assert all("producer_id" in json.loads(row["evidence"]) for row in rows)


def test_a_clean_log_gives_an_empty_table_of_the_same_shape(tmp_path: Path) -> None:
    parquet.write(Verdict([]), tmp_path / "none.parquet")
    assert pq.read_table(tmp_path / "none.parquet").schema.equals(parquet.SCHEMA)
