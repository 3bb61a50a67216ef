"""Measures how long an in-process broker and an in-process cluster of three brokers take to start: `python -m
ottla.broker.testing.start_times`."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

from ottla.broker.testing.cluster import InProcessCluster
from ottla.broker.testing.in_process import InProcessBroker

RUNS = 20


def start_times(make: Callable[[], InProcessBroker | InProcessCluster], runs: int = RUNS) -> list[tuple[float, float]]:
    """Start the node that `make` returns `runs` times; return the elapsed time and the processor time of each start, in ms. One start
    before them, which still imports modules, is not counted."""
    measured = []
    for _ in range(runs + 1):
        node = make()
        began, worked = time.perf_counter(), time.process_time()
        node.start()
        measured.append(((time.perf_counter() - began) * 1000, (time.process_time() - worked) * 1000))
        node.stop()
    return measured[1:]


if __name__ == "__main__":
    for what, make in (("broker", InProcessBroker), ("cluster of three", InProcessCluster)):
        walls, works = zip(*start_times(make), strict=True)
        took = f"median {statistics.median(walls):.1f} ms of {RUNS} (min {min(walls):.1f}, max {max(walls):.1f})"
        print(f"in-process {what} start to listening: {took}, of the processor {statistics.median(works):.1f} ms")
