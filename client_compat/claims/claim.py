"""A claim (a common statement about exactly-once), whether it is expected to hold, and the result of trying it.

`taught_right` says beforehand whether the claim is expected to hold. `check` tries it with real clients, and returns whether it held.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from client_compat.claims.environment import ClaimEnvironment


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of trying a claim (a statement about exactly-once). `held`: whether the observed behaviour is the one that the claim
    states. `evidence`: lines with offsets, sequences, epochs and error names."""

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
    """Return a decorator that registers the check of claim `number`, a common statement about exactly-once. `right`: the statement is
    expected to hold; otherwise the check refutes it. `java`: the statement is about the Java client only."""

    def register(check: Check) -> Check:
        assert number not in REGISTRY, f"{number} is taken"
        REGISTRY[number] = Claim(number, text, right, check, java)
        return check

    return register
