"""The benchmark's model. A case is one load, a figure one number that it yields, a peer one of the compared brokers, and a site the running
broker of a peer, at which cases are measured.

Rules:
- A case is measured as a whole and returns several figures.
- If a peer lacks an ability, its figure is missing with a reason, never zero.
- A ratio compares two brokers of the same run, so that a slow phase of the machine affects both.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from client_compat.support.brokers import BrokerProcess

OURS, REFERENCE = "ottla", "kafka"


class LoadFailed(RuntimeError):
    """Raised when a load did not complete: a record was rejected or missing, or a process died."""


class Ability(StrEnum):
    """The abilities of a broker that a case may require. A peer (a broker under comparison) lists those that it lacks, with the reason."""

    PARTITIONS = "as many partitions as wanted"
    RETENTION = "a log that keeps what was written"
    TRANSACTIONS = "transactions"
    RESTART = "data that outlives the process"
    JAVA = "the Java client"
    CLUSTER = "several brokers that replicate"
    TLS = "a listener behind TLS"
    SHARE = "share groups"
    GROWTH = "a curve beside what is idle"
    MARKS = "marks to return to"


@dataclass(frozen=True, slots=True)
class Point:
    """The position of a figure on a curve of the charts: the curve's name, and the percentage on the x axis."""

    curve: str
    percent: int


@dataclass(frozen=True, slots=True)
class Figure:
    """One number that a benchmark case measures.

    `target` limits Ottla's value divided by Apache Kafka's: a minimum if `more_is_better`, else a maximum. A figure with a `point` belongs
    to a curve.
    """

    name: str
    unit: str
    more_is_better: bool = False
    target: float | None = None
    digits: int = 1
    needs: frozenset[Ability] = frozenset()
    point: Point | None = None

    def kept(self, ratio: float) -> bool:
        """Return whether `ratio`, which is Ottla's value divided by Apache Kafka's, meets the figure's target; True if the figure has no
        target."""
        if self.target is None:
            return True
        return ratio >= self.target if self.more_is_better else ratio <= self.target


@dataclass(frozen=True, slots=True)
class Peer:
    """A kind of broker that the benchmark compares: how to create one in its own directory, and the abilities that it lacks, with reasons.

    `make_cluster` creates three replicating brokers that are started, measured and stopped as one. `make_secured` creates one with a TLS
    listener.
    """

    name: str
    title: str
    make: Callable[[Path], BrokerProcess]
    cannot: Mapping[Ability, str] = field(default_factory=dict)
    make_cluster: Callable[[Path], BrokerProcess] | None = None
    make_secured: Callable[[Path], BrokerProcess] | None = None


class JavaClient(Protocol):
    """Measures a broker through the Java client: its producer, its consumer, and its share consumers. All methods raise `LoadFailed` if the
    client fails or does not answer in time. Durations are in seconds."""

    def produce(self, bootstrap: str, topic: str, partitions: int, record_bytes: int, records: int) -> float: ...

    def consume(self, bootstrap: str, topic: str, partitions: int, records: int) -> float: ...
    def join(self, bootstrap: str, topic: str, group: str, consumers: int) -> None: ...
    def share(self, records: int) -> float: ...
    def pace(self, bootstrap: str, topic: str, rate: int, records: int) -> tuple[float, float]: ...
    def leave(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Site:
    """The environment in which a case is measured on one kind of broker.

    `broker` is running and warmed up. `fresh` creates another broker of the same kind, not started, as a context manager; its argument
    names the new broker's directory. `java` is None if no Java client is available. `run` is the number of the run, which makes topic names
    unique.
    """

    peer: Peer
    broker: BrokerProcess
    java: JavaClient | None
    fresh: Callable[[str], AbstractContextManager[BrokerProcess]]
    run: int = 0

    def can(self, *needs: Ability) -> bool:
        return not any(need in self.peer.cannot for need in needs)


Values = dict[str, float]
"""The result of one measurement: a value for each figure, by the figure's name."""


@dataclass(frozen=True, slots=True)
class Benchmark:
    """One case of the benchmark. `measure` runs its load at a site, and returns a value for each figure that this kind of broker supports,
    by the figure's name; `measure` raises `LoadFailed` if the load does not complete. `needs` are abilities without which the case is left
    out."""

    name: str
    section: str
    figures: Sequence[Figure]
    measure: Callable[[Site], Values]
    needs: frozenset[Ability] = frozenset()
    writes_bytes: int = 0
    """How many bytes the case writes to disk. If not 0, memory is allocated and freed before the case (see `memory.touch`)."""

    @property
    def of_cluster(self) -> bool:
        """Whether the case needs a cluster of replicating brokers."""
        return Ability.CLUSTER in self.needs

    @property
    def of_tls(self) -> bool:
        """Whether the case needs a TLS listener."""
        return Ability.TLS in self.needs

    def blank(self, peer: Peer, figure: Figure) -> str | None:
        """Return why `peer` (a broker under comparison) has no value for this figure of the case; None if it has one."""
        return next((peer.cannot[need] for need in sorted(self.needs | figure.needs) if need in peer.cannot), None)

    def possible(self, peer: Peer) -> bool:
        return any(self.blank(peer, figure) is None for figure in self.figures)


@dataclass(slots=True)
class Results:
    """The results of a benchmark.

    `values` holds, by case, figure and peer, one value for each run (None if the run failed). `failures` holds the error messages.
    """

    runs: int
    peers: list[str]
    values: dict[str, dict[str, dict[str, list[float | None]]]] = field(default_factory=dict)
    failures: dict[str, dict[str, list[str]]] = field(default_factory=dict)
    about: dict[str, str] = field(default_factory=dict)

    def add(self, case: Benchmark, peer: str, values: Values) -> None:
        for figure in case.figures:
            of_case = self.values.setdefault(case.name, {}).setdefault(figure.name, {})
            of_case.setdefault(peer, []).append(values.get(figure.name))

    def fail(self, case: Benchmark, peer: str, reason: str) -> None:
        self.failures.setdefault(case.name, {}).setdefault(peer, []).append(reason)
        self.add(case, peer, {})

    def of(self, case: Benchmark, figure: Figure, peer: str) -> list[float | None]:
        return self.values.get(case.name, {}).get(figure.name, {}).get(peer, [])

    def median(self, case: Benchmark, figure: Figure, peer: str) -> float | None:
        found = [value for value in self.of(case, figure, peer) if value is not None]
        return statistics.median(found) if found else None

    def ratios(self, case: Benchmark, figure: Figure, peer: str) -> list[float]:
        """Return, for each run, Ottla's value of the figure divided by that of `peer` (the name of a broker under comparison)."""
        pairs = zip(self.of(case, figure, OURS), self.of(case, figure, peer), strict=False)
        return [ours / theirs for ours, theirs in pairs if ours is not None and theirs]

    def missed(self, cases: Sequence[Benchmark]) -> list[tuple[Benchmark, Figure, float]]:
        """Return every figure whose ratio to Apache Kafka misses its target, with its case and the median ratio over all runs."""
        found = []
        for case in cases:
            for figure in case.figures:
                ratios = self.ratios(case, figure, REFERENCE)
                if ratios and not figure.kept(statistics.median(ratios)):
                    found.append((case, figure, statistics.median(ratios)))
        return found
