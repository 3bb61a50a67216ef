"""A claim, what is known of it, and what came of running it.

Rule: a check says whether the claim AS TAUGHT held; `taught_right` says beforehand whether it is expected to.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from client_compat.claims.environment import ClaimEnvironment


@dataclass(frozen=True, slots=True)
class CheckResult:
    """`held`: the claim as taught is what happened. `evidence`: offsets, sequences, epochs and error names, a line each."""

    held: bool
    happened: str
    evidence: list[str] = field(default_factory=list)


Check = Callable[["ClaimEnvironment"], CheckResult]


@dataclass(frozen=True, slots=True)
class Claim:
    number: int
    text: str
    taught_right: bool
    check: Check
    java: bool = False

    @property
    def expected(self) -> str:
        return "held" if self.taught_right else "refuted"


REGISTRY: dict[int, Claim] = {}


def claim(number: int, text: str, *, right: bool = True, java: bool = False) -> Callable[[Check], Check]:
    """Register the check below. `right`: as taught, it is true. `java`: it is about the Java client only."""

    def register(check: Check) -> Check:
        assert number not in REGISTRY, f"{number} is taken"
        REGISTRY[number] = Claim(number, text, right, check, java)
        return check

    return register
