"""How long an in-process broker, and a cluster of three, takes from nothing to listening: `python -m ottla.broker.testing.start_times`."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

from ottla.broker.testing.cluster import InProcessCluster
from ottla.broker.testing.in_process import InProcessBroker

RUNS = 20


def start_times(make: Callable[[], InProcessBroker | InProcessCluster], runs: int = RUNS) -> list[float]:
    """Milliseconds of each start, the first not counted: it still imports."""
    measured = []
    for _ in range(runs + 1):
        node = make()
        began = time.perf_counter()
        node.start()
        measured.append((time.perf_counter() - began) * 1000)
        node.stop()
    return measured[1:]


if __name__ == "__main__":
    for what, make in (("broker", InProcessBroker), ("cluster of three", InProcessCluster)):
        found = start_times(make)
        took = f"median {statistics.median(found):.1f} ms of {RUNS} (min {min(found):.1f}, max {max(found):.1f})"
        print(f"in-process {what} start to listening: {took}")
