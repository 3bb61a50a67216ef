"""Client processes of a stage: either they end in time with exit code 0, or the stage fails."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from client_compat.support.workers import SPAWN, RunFailed, Workers

LOG = Path("clients.log")


def test_workers_that_exit_successfully_are_awaited() -> None:
    with Workers(time.perf_counter, [(), ()], LOG) as workers:
        workers.finish(60.0)
        assert not workers.any_alive()


def test_failed_worker_fails_the_stage_and_names_the_log() -> None:
    with pytest.raises(RunFailed, match=r"ended with 3; .*clients\.log"), Workers(sys.exit, [(3,)], LOG) as workers:
        workers.finish(60.0)


def test_a_worker_that_does_not_end_fails_the_stage() -> None:
    never = SPAWN.Event()
    with pytest.raises(RunFailed, match="took more than 0 s"), Workers(never.wait, [()], LOG) as workers:
        workers.finish(0.0)
