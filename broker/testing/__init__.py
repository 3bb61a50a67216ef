"""For other people's tests: a broker in the test's own process, faults on demand, a clock that moves, and a verdict.

The broker is imported when it is asked for: every run of pytest in an environment with Ottla in it imports this package for the plugin.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ottla.broker.testing.in_process import InProcessBroker

__all__ = ["InProcessBroker"]


def __getattr__(name: str) -> Any:
    if name != "InProcessBroker":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from ottla.broker.testing.in_process import InProcessBroker  # noqa: PLC0415 # half a second, which only those pay who need a broker

    return InProcessBroker
