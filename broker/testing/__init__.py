"""For other people's tests: a broker in the test's own process, faults on demand, a clock that moves, and a verdict."""

from __future__ import annotations

from broker.testing.in_process import InProcessBroker

__all__ = ["InProcessBroker"]
