"""What is measured, of whom, and what came out.

Rules: a case is measured as a whole and gives several figures; what a peer cannot do is a reason in words (`Blank`), never a zero; a ratio
is of two brokers in the same run, so that a machine that was slow in one run was slow for both.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from client_compat.support.brokers import BrokerProcess

if TYPE_CHECKING:
    from client_compat.bench.loads.java import JavaLoad

OURS, REFERENCE = "ottla", "kafka"


class LoadFailed(RuntimeError):
    """A load did not run to its end: a record was refused, or did not come, or a process died."""


class Ability(StrEnum):
    """What a case needs of a broker, beyond taking records. A peer names those that it has not, with the reason."""

    PARTITIONS = "as many partitions as wanted"
    RETENTION = "a log that keeps what was written"
    TRANSACTIONS = "transactions"
    RESTART = "data that outlives the process"
    JAVA = "the Java client"
    CLUSTER = "several brokers that replicate"
    TLS = "a listener behind TLS"
    GROWTH = "a curve beside what is idle"


@dataclass(frozen=True, slots=True)
class Point:
    """Where a figure stands on the curve of that name."""

    curve: str
    percent: int


@dataclass(frozen=True, slots=True)
class Figure:
    """One number of a case. `target` is the bound of our value divided by Apache Kafka's: at least so much where
    more is better, else at most. With a `point` it belongs to a curve.
    """

    name: str
    unit: str
    more_is_better: bool = False
    target: float | None = None
    digits: int = 1
    needs: frozenset[Ability] = frozenset()
    point: Point | None = None

    def kept(self, ratio: float) -> bool:
        """Whether a ratio to Apache Kafka reaches the target; true where there is none."""
        if self.target is None:
            return True
        return ratio >= self.target if self.more_is_better else ratio <= self.target


@dataclass(frozen=True, slots=True)
class Peer:
    """A kind of broker: how one is made over a directory of its own, and what it cannot do, with the reason. `make_cluster` makes three,
    which replicate, to be started, measured and stopped as one; `make_secured` one with a listener behind TLS.
    """

    name: str
    title: str
    make: Callable[[Path], BrokerProcess]
    cannot: Mapping[Ability, str] = field(default_factory=dict)
    make_cluster: Callable[[Path], BrokerProcess] | None = None
    make_secured: Callable[[Path], BrokerProcess] | None = None


@dataclass(frozen=True, slots=True)
class Site:
    """Where a case is measured. `broker` runs and is warm; `fresh` gives another one of its kind, not started, for as long as it is
    entered; several at once are told apart by a name.
    """

    peer: Peer
    broker: BrokerProcess
    java: JavaLoad | None
    fresh: Callable[[str], AbstractContextManager[BrokerProcess]]
    run: int = 0

    def can(self, *needs: Ability) -> bool:
        return not any(need in self.peer.cannot for need in needs)


Values = dict[str, float]
"""By the names of figures."""


@dataclass(frozen=True, slots=True)
class Benchmark:
    """`measure` gives a value for each figure that the peer is able to have; raises `LoadFailed`."""

    name: str
    section: str
    figures: Sequence[Figure]
    measure: Callable[[Site], Values]
    needs: frozenset[Ability] = frozenset()
    writes_bytes: int = 0
    """How much goes to disk, where that is much."""

    @property
    def of_cluster(self) -> bool:
        """Whether it is measured of the peer's cluster."""
        return Ability.CLUSTER in self.needs

    @property
    def of_tls(self) -> bool:
        """Whether it is measured of a broker with a listener behind TLS."""
        return Ability.TLS in self.needs

    def blank(self, peer: Peer, figure: Figure) -> str | None:
        """Why `peer` has no such figure."""
        return next((peer.cannot[need] for need in sorted(self.needs | figure.needs) if need in peer.cannot), None)

    def possible(self, peer: Peer) -> bool:
        return any(self.blank(peer, figure) is None for figure in self.figures)


@dataclass(slots=True)
class Results:
    """`values`: by case, figure and peer, run by run (None where that run gave none). `failures`: what went wrong, in words."""

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
        """Our value over the peer's, run by run."""
        pairs = zip(self.of(case, figure, OURS), self.of(case, figure, peer), strict=False)
        return [ours / theirs for ours, theirs in pairs if ours is not None and theirs]

    def missed(self, cases: Sequence[Benchmark]) -> list[tuple[Benchmark, Figure, float]]:
        """Every figure whose median ratio to Apache Kafka is worse than its target."""
        found = []
        for case in cases:
            for figure in case.figures:
                ratios = self.ratios(case, figure, REFERENCE)
                if ratios and not figure.kept(statistics.median(ratios)):
                    found.append((case, figure, statistics.median(ratios)))
        return found
