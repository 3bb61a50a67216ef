"""The processes of this machine that belong to an audit on Spark."""

from __future__ import annotations

import pytest

from client_compat.bench_audit.masters import DRIVER, JVM, WORKER, kind_of


@pytest.mark.parametrize(
    ("command", "kind"),
    [
        (["python3", "-m", "ottla", "audit", "--engine", "spark"], DRIVER),
        (["python3", "-m", "pyspark.daemon", "pyspark.worker"], WORKER),
        (["python3", "-m", "ottla.spark_jobs.worker_daemon", "pyspark.worker"], WORKER),
        (["java", "-cp", "x", "org.apache.spark.deploy.SparkSubmit", "pyspark-shell"], JVM),
        (["java", "-cp", "x", "org.apache.spark.executor.CoarseGrainedExecutorBackend"], JVM),
        (["java", "-cp", "x", "org.apache.spark.deploy.worker.Worker", "--cores", "1"], None),
        (["java", "-cp", "x", "org.apache.spark.deploy.master.Master"], None),
        ([], None),
    ],
)
def test_each_process_of_an_audit_is_counted_once_by_its_kind(command: list[str], kind: str | None) -> None:
    assert kind_of(command) == kind
