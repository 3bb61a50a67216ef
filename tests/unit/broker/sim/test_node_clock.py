from __future__ import annotations

from ottla.broker.core.clock import Clock
from ottla.broker.sim.loop import SimLoop
from ottla.broker.sim.node_clock import NodeClock


def test_node_clock_overrides_every_time_method_of_the_real_clock() -> None:
    """If one method read the computer's time, two runs of a seed could differ."""
    reads = {name for name, value in vars(Clock).items() if callable(value) and not name.startswith("_")}
    assert reads == {"now_ms", "mono_ms", "spent_ns"}
    assert reads <= vars(NodeClock).keys()


def test_work_takes_no_time_in_a_simulation() -> None:
    loop = SimLoop()
    clock = NodeClock(loop, drift=50)
    assert clock.spent_ns() == loop.now_us * 1000
