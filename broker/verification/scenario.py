"""What a scenario is, and what it is told about the program: the counts of the calm run."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from typing import Final

from ottla.broker.verification.program import Role
from ottla.broker.verification.request_observer import RequestObserver
from ottla.broker.verification.stage import Script, Stage
from ottla.protocol.api_keys import ApiKey

KIP_848_SESSION_MS: Final = 45_000
"""The session of a member whose group protocol leaves it to the broker (`group.consumer.session.timeout.ms`)."""


@dataclass(frozen=True, slots=True)
class Calm:
    """The run without faults: what the program asked for, the topics that it wrote, and what it achieved.

    `from_the_start`: what is broken, is broken at the first request; for a program that asks less when it is not left in peace.
    """

    role: Role
    observer: RequestObserver
    topics: frozenset[str] = frozenset()
    achieved: frozenset[Hashable] = field(default=frozenset(), repr=False)
    from_the_start: bool = False

    @property
    def writes(self) -> bool:
        """Whether it writes to Kafka."""
        return self.observer.calls[ApiKey.PRODUCE] > 0

    @property
    def transactional(self) -> bool:
        """Whether it uses transactions."""
        return bool(self.observer.ends)

    @property
    def grouped(self) -> bool:
        """Whether it reads as the member of a group."""
        return self.observer.calls[ApiKey.JOIN_GROUP] > 0 or self.observer.calls[ApiKey.CONSUMER_GROUP_HEARTBEAT] > 0

    @property
    def mark(self) -> ApiKey:
        """The request by which it shows its progress: Produce, or where it writes nothing the commit of offsets, or the Fetch."""
        if self.writes:
            return ApiKey.PRODUCE
        return ApiKey.OFFSET_COMMIT if self.observer.calls[ApiKey.OFFSET_COMMIT] > 1 else ApiKey.FETCH

    @property
    def session_ms(self) -> int:
        """After how long its membership of a group ends without it; 0 without a group."""
        kip_848 = KIP_848_SESSION_MS if self.observer.calls[ApiKey.CONSUMER_GROUP_HEARTBEAT] else 0
        return max(self.observer.session_timeout_ms, kip_848)

    def part_way(self, api: ApiKey, share: float = 0.5) -> int:
        """How many requests of `api` pass before that share of the work is done."""
        return 0 if self.from_the_start else int(self.observer.calls[api] * share)

    def begun_at_once(self) -> Calm:
        """The same, to break things at the first request."""
        return replace(self, from_the_start=True)


Applies = Callable[[Calm], str | None]
"""Why the scenario has nothing to break in this program; None when it has."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """One mishap. `happens` tells it for people; `script` starts the program and breaks things, on so many `brokers`."""

    name: str
    happens: str
    script: Callable[[Stage, Calm], Script]
    applies: Applies
    brokers: int = 1


def always(_: Calm) -> str | None:
    """Every program meets it."""
    return None


def to_writers(calm: Calm) -> str | None:
    """Programs that write to Kafka."""
    return None if calm.writes else "it writes nothing to Kafka"


def to_idempotent(calm: Calm) -> str | None:
    """Programs with a producer id."""
    return None if calm.observer.idempotent else "it has no producer id: no state to lose"


def to_transactional(calm: Calm) -> str | None:
    """Programs that use transactions."""
    return None if calm.transactional else "it uses no transactions"


def to_transactions_in_a_row(calm: Calm) -> str | None:
    """Programs with at least two transactions."""
    return to_transactional(calm) or (None if len(calm.observer.ends) > 1 else "it makes one transaction only")


def to_members(calm: Calm) -> str | None:
    """Programs that are members of a consumer group."""
    return None if calm.grouped else "it is in no consumer group"
