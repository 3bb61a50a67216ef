"""`python -m ottla.broker.sim`: simulates a cluster once for each of many random seeds, and prints the violated invariants."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter

from ottla.broker.layout import CONTROLLER_ID
from ottla.broker.sim.campaign import failure_report, outcomes, shrunk
from ottla.broker.sim.mutations import MUTATIONS, found
from ottla.broker.sim.simulation import Outcome


class Seen:
    """Totals over all simulated runs, such as virtual time, faults and acknowledged records."""

    def __init__(self) -> None:
        self.virtual_ms = self.faults = self.of_controller = self.acknowledged = self.administered = self.unclean = self.lost = 0
        self.shared = Counter[str]()

    def add(self, outcome: Outcome) -> None:
        self.virtual_ms += outcome.virtual_ms
        self.faults += len(outcome.happened)
        self.of_controller += sum(fault.node == CONTROLLER_ID for fault in outcome.happened)
        self.acknowledged += outcome.acknowledged
        self.administered += outcome.administered
        self.unclean += outcome.unclean
        self.lost += outcome.lost
        self.shared.update(dict(zip(("deliveries", "accepted", "given up"), outcome.shared, strict=True)))

    def __str__(self) -> str:
        return (
            f"{self.virtual_ms / 60_000:.1f} virtual minutes, {self.faults} faults ({self.of_controller} of the controller), "
            f"{self.acknowledged} batches acknowledged, {self.administered} admin requests, "
            f"{self.unclean} unclean elections that lost {self.lost} records, as allowed, "
            f"share group: {', '.join(f'{count} {what}' for what, count in self.shared.items())}"
        )


def main() -> int:
    """Run the simulations as the command line says; return the exit code, 1 if an invariant was violated."""
    options = _options()
    if options.mutations:
        return mutations(options.first, options.seeds)
    seeds = range(options.seed, options.seed + 1) if options.seed is not None else range(options.first, options.first + options.seeds)
    began, printed, failed, seen = time.monotonic(), 0.0, 0, Seen()
    for count, outcome in enumerate(outcomes(seeds, options.jobs), 1):
        seen.add(outcome)
        if outcome.violations:
            failed += 1
            print("\n".join(failure_report(shrunk(outcome) if options.shrink else outcome, _command)), flush=True)
        seconds = time.monotonic() - began
        if seconds - printed > 10 or count == len(seeds):
            printed = seconds
            print(f"{count} of {len(seeds)} seeds in {seconds / 60:.1f} minutes: {seen}, {failed} seeds with violations", flush=True)
    return 1 if failed else 0


def mutations(first: int, seeds: int) -> int:
    """Test whether the simulation detects broken rules: for each rule of `MUTATIONS`, break it on purpose and run up to `seeds`
    simulations, from the seed `first` on. Print the results; return the exit code, 1 if a broken rule was not detected."""
    missed = 0
    for mutation in MUTATIONS:
        began = time.monotonic()
        seen = found(mutation, range(first, first + seeds))
        missed += seen is None
        result = f"not detected in {seeds} seeds" if seen is None else f"{seen[0]} seeds: {seen[1].violations[0]}"
        print(f"{mutation.rule}\n    {result} ({time.monotonic() - began:.0f} s)", flush=True)
    print(f"{len(MUTATIONS)} rules broken, {len(MUTATIONS) - missed} detected", flush=True)
    return 1 if missed else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m ottla.broker.sim", description=__doc__)
    parser.add_argument("--seeds", type=int, default=100, help="number of seeds (default 100)")
    parser.add_argument("--first", type=int, default=1, help="the first seed (default 1)")
    parser.add_argument("--seed", type=int, help="run only this seed")
    parser.add_argument("--jobs", type=int, default=1, help="number of processes (default 1)")
    parser.add_argument("--mutations", action="store_true", help="break rules on purpose: each must be detected within --seeds seeds")
    parser.add_argument("--no-shrink", dest="shrink", action="store_false", help="do not reduce a failing seed to the fewest faults")
    return parser.parse_args()


def _command(seed: int) -> str:
    return f"python -m ottla.broker.sim --seed {seed}"


if __name__ == "__main__":
    sys.exit(main())
