"""The definition of a scenario, and what the run without faults (the baseline run) has shown about the program under test."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from typing import Final

from ottla.broker.verification.program import Role
from ottla.broker.verification.request_observer import RequestObserver
from ottla.broker.verification.stage import Script, Stage
from ottla.protocol.api_keys import ApiKey

BROKER_SET_SESSION_MS: Final = 45_000
"""The session timeout of members of consumer and share groups. The broker sets it (`group.consumer.session.timeout.ms`,
`group.share.session.timeout.ms`), so no request contains it."""


CLOCK: Final = "the brokers' clock has to be moved"
STOPS: Final = "brokers have to be stopped, paused or cut off"

_HEARTBEATS: Final = (ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.SHARE_GROUP_HEARTBEAT)


@dataclass(frozen=True, slots=True)
class Baseline:
    """What the baseline run (the run without faults) has shown about the program: its requests (`observer`), the topics that it wrote, and
    what it `achieved`: its effects, or the identities of the records that it wrote.

    `from_the_start`: scenarios cause their fault at the program's first request, because the program sends too few requests when there are
    faults.
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
        """Whether the program ended transactions (EndTxn) in the baseline run."""
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
        a share group, it is ShareAcknowledge, or ShareFetch if the baseline run has at most one ShareAcknowledge; in a consumer group it is
        OffsetCommit, or Fetch if the baseline run has at most one OffsetCommit."""
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
        """Return how many requests of `api` pass before a scenario causes its fault: the fraction `share` (0 to 1) of those in the baseline
        run, or 0 if faults occur from the first request on."""
        return 0 if self.from_the_start else int(self.observer.calls[api] * share)

    def with_faults_from_the_start(self) -> Baseline:
        """Return a copy with which scenarios cause their fault at the program's first request."""
        return replace(self, from_the_start=True)


Applies = Callable[[Baseline], str | None]
"""A function that returns why a scenario does not apply to the program of the baseline run, or None if it applies."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """One scenario of `ottla verify`: a fault, and when it occurs. `happens` describes the fault for people; `script` starts the program
    and causes the fault; `brokers` is the number of brokers that the scenario needs; `needs` says why it cannot run on a user's cluster."""

    name: str
    happens: str
    script: Callable[[Stage, Baseline], Script]
    applies: Applies
    brokers: int = 1
    needs: str | None = None

    @property
    def why_not_on_user_cluster(self) -> str | None:
        """Why the scenario cannot run on a user's own cluster, where faults are caused by a gateway only; None if it can."""
        return self.needs or (STOPS if self.brokers > 1 else None)


def always(_: Baseline) -> str | None:
    """Return None: the scenario applies to every program."""
    return None


def to_writers(baseline: Baseline) -> str | None:
    """Return None if the program writes to Kafka, otherwise why the scenario does not apply to it."""
    return None if baseline.writes else "it writes nothing to Kafka"


def to_idempotent(baseline: Baseline) -> str | None:
    """Return None if the program is an idempotent or transactional producer, otherwise why the scenario does not apply to it."""
    return None if baseline.observer.idempotent else "it has no producer id: no state to lose"


def to_transactional(baseline: Baseline) -> str | None:
    """Return None if the program uses transactions, otherwise why the scenario does not apply to it."""
    return None if baseline.transactional else "it uses no transactions"


def to_transactions_in_a_row(baseline: Baseline) -> str | None:
    """Return None if the program has ended at least two transactions, otherwise why the scenario does not apply to it."""
    return to_transactional(baseline) or (None if len(baseline.observer.ends) > 1 else "it has only one transaction")


def to_share_members(baseline: Baseline) -> str | None:
    """Return None if the program is a member of a share group, otherwise why the scenario does not apply to it."""
    return None if baseline.in_share_group else "it is not in a share group"


def to_members(baseline: Baseline) -> str | None:
    """Return None if the program is a member of a consumer or a share group, otherwise why the scenario does not apply to it."""
    return None if baseline.in_group else "it is not in a group"
