"""Is the simulation able to see anything? Rules broken on purpose, one at a time, each of which a campaign has to find."""

from __future__ import annotations

from typing import Final

from ottla.broker.sim.broker_mutations import OF_BROKERS
from ottla.broker.sim.controller_mutations import OF_THE_CONTROLLER
from ottla.broker.sim.mutation import Mutation
from ottla.broker.sim.simulation import Outcome, Plan, simulate

MUTATIONS: Final = (*OF_BROKERS, *OF_THE_CONTROLLER)


def found(mutation: Mutation, seeds: range) -> tuple[int, Outcome] | None:
    """How many of the seeds it took to find it, and what showed it; None where they did not."""
    with mutation.made():
        for count, seed in enumerate(seeds, 1):
            outcome = simulate(Plan.of(seed))
            if outcome.violations:
                return count, outcome
    return None
