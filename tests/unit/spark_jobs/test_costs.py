from __future__ import annotations

from pathlib import Path

from ottla.spark_jobs.audit import audit
from ottla.spark_jobs.corpus import payments
from ottla.spark_jobs.corpus.payments import MINUTE_MS, Partition
from ottla.spark_jobs.costs import TopicCosts


def costs(root: Path) -> list[TopicCosts]:
    (directory,) = audit([root], engine="duckdb").directories
    return directory.costs


def test_log_without_transactions_has_no_transaction_costs(tmp_path: Path) -> None:
    Partition(tmp_path, "payments", 0).data(1, 0, 0, 0, transactional=False)
    assert costs(tmp_path) == []


def test_transaction_lengths_lags_and_aborted_bytes_are_those_of_the_log(tmp_path: Path) -> None:
    log = Partition(tmp_path, "payments", 0)
    log.data(1, 0, 0, 0)  # offsets 0 and 1, aborted by the marker at 4
    log.data(2, -1, -1, 0, transactional=False)
    log.marker(1, 1, 2, committed=False)
    log.data(1, 1, 0, 3)  # offsets 5 and 6, committed by the marker at 7
    log.marker(1, 2, 4)
    log.data(1, 2, 0, 5)  # offsets 8 and 9, open
    (cost,) = costs(tmp_path)
    assert (cost.committed, cost.aborted, cost.open) == (1, 1, 1)
    assert (cost.length_ms_p50, cost.length_ms_p99, cost.length_ms_max) == (MINUTE_MS, 2 * MINUTE_MS, 2 * MINUTE_MS)
    assert (cost.lag_records_p99, cost.lag_records_max) == (4, 4)
    assert cost.transactional_bytes == 3 * cost.aborted_bytes
    assert 0 < cost.aborted_share < 1


def test_internal_topics_have_no_transaction_costs(tmp_path: Path) -> None:
    payments.plant(tmp_path / "log")
    assert [cost.topic for cost in costs(tmp_path / "log")] == ["payments"]
