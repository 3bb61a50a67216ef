"""The findings in a broker's directory with faulty transactions."""

from __future__ import annotations

from pathlib import Path

from ottla.spark_jobs.audit import audit
from ottla.spark_jobs.corpus import payments


def test_hanging_transaction_finding_names_its_owner_and_the_blocked_offset(tmp_path: Path) -> None:
    payments.plant(tmp_path / "log")
    (directory,) = audit([tmp_path / "log"], engine="duckdb").directories
    finding = next(f for f in directory.rules["hanging-transaction"].samples if f.kind == "over its timeout")
    assert finding.evidence == {
        "producer_id": payments.HANGING, "producer_epoch": 0, "last_stable_offset": 8, "age_ms": 3 * payments.MINUTE_MS,
        "transactional_id": "hanging", "coordinator": "Ongoing", "timeout_ms": payments.MINUTE_MS,
    }  # fmt: skip
