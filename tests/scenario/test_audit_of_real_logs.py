"""Audits the directories of real brokers: Ottla's, killed in the middle of a transaction, and Apache Kafka's. The only finding is the
transaction that the kill left open."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ottla.spark_jobs.audit import audit
from ottla.spark_jobs.verdict import DirectoryVerdict
from tests.support import audited_workload
from tests.support.running_broker import RunningBroker
from tests.support.spark import spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["spark"]
KAFKA_LOG = Path(__file__).parents[1] / "golden" / "kafka_log"


@pytest.fixture(scope="module")
def verdicts(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, DirectoryVerdict]:
    ours = tmp_path_factory.mktemp("ottla") / "data"
    with RunningBroker(ours) as broker:
        audited_workload.run(broker.bootstrap)
        broker.kill()
    judged = audit([ours, KAFKA_LOG], key_field="row", deep=True).directories
    return dict(zip(("ottla", "kafka"), judged, strict=True))


@pytest.mark.parametrize("name", ["ottla", "kafka"])
def test_audit_of_a_killed_brokers_log_finds_only_the_open_transaction(verdicts: dict[str, DirectoryVerdict], name: str) -> None:
    samples = [f for r in verdicts[name].rules.values() for f in r.samples]
    # Ottla keeps the active segment's .txnindex in memory and rebuilds it after a kill, as Kafka's recovery does: an info of the audit.
    missing = [f for f in samples if f.kind == "aborted transaction not in its index"]
    assert all(f.severity == "info" for f in missing)
    found = [(f.rule, str(f.severity), f.kind, f.topic, f.partition) for f in samples if f not in missing]
    assert found == [
        ("hanging-transaction", "info", "open", "payments", 0),
        ("hanging-transaction", "info", "open", "payments", 1),
    ]
    assert {rule for rule, result in verdicts[name].rules.items() if not result.judged} == {"replicas"}
    assert verdicts[name].problems == []


@pytest.mark.parametrize("name", ["ottla", "kafka"])
def test_open_transaction_finding_names_its_transactional_id_and_timeout(verdicts: dict[str, DirectoryVerdict], name: str) -> None:
    evidence = verdicts[name].rules["hanging-transaction"].samples[0].evidence
    assert (evidence["transactional_id"], evidence["coordinator"], evidence["timeout_ms"]) == ("fenced", "Ongoing", 60_000)


def test_both_brokers_wrote_the_same_number_of_records(verdicts: dict[str, DirectoryVerdict]) -> None:
    assert verdicts["ottla"].producers == verdicts["kafka"].producers
    assert verdicts["kafka"].records > 0
