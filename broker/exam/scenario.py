"""The definition of a scenario, and the facts about the program from the calm run that it uses."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from typing import Final

from ottla.broker.exam.candidate import Role
from ottla.broker.exam.stage import Script, Stage
from ottla.broker.exam.witness import Witness
from ottla.protocol.api_keys import ApiKey

KIP_848_SESSION_MS: Final = 45_000
"""Session timeout of members of the consumer protocol, which the broker sets (`group.consumer.session.timeout.ms`)."""


@dataclass(frozen=True, slots=True)
class Calm:
    """The run without faults: the program's requests, the topics that it wrote, and what it achieved.

    `from_the_start`: faults occur at the first request, for a program that sends fewer requests when there are faults.
    """

    role: Role
    witness: Witness
    topics: frozenset[str] = frozenset()
    achieved: frozenset[Hashable] = field(default=frozenset(), repr=False)
    from_the_start: bool = False

    @property
    def writes(self) -> bool:
        """Whether the program writes to Kafka."""
        return self.witness.calls[ApiKey.PRODUCE] > 0

    @property
    def transactional(self) -> bool:
        """Whether the program uses transactions."""
        return bool(self.witness.ends)

    @property
    def grouped(self) -> bool:
        """Whether the program is a member of a consumer group."""
        return self.witness.calls[ApiKey.JOIN_GROUP] > 0 or self.witness.calls[ApiKey.CONSUMER_GROUP_HEARTBEAT] > 0

    @property
    def mark(self) -> ApiKey:
        """The request that marks the program's progress: Produce; if it does not write, OffsetCommit, or else Fetch."""
        if self.writes:
            return ApiKey.PRODUCE
        return ApiKey.OFFSET_COMMIT if self.witness.calls[ApiKey.OFFSET_COMMIT] > 1 else ApiKey.FETCH

    @property
    def session_ms(self) -> int:
        """The session timeout of its group membership; 0 without a group."""
        kip_848 = KIP_848_SESSION_MS if self.witness.calls[ApiKey.CONSUMER_GROUP_HEARTBEAT] else 0
        return max(self.witness.session_timeout_ms, kip_848)

    def part_way(self, api: ApiKey, share: float = 0.5) -> int:
        """Return the number of requests of `api` until this share of the work is done."""
        return 0 if self.from_the_start else int(self.witness.calls[api] * share)

    def begun_at_once(self) -> Calm:
        """Return a copy with faults at the first request."""
        return replace(self, from_the_start=True)


Applies = Callable[[Calm], str | None]
"""Returns why the scenario does not apply to this program, or None if it does."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """One scenario. `happens` describes the fault for people; `script` starts the program and causes the fault; `brokers` is the number
    used."""

    name: str
    happens: str
    script: Callable[[Stage, Calm], Script]
    applies: Applies
    brokers: int = 1


def always(_: Calm) -> str | None:
    """Apply to every program."""
    return None


def to_writers(calm: Calm) -> str | None:
    """Apply to programs that write to Kafka."""
    return None if calm.writes else "it writes nothing to Kafka"


def to_idempotent(calm: Calm) -> str | None:
    """Apply to programs with a producer id."""
    return None if calm.witness.idempotent else "it has no producer id: no state to lose"


def to_transactional(calm: Calm) -> str | None:
    """Apply to programs that use transactions."""
    return None if calm.transactional else "it uses no transactions"


def to_transactions_in_a_row(calm: Calm) -> str | None:
    """Apply to programs with at least two transactions."""
    return to_transactional(calm) or (None if len(calm.witness.ends) > 1 else "it has only one transaction")


def to_members(calm: Calm) -> str | None:
    """Apply to programs that are members of a consumer group."""
    return None if calm.grouped else "it is not in a consumer group"
