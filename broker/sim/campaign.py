"""Many seeds one after the other; of one that fails, how to repeat it, and the fewest faults with which it still fails."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from typing import Final

from ottla.broker.sim.nemesis import Fault
from ottla.broker.sim.simulation import Outcome, Plan, simulate

SHRINK_RUNS_MAX: Final = 80
AT_ONCE: Final = 8
"""Seeds that a worker is given at a time."""


def outcomes(seeds: Iterable[int], jobs: int) -> Iterator[Outcome]:
    """What came of each seed, in their order."""
    if jobs <= 1:
        yield from map(of_seed, seeds)
        return
    with ProcessPoolExecutor(jobs) as pool:
        yield from pool.map(of_seed, seeds, chunksize=AT_ONCE)


def of_seed(seed: int) -> Outcome:
    """What comes of it."""
    return simulate(Plan.of(seed))


def shrunk(failed: Outcome, simulated: Callable[[Plan], Outcome] = simulate) -> Outcome:
    """The same seed with as few faults as it still fails with, as far as `SHRINK_RUNS_MAX` runs find out. Halves are left out first, then
    smaller parts, as delta debugging does it."""
    best, runs, size = replace(failed, plan=replace(failed.plan, faults=tuple(_planned(failed)))), 0, len(failed.happened)
    if not simulated(best.plan).violations:
        best = failed
        size = len(best.plan.faults)
    while size:
        size = max(size // 2, 1)
        for start in range(0, len(best.plan.faults), size):
            fewer = best.plan.faults[:start] + best.plan.faults[start + size :]
            runs += 1
            tried = simulated(replace(best.plan, faults=fewer))
            if tried.violations:
                best = tried
                break
            if runs >= SHRINK_RUNS_MAX:
                return best
        else:
            if size == 1:
                break
    return best


def _planned(outcome: Outcome) -> list[Fault]:
    """Of the plan's faults those that happened."""
    at = {(fault.kind, fault.node, fault.peer, fault.for_ms, fault.draw) for fault in outcome.happened}
    return [fault for fault in outcome.plan.faults if (fault.kind, fault.node, fault.peer, fault.for_ms, fault.draw) in at]


def story(outcome: Outcome, seed_command: Callable[[int], str]) -> list[str]:
    """Of a failed run: what was wrong, when, after which faults, and how to see it again."""
    plan = outcome.plan
    return [
        f"Seed {plan.seed} fails in step {outcome.turns}, after {outcome.virtual_ms / 1000:.3f} s:",
        *(f"  {each}" for each in outcome.violations[:5]),
        f"  faults ({len(plan.faults)}):" if plan.faults else "  no fault is needed",
        *(f"    {fault}" for fault in plan.faults),
        f"  again: {seed_command(plan.seed)}",
    ]
