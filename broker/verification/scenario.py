"""The definition of a scenario, and the facts about the program from the calm run that it uses."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from typing import Final

from ottla.broker.verification.program import Role
from ottla.broker.verification.request_observer import RequestObserver
from ottla.broker.verification.stage import Script, Stage
from ottla.protocol.api_keys import ApiKey

BROKER_SET_SESSION_MS: Final = 45_000
"""Session timeout of members of consumer and share groups, which the broker sets (`group.consumer.session.timeout.ms`,
`group.share.session.timeout.ms`)."""


CLOCK: Final = "the brokers' clock has to be moved"
STOPS: Final = "brokers have to be stopped, paused or cut off"

_HEARTBEATS: Final = (ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.SHARE_GROUP_HEARTBEAT)


@dataclass(frozen=True, slots=True)
class Calm:
    """The calm run (the run without faults): the program's requests, the topics that it wrote, and its effects.

    `from_the_start`: faults occur at the first request, for a program that sends fewer requests when there are faults.
    """

    role: Role
    observer: RequestObserver
    topics: frozenset[str] = frozenset()
    achieved: frozenset[Hashable] = field(default=frozenset(), repr=False)
    from_the_start: bool = False

    @property
    def writes(self) -> bool:
        """Whether the program writes to Kafka."""
        return self.observer.calls[ApiKey.PRODUCE] > 0

    @property
    def transactional(self) -> bool:
        """Whether the program ended transactions (EndTxn) in the calm run."""
        return bool(self.observer.ends)

    @property
    def in_group(self) -> bool:
        """Whether the program is a member of a consumer group or a share group."""
        return any(self.observer.calls[api] for api in (ApiKey.JOIN_GROUP, *_HEARTBEATS))

    @property
    def in_share_group(self) -> bool:
        """Whether the program is a member of a share group."""
        return self.observer.calls[ApiKey.SHARE_GROUP_HEARTBEAT] > 0

    @property
    def progress_api(self) -> ApiKey:
        """The API whose requests show the program's progress, and which most faults hit. It is Produce if the program writes. Otherwise, in
        a share group, it is ShareAcknowledge, or ShareFetch if the calm run has at most one ShareAcknowledge; in a consumer group it is
        OffsetCommit, or Fetch if the calm run has at most one OffsetCommit."""
        if self.writes:
            return ApiKey.PRODUCE
        if self.in_share_group:
            return ApiKey.SHARE_ACKNOWLEDGE if self.observer.calls[ApiKey.SHARE_ACKNOWLEDGE] > 1 else ApiKey.SHARE_FETCH
        return ApiKey.OFFSET_COMMIT if self.observer.calls[ApiKey.OFFSET_COMMIT] > 1 else ApiKey.FETCH

    @property
    def session_ms(self) -> int:
        """The session timeout of the program's group membership in ms; 0 without a group."""
        set_by_broker = BROKER_SET_SESSION_MS if any(self.observer.calls[api] for api in _HEARTBEATS) else 0
        return max(self.observer.session_timeout_ms, set_by_broker)

    def part_way(self, api: ApiKey, share: float = 0.5) -> int:
        """Return the number of requests of `api` after which a fault occurs: the fraction `share` (0 to 1) of those that the calm run made,
        or 0 if faults occur at the first request."""
        return 0 if self.from_the_start else int(self.observer.calls[api] * share)

    def with_faults_from_the_start(self) -> Calm:
        """Return a copy of these facts, with which faults occur at the program's first request."""
        return replace(self, from_the_start=True)


Applies = Callable[[Calm], str | None]
"""Returns why the scenario does not apply to this program, or None if it does."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """One scenario of the verification: a fault, and when it occurs. `happens` describes the fault for people; `script` starts the program
    and causes the fault; `brokers` is the number of brokers used."""

    name: str
    happens: str
    script: Callable[[Stage, Calm], Script]
    applies: Applies
    brokers: int = 1
    needs: str | None = None

    @property
    def needs_power(self) -> str | None:
        """Why the scenario cannot run on the user's cluster, behind a gateway; None if it can."""
        return self.needs or (STOPS if self.brokers > 1 else None)


def always(_: Calm) -> str | None:
    """Return None: the scenario applies to every program."""
    return None


def to_writers(calm: Calm) -> str | None:
    """Return None if the program writes to Kafka, otherwise why the scenario does not apply to it."""
    return None if calm.writes else "it writes nothing to Kafka"


def to_idempotent(calm: Calm) -> str | None:
    """Return None if the program has a producer id, otherwise why the scenario does not apply to it."""
    return None if calm.observer.idempotent else "it has no producer id: no state to lose"


def to_transactional(calm: Calm) -> str | None:
    """Return None if the program uses transactions, otherwise why the scenario does not apply to it."""
    return None if calm.transactional else "it uses no transactions"


def to_transactions_in_a_row(calm: Calm) -> str | None:
    """Return None if the program has made at least two transactions, otherwise why the scenario does not apply to it."""
    return to_transactional(calm) or (None if len(calm.observer.ends) > 1 else "it has only one transaction")


def to_share_members(calm: Calm) -> str | None:
    """Return None if the program is a member of a share group, otherwise why the scenario does not apply to it."""
    return None if calm.in_share_group else "it is not in a share group"


def to_members(calm: Calm) -> str | None:
    """Return None if the program is a member of a consumer or a share group, otherwise why the scenario does not apply to it."""
    return None if calm.in_group else "it is not in a group"
