"""How `make test` deals the tests out to its workers: a file to one of them, with the fixtures that its tests share. No test leaves loggers
to the next that are other than it found them."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadFileScheduling

from ottla.broker.core.peer_log import PEERS

ONE_SPARK = "tests/unit/spark_jobs/"
"""All of it goes to one worker: a second Spark session would cost a JVM, a gigabyte and half a minute."""

settings.register_profile("ottla", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("ottla")  # no property is about time, and a machine may be busy

_LOGGERS = ("ottla", "ottla.broker", PEERS)


class ByFile(LoadFileScheduling):
    """As `--dist loadfile`, but for what shares the Spark session."""

    def _split_scope(self, nodeid: str) -> str:
        return ONE_SPARK if nodeid.startswith(ONE_SPARK) else super()._split_scope(nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByFile | None:
    return ByFile(config, log) if config.getvalue("dist") == "loadfile" else None


@pytest.fixture(autouse=True)
def _loggers_stay_as_they_are() -> Iterator[None]:
    """A test that runs a command in its own process, or alters a broker's loggers, would let a later one wait for a line in vain."""
    found = [logging.getLogger(name) for name in _LOGGERS]
    before = [(each.level, each.disabled, each.propagate, list(each.filters)) for each in found]
    yield
    for each, (level, each.disabled, each.propagate, filters) in zip(found, before, strict=True):
        if each.level != level:
            each.setLevel(level)
        each.filters[:] = filters
