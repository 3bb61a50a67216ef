"""One Spark session for all tests that need one: starting Spark takes longer than most of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from ottla.spark_jobs.session import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Run a local Spark session; `audit` uses it too, because it is the active session."""
    with session(log_bytes=0) as running:
        yield running
