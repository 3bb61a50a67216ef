"""How `make test` deals the tests out to its workers: a file to one of them, with the fixtures that its tests share."""

from __future__ import annotations

from typing import Any

import pytest
from xdist.scheduler import LoadFileScheduling

ONE_SPARK = "tests/unit/spark_jobs/"
"""All of it goes to one worker: a second Spark session would cost a JVM, a gigabyte and half a minute."""


class ByFile(LoadFileScheduling):
    """As `--dist loadfile`, but for what shares the Spark session."""

    def _split_scope(self, nodeid: str) -> str:
        return ONE_SPARK if nodeid.startswith(ONE_SPARK) else super()._split_scope(nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByFile | None:
    return ByFile(config, log) if config.getvalue("dist") == "loadfile" else None
