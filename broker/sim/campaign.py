"""Runs the simulation for many seeds. For a failing seed, finds the fewest faults with which it still fails, and describes how to repeat
the run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from typing import Final

from ottla.broker.sim.nemesis import Fault
from ottla.broker.sim.simulation import Outcome, Plan, simulate

SHRINK_RUNS_MAX: Final = 80
AT_ONCE: Final = 8
"""The number of seeds that a worker process gets at a time to simulate."""


def outcomes(seeds: Iterable[int], jobs: int) -> Iterator[Outcome]:
    """Simulate each seed, in `jobs` worker processes, and yield the outcomes in the order of the seeds."""
    if jobs <= 1:
        yield from map(outcome_of_seed, seeds)
        return
    with ProcessPoolExecutor(jobs) as pool:
        yield from pool.map(outcome_of_seed, seeds, chunksize=AT_ONCE)


def outcome_of_seed(seed: int) -> Outcome:
    """Run the simulation that this random seed determines, and return its outcome."""
    return simulate(Plan.of(seed))


def shrunk(failed: Outcome, simulated: Callable[[Plan], Outcome] = simulate) -> Outcome:
    """Repeat a failed simulation with fewer and fewer faults, and return the failing run with the fewest. `simulated(plan)` runs one
    simulation. First halves of the faults are left out, then smaller parts (delta debugging), in at most `SHRINK_RUNS_MAX` runs."""
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
    """Return the faults of the run's plan that were really injected. A planned fault is not injected if it is impossible at its time, such
    as stopping a stopped node."""
    at = {(fault.kind, fault.node, fault.peer, fault.for_ms, fault.draw) for fault in outcome.happened}
    return [fault for fault in outcome.plan.faults if (fault.kind, fault.node, fault.peer, fault.for_ms, fault.draw) in at]


def failure_report(outcome: Outcome, seed_command: Callable[[int], str]) -> list[str]:
    """Return lines that describe a failed run: the violations, when they occurred, the faults, and the shell command that repeats the run,
    which `seed_command(seed)` returns."""
    plan = outcome.plan
    return [
        f"Seed {plan.seed} fails in step {outcome.turns}, after {outcome.virtual_ms / 1000:.3f} s:",
        *(f"  {each}" for each in outcome.violations[:5]),
        f"  faults ({len(plan.faults)}):" if plan.faults else "  no fault is needed",
        *(f"    {fault}" for fault in plan.faults),
        f"  again: {seed_command(plan.seed)}",
    ]
