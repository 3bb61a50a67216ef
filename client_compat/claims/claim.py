"""A claim, what is known of it, and what came of running it.

Rule: a check says whether the claim AS TAUGHT held; `taught_right` says beforehand whether it is expected to.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from client_compat.claims.world import World


@dataclass(frozen=True, slots=True)
class CheckResult:
    """`held`: the claim as taught is what happened. `evidence`: offsets, sequences, epochs and error names, a line each."""

    held: bool
    happened: str
    evidence: list[str] = field(default_factory=list)


Check = Callable[["World"], CheckResult]


@dataclass(frozen=True, slots=True)
class Claim:
    """`waits_for` is what a claim needs that one broker has not; then there is no check."""

    number: int
    text: str
    taught_right: bool
    check: Check | None = None
    java: bool = False
    waits_for: str = ""

    @property
    def expected(self) -> str:
        return "held" if self.taught_right else "refuted"


REGISTRY: dict[int, Claim] = {
    12: Claim(12, "Deduplication survives a change of leader, because id and sequence are in the log", True, waits_for="replication")
}


def claim(number: int, text: str, *, right: bool = True, java: bool = False) -> Callable[[Check], Check]:
    """Register the check below. `right`: as taught, it is true. `java`: it is about the Java client only."""

    def register(check: Check) -> Check:
        assert number not in REGISTRY, f"{number} is taken"
        REGISTRY[number] = Claim(number, text, right, check, java)
        return check

    return register
