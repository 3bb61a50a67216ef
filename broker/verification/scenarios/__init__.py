"""All scenarios of `ottla verify` (each tests the user's program under one kind of fault), in the order in which they run."""

from __future__ import annotations

from ottla.broker.verification.scenario import Scenario
from ottla.broker.verification.scenarios import delivery, groups, leaders, restarts, shares, transactions

SCENARIOS: tuple[Scenario, ...] = (
    *delivery.SCENARIOS,
    *transactions.SCENARIOS,
    *restarts.SCENARIOS,
    *groups.SCENARIOS,
    *shares.SCENARIOS,
    *leaders.SCENARIOS,
)

__all__ = ["SCENARIOS"]
