"""How long an in-process broker takes from nothing to listening: `python -m ottla.broker.testing.start_times`."""

from __future__ import annotations

import statistics
import time

from ottla.broker.testing.in_process import InProcessBroker

RUNS = 20


def start_times(runs: int = RUNS) -> list[float]:
    """Milliseconds of each start, the first not counted: it still imports."""
    measured = []
    for _ in range(runs + 1):
        broker = InProcessBroker()
        began = time.perf_counter()
        broker.start()
        measured.append((time.perf_counter() - began) * 1000)
        broker.stop()
    return measured[1:]


if __name__ == "__main__":
    found = start_times()
    print(f"in-process start to listening: median {statistics.median(found):.1f} ms of {RUNS} (min {min(found):.1f}, max {max(found):.1f})")
