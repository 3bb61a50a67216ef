"""All scenarios, in the order in which they are run."""

from __future__ import annotations

from ottla.broker.exam.scenario import Scenario
from ottla.broker.exam.scenarios import delivery, groups, restarts, transactions

SCENARIOS: tuple[Scenario, ...] = (
    *delivery.SCENARIOS,
    *transactions.SCENARIOS,
    *restarts.SCENARIOS,
    *groups.SCENARIOS,
)

__all__ = ["SCENARIOS"]
