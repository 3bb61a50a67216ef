"""The definition of a scenario of `ottla verify`, and of what the run without faults (the baseline run) has shown about the program under
test."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from typing import Final

from ottla.broker.verification.program import Role
from ottla.broker.verification.request_observer import RequestObserver
from ottla.broker.verification.stage import Script, Stage
from ottla.protocol.api_keys import ApiKey

BROKER_SET_SESSION_MS: Final = 45_000
"""The session timeout in ms of members of consumer groups (KIP-848) and share groups. No request contains it, because the broker sets it
(`group.consumer.session.timeout.ms`, `group.share.session.timeout.ms`)."""


CLOCK: Final = "the brokers' clock has to be moved"
STOPS: Final = "brokers have to be stopped, paused or cut off"

_HEARTBEATS: Final = (ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.SHARE_GROUP_HEARTBEAT)


@dataclass(frozen=True, slots=True)
class Baseline:
    """The results of the run without faults (the baseline run) for the program under test: its requests (`observer`), the topics that it
    wrote, and what it `achieved`: its effects outside Kafka, or the identities of the records that it wrote.

    `from_the_start`: scenarios cause their fault at the program's first request. This is used if the fault did not occur in a first try,
    because the program sends fewer requests under faults.
    """

    role: Role
    observer: RequestObserver
    topics: frozenset[str] = frozenset()
    achieved: frozenset[Hashable] = field(default=frozenset(), repr=False)
    from_the_start: bool = False

    @property
    def writes(self) -> bool:
        """Whether the program under test sent Produce requests in the run without faults."""
        return self.observer.calls[ApiKey.PRODUCE] > 0

    @property
    def transactional(self) -> bool:
        """Whether the program under test ended transactions (EndTxn) in the run without faults."""
        return bool(self.observer.ends)

    @property
    def in_group(self) -> bool:
        """Whether the program under test is a member of a classic, consumer or share group."""
        return any(self.observer.calls[api] for api in (ApiKey.JOIN_GROUP, *_HEARTBEATS))

    @property
    def in_share_group(self) -> bool:
        """Whether the program under test is a member of a share group."""
        return self.observer.calls[ApiKey.SHARE_GROUP_HEARTBEAT] > 0

    @property
    def progress_api(self) -> ApiKey:
        """The API whose requests show the progress of the program under test; most faults hit its requests.

        It is Produce if the program writes. In a share group, it is ShareAcknowledge, or ShareFetch if there was at most one
        ShareAcknowledge in the run without faults. In other groups, it is OffsetCommit, or Fetch if there was at most one OffsetCommit.
        """
        if self.writes:
            return ApiKey.PRODUCE
        if self.in_share_group:
            return ApiKey.SHARE_ACKNOWLEDGE if self.observer.calls[ApiKey.SHARE_ACKNOWLEDGE] > 1 else ApiKey.SHARE_FETCH
        return ApiKey.OFFSET_COMMIT if self.observer.calls[ApiKey.OFFSET_COMMIT] > 1 else ApiKey.FETCH

    @property
    def session_ms(self) -> int:
        """The session timeout in ms of the program under test as a group member; 0 if it is in no group."""
        set_by_broker = BROKER_SET_SESSION_MS if any(self.observer.calls[api] for api in _HEARTBEATS) else 0
        return max(self.observer.session_timeout_ms, set_by_broker)

    def part_way(self, api: ApiKey, share: float = 0.5) -> int:
        """Return how many requests of `api` a scenario lets pass before its fault: the fraction `share` (0 to 1) of the number in the run
        without faults. If faults should occur from the first request on, return 0."""
        return 0 if self.from_the_start else int(self.observer.calls[api] * share)

    def with_faults_from_the_start(self) -> Baseline:
        """Return a copy that makes each scenario cause its fault at the program's first request."""
        return replace(self, from_the_start=True)


Applies = Callable[[Baseline], str | None]
"""A function that returns None if a scenario applies to the program under test, otherwise the reason why it does not apply."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """One scenario of `ottla verify`: a fault, and when it occurs. `happens` describes the fault for people. `script` starts the program
    under test and causes the fault. `brokers` is the number of brokers that the scenario needs. `needs` is the reason, if any, why the
    scenario cannot run on a user's own cluster."""

    name: str
    happens: str
    script: Callable[[Stage, Baseline], Script]
    applies: Applies
    brokers: int = 1
    needs: str | None = None

    @property
    def why_not_on_user_cluster(self) -> str | None:
        """The reason why the scenario cannot run on a user's own cluster, or None if it can. On such a cluster, faults are caused only by a
        gateway (a proxy in front of it), which cannot stop brokers or move their clock."""
        return self.needs or (STOPS if self.brokers > 1 else None)


def always(_: Baseline) -> str | None:
    """Return None: the scenario applies to every program."""
    return None


def to_writers(baseline: Baseline) -> str | None:
    """Return None if the program under test writes to Kafka, otherwise the reason why the scenario does not apply to it."""
    return None if baseline.writes else "it writes nothing to Kafka"


def to_idempotent(baseline: Baseline) -> str | None:
    """Return None if the program under test is an idempotent or transactional producer, otherwise the reason why the scenario does not
    apply to it."""
    return None if baseline.observer.idempotent else "it has no producer id: no state to lose"


def to_transactional(baseline: Baseline) -> str | None:
    """Return None if the program under test uses transactions, otherwise the reason why the scenario does not apply to it."""
    return None if baseline.transactional else "it uses no transactions"


def to_transactions_in_a_row(baseline: Baseline) -> str | None:
    """Return None if the program under test ended at least two transactions, otherwise the reason why the scenario does not apply to it."""
    return to_transactional(baseline) or (None if len(baseline.observer.ends) > 1 else "it has only one transaction")


def to_share_members(baseline: Baseline) -> str | None:
    """Return None if the program under test is a member of a share group, otherwise the reason why the scenario does not apply to it."""
    return None if baseline.in_share_group else "it is not in a share group"


def to_members(baseline: Baseline) -> str | None:
    """Return None if the program under test is a member of a group of any type, otherwise the reason why the scenario does not apply to
    it."""
    return None if baseline.in_group else "it is not in a group"
