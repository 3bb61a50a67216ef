"""Tests of the simulation itself: rules of brokers and controllers are broken on purpose (mutations), one at a time. The simulation must
detect each broken rule within some seeds."""

from __future__ import annotations

from typing import Final

from ottla.broker.sim.broker_mutations import OF_BROKERS
from ottla.broker.sim.controller_mutations import OF_THE_CONTROLLER
from ottla.broker.sim.mutation import Mutation
from ottla.broker.sim.share_mutations import OF_SHARE_GROUPS
from ottla.broker.sim.simulation import Outcome, Plan, simulate

MUTATIONS: Final = (*OF_BROKERS, *OF_THE_CONTROLLER, *OF_SHARE_GROUPS)


def found(mutation: Mutation, seeds: range) -> tuple[int, Outcome] | None:
    """Run the simulation for one seed after the other, with the rule of `mutation` broken on purpose. Return the number of seeds that it
    took to detect this, and the failed run; None if no seed detected it."""
    with mutation.made():
        for count, seed in enumerate(seeds, 1):
            outcome = simulate(Plan.of(seed))
            if outcome.violations:
                return count, outcome
    return None
