"""Paired runs: both brokers start afresh, every case goes to one and at once to the other, and who goes first alternates."""

from __future__ import annotations

import shutil
import statistics
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from client_compat.bench.cases import WARM_UP, Case, Measured, measure
from client_compat.support.brokers import BrokerProcess, ottla, tansu

OURS, THEIRS = "ottla", "tansu"


@dataclass(slots=True)
class Results:
    """By broker: start seconds and resident bytes of each run; by (case, broker): each run's measurement, in order."""

    start_seconds: dict[str, list[float]] = field(default_factory=dict)
    rss_idle: dict[str, list[int]] = field(default_factory=dict)
    rss_loaded: dict[str, list[int]] = field(default_factory=dict)
    measured: dict[tuple[str, str], list[Measured]] = field(default_factory=dict)

    def ratios(self, case: Case) -> list[float]:
        """Our rate over theirs, run by run; empty where the other broker did not take part."""
        pairs = zip(self.measured.get((case.name, OURS), []), self.measured.get((case.name, THEIRS), []), strict=False)
        return [ours.rate / theirs.rate for ours, theirs in pairs]

    def median_rate(self, case: Case, broker: str) -> float | None:
        rates = [one.rate for one in self.measured.get((case.name, broker), [])]
        return statistics.median(rates) if rates else None

    def median_cpu(self, case: Case, broker: str) -> float | None:
        costs = [one.cpu_per_million for one in self.measured.get((case.name, broker), [])]
        return statistics.median(costs) if costs else None


def with_producers(cases: Sequence[Case], every: Sequence[Case]) -> list[Case]:
    """The chosen cases, each consume case preceded by the produce case that fills its topic."""
    topics = {case.topic for case in cases if case.verb == "consume"}
    return [case for case in every if case in cases or (case.verb == "produce" and case.topic in topics)]


def bench(cases: Sequence[Case], runs: int, directory: Path, *, brokers: Sequence[str], note: Callable[[str], None]) -> Results:
    """Measure; `note` is told before each single measurement. Raises `BrokerFailed` or `CaseFailed`."""
    results = Results()
    for run in range(runs):
        with ExitStack() as stack:
            running = {name: _start(name, directory, stack, results) for name in brokers}
            for broker in running.values():
                measure(WARM_UP, broker)
            for number, case in enumerate(cases):
                order = list(brokers) if (run + number) % 2 == 0 else list(reversed(brokers))
                for name in order:
                    note(f"run {run + 1}: {case.name}, {name}")
                    results.measured.setdefault((case.name, name), []).append(measure(case, running[name]))
            for name, broker in running.items():
                results.rss_loaded.setdefault(name, []).append(broker.usage().rss_bytes)
    return results


def _start(name: str, directory: Path, stack: ExitStack, results: Results) -> BrokerProcess:
    data = directory / f"{name}-data"
    shutil.rmtree(data, ignore_errors=True)
    output = directory / f"{name}.log"
    broker = ottla(data, output=output) if name == OURS else tansu(output)
    stack.callback(shutil.rmtree, data, ignore_errors=True)
    results.start_seconds.setdefault(name, []).append(broker.start())
    stack.callback(broker.stop)
    results.rss_idle.setdefault(name, []).append(broker.usage().rss_bytes)
    return broker
