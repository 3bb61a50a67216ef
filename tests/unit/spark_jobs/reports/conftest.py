from __future__ import annotations

from pathlib import Path

import pytest

from ottla.spark_jobs.audit import audit
from ottla.spark_jobs.corpus import payments
from ottla.spark_jobs.reports.pictures import Pictures
from ottla.spark_jobs.verdict import Verdict


@pytest.fixture(scope="session")
def judged(tmp_path_factory: pytest.TempPathFactory) -> tuple[Verdict, dict[str, Pictures]]:
    """The verdict on the directory with faulty transactions, and the data of the report's pictures."""
    path: Path = tmp_path_factory.mktemp("reports") / "log"
    payments.plant(path)
    pictures: dict[str, Pictures] = {}
    return audit([path, path.parent / "absent"], engine="duckdb", pictures=pictures), pictures
