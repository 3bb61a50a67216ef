"""Whole commands on Spark against a real S3 server: the verdict, the estimate, resumption, and tables that are written there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from ottla.spark_jobs.audit import audit
from ottla.spark_jobs.corpus import CASES, payments
from ottla.spark_jobs.sinks.delta_tables import storage_options
from tests.support.kafka_logs import PartitionWriter
from tests.support.object_store import ACCESS_KEY, SECRET_KEY, find_server, s3_server

pytestmark = [
    pytest.mark.slow,  # each command starts Spark
    pytest.mark.skipif(find_server() is None, reason="versitygw is not built: make object-store"),
]


@dataclass(frozen=True, slots=True)
class Store:
    """An S3 bucket, which is also the local directory `local`."""

    local: Path
    options: str

    def url(self, name: str) -> str:
        return f"s3://bucket/{name}{self.options}"

    def rows(self, table: str) -> list[dict[str, Any]]:
        found = DeltaTable(f"s3://bucket/tables/{table}", storage_options=storage_options(self.url("tables")))
        rows: list[dict[str, Any]] = pa.table(found.to_pyarrow_table()).to_pylist()
        return rows


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """An S3 bucket with a log."""
    for name, value in (("AWS_ACCESS_KEY_ID", ACCESS_KEY), ("AWS_SECRET_ACCESS_KEY", SECRET_KEY), ("AWS_EC2_METADATA_DISABLED", "true")):
        monkeypatch.setenv(name, value)
    bucket = tmp_path / "store" / "bucket"
    payments.plant(bucket / "logs")
    CASES["replay_under_another_id"].write(bucket / "logs")
    program = find_server()
    assert program is not None
    with s3_server(program, tmp_path / "store") as endpoint:
        yield Store(bucket, f"?endpoint_override={endpoint}&scheme=http&region=us-east-1")


def ottla(*arguments: str | Path, code: int = 0) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ottla", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300, env=os.environ)
    assert done.returncode == code, done.stderr
    return done


def on_spark(command: str, *arguments: str | Path, code: int = 0) -> subprocess.CompletedProcess[str]:
    return ottla(command, "--engine", "spark", "--master", "local[1]", *arguments, code=code)


def judged(store: Store, verdict: Path) -> Any:
    """Return the part of a verdict file about the audited directories, with names relative to the bucket."""
    return json.loads(verdict.read_text().replace("s3://bucket/", "").replace(store.options, ""))["directories"]


def locally(store: Store, **options: Any) -> Any:
    """Return what `judged` returns, for the same files audited on the local disk."""
    return json.loads(audit(store.local / "logs", engine="duckdb", **options).to_json().replace(f"{store.local}/", ""))["directories"]


def test_audit_of_an_object_store_has_the_verdict_of_local_files_and_writes_findings_there(tmp_path: Path, store: Store) -> None:
    for _ in range(2):
        options = ["--deep", "--key-field", "row", "--tables", store.url("tables"), "--format", "delta", "--json", tmp_path / "verdict"]
        on_spark("audit", store.url("logs"), *options, code=1)
        findings = [finding for rule in judged(store, tmp_path / "verdict")[0]["rules"].values() for finding in rule["samples"]]
        assert judged(store, tmp_path / "verdict") == locally(store, deep=True, key_field="row")
        assert sorted((row["rule"], row["topic"], row["offset"]) for row in store.rows("findings")) == sorted(
            (finding["rule"], finding["topic"], finding["offset"]) for finding in findings
        )


def test_estimate_for_an_object_store_equals_that_for_local_files(store: Store) -> None:
    output = ottla("audit", "--estimate", "--master", "local[2]", store.url("logs")).stdout
    assert output == ottla("audit", "--estimate", "--master", "local[2]", store.local / "logs").stdout
    assert "Requests:" in output


def test_an_audit_resumes_with_the_partitions_whose_objects_did_not_change(tmp_path: Path, store: Store) -> None:
    arguments = ("audit", store.url("logs"), "--resume", tmp_path / "kept", "--json", tmp_path / "verdict")
    on_spark(*arguments, code=1)
    assert "4 of 4 log partitions were judged" in on_spark(*arguments, code=1).stderr
    PartitionWriter(store.local / "logs", "new", 0).data()
    assert "4 of 5 log partitions were judged" in on_spark(*arguments, code=1).stderr
    assert judged(store, tmp_path / "verdict") == locally(store, deep=False)


def test_dedup_writes_each_record_to_the_store_once_however_often_it_is_run(store: Store) -> None:
    for engine in ("spark", "duckdb"):
        ottla("dedup", "--engine", engine, store.url("logs"), "--to", store.url("tables"), "--format", "delta")
        written = [(row["topic"], row["partition"], row["offset"]) for row in store.rows("records")]
        assert len(written) == len(set(written)) > 6
    ottla("dedup", "--engine", "duckdb", store.local / "logs", "--to", store.local / "by-duckdb", "--format", "delta")
    alike = pa.table(DeltaTable(store.local / "by-duckdb" / "records").to_pyarrow_table()).to_pylist()
    assert sorted(written) == sorted((row["topic"], row["partition"], row["offset"]) for row in alike)
