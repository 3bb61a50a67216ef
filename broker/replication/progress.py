"""What a leader knows of one other replica: how far its log reaches, and when it last had all of the leader's.

Source: KAFKA Replica.updateFetchStateOrThrow, resetReplicaState; KIP-903.
"""

from __future__ import annotations

from typing import Final, NamedTuple

UNKNOWN_END: Final = -1
NEVER: Final = -(2**62)
"""A time in ms before every other. Kafka has 0 here; a clock that counts from the start of the machine may be near it."""


class FollowerFetch(NamedTuple):
    """One partition of a follower's Fetch request. `offset` is where its log ends: it has all below."""

    node: int
    offset: int
    log_start: int = 0
    broker_epoch: int = -1
    """Of the incarnation that asks; -1 where it does not say."""
    leader_epoch: int = -1
    """Of the leadership that it believes in; -1 where it does not say."""


class Pulse:
    """The time, in ms, of the last request in a follower's fetch session: it asks for every partition of the session, named or not."""

    __slots__ = ("ms",)

    def __init__(self, ms: int = NEVER) -> None:
        self.ms = ms


class Progress:
    """Another replica, as its fetches show it. `broker_epoch` is None until it has fetched from this leadership.

    While nothing is appended, a follower that has everything goes on asking for the same offset, once in each request of its session. The
    leader then looks at no partition: `rest` hands the times over to the session's pulse, and `settle` takes them back.
    """

    __slots__ = ("broker_epoch", "caught_up_ms", "fetched_ms", "leader_end", "log_end", "log_start", "pulses")

    def __init__(self) -> None:
        self.log_start = UNKNOWN_END
        self.log_end = UNKNOWN_END
        self.leader_end = 0
        """Where the leader's log ended at its last fetch."""
        self.fetched_ms = NEVER
        self.caught_up_ms = NEVER
        """The last time of which is known that it had all that the leader had."""
        self.broker_epoch: int | None = None
        self.pulses: tuple[Pulse, ...] = ()

    def fetched(self, fetch: FollowerFetch, leader_end: int, now_ms: int) -> None:
        """It asks for what follows `fetch.offset`; the leader's log ended at `leader_end` before it was read for that.

        A replica that is never quite at the end, since the leader goes on appending, has caught up with the end of its previous fetch.
        """
        self.refresh()
        if fetch.offset >= leader_end:
            self.caught_up_ms = max(self.caught_up_ms, now_ms)
        elif fetch.offset >= self.leader_end:
            self.caught_up_ms = max(self.caught_up_ms, self.fetched_ms)
        self.log_start = fetch.log_start
        self.log_end = fetch.offset
        self.leader_end = max(leader_end, self.leader_end)
        self.fetched_ms = now_ms
        self.broker_epoch = fetch.broker_epoch

    def rest(self, pulse: Pulse) -> None:
        """From now on each request of the session is a fetch at the leader's end, until `settle`. The last fetch was one.

        A follower that begins a session leaves one behind, of which a request may still wait: then there are two pulses for a while.
        """
        self.pulses = (*self.pulses, pulse)

    def refresh(self) -> None:
        """Bring the times up to the session's last request."""
        for pulse in self.pulses:
            self.caught_up_ms = max(self.caught_up_ms, pulse.ms)
            self.fetched_ms = max(self.fetched_ms, pulse.ms)

    def settle(self, pulse: Pulse) -> None:
        """End `rest`: something has changed, and the session's next request counts only once the partition is looked at."""
        if pulse in self.pulses:
            self.refresh()
            self.pulses = tuple(other for other in self.pulses if other is not pulse)

    def is_caught_up(self, leader_end: int, now_ms: int, lag_max_ms: int) -> bool:
        """Whether it has all, or had all at most `lag_max_ms` ago. Who has all stays so for however long nothing is appended."""
        return self.log_end == leader_end or now_ms - self.caught_up_ms <= lag_max_ms

    def new_leadership(self, leader_end: int, now_ms: int, *, in_sync: bool, again: bool) -> None:
        """A leader epoch begins at `leader_end`. `again`: of the same leader, who keeps what it knows of the log."""
        self.pulses = ()
        self.caught_up_ms = now_ms if in_sync else NEVER
        self.fetched_ms = now_ms if in_sync and again else NEVER
        self.leader_end = leader_end if again else UNKNOWN_END
        if not again:
            self.log_start = self.log_end = UNKNOWN_END
            self.broker_epoch = None
