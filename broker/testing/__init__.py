"""Tools for tests of Kafka programs: a broker in the test's own process, fault rules, a clock that the test can advance, and a check that
compares what clients sent and received with the logs. The broker is imported only on first use, because pytest imports this package for its
plugin in every environment that has Ottla installed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ottla.broker.testing.in_process import InProcessBroker

__all__ = ["InProcessBroker"]


def __getattr__(name: str) -> Any:
    if name != "InProcessBroker":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from ottla.broker.testing.in_process import InProcessBroker  # noqa: PLC0415 # takes half a second, only for tests that need a broker

    return InProcessBroker
