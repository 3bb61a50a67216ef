"""The leader's record of one other replica: its log end offset, and when it was last caught up with the leader.

Source: KAFKA Replica.updateFetchStateOrThrow, resetReplicaState; KIP-903.
"""

from __future__ import annotations

from typing import Final, NamedTuple

UNKNOWN_END: Final = -1
NEVER: Final = -(2**62)
"""A time in ms that is earlier than any time of the clock: the event has not happened yet. Kafka uses 0, but a monotonic clock that starts
at boot may be close to 0."""


class FollowerFetch(NamedTuple):
    """One partition of a follower's Fetch request. The follower's log ends at `offset`: it has every record below that offset."""

    node: int
    offset: int
    log_start: int = 0
    broker_epoch: int = -1
    """The broker epoch of the fetching incarnation; -1 if the request carries none."""
    leader_epoch: int = -1
    """The leader epoch that the follower knows; -1 if the request carries none."""


class SessionFetchTime:
    """The time in ms of the last request in a follower's fetch session. It is the fetch time of every partition of the session, also of
    those that the request does not list.
    """

    __slots__ = ("ms",)

    def __init__(self, ms: int = NEVER) -> None:
        self.ms = ms


class Progress:
    """The leader's state of another replica, derived from that replica's fetches. `broker_epoch` is None until the replica has fetched
    under this leadership.

    While nothing is appended, a follower at the log end repeats the same fetch offset with each request of its session. To avoid visiting
    every partition for each request, `follow_session` makes the session provide the fetch times until `leave_session` is called.
    """

    __slots__ = ("broker_epoch", "caught_up_ms", "fetch_times", "fetched_ms", "leader_end", "log_end", "log_start")

    def __init__(self) -> None:
        self.log_start = UNKNOWN_END
        self.log_end = UNKNOWN_END
        self.leader_end = 0
        """The leader's log end offset at the follower's last fetch."""
        self.fetched_ms = NEVER
        self.caught_up_ms = NEVER
        """The last time at which the replica is known to have had every record of the leader."""
        self.broker_epoch: int | None = None
        self.fetch_times: tuple[SessionFetchTime, ...] = ()

    def fetched(self, fetch: FollowerFetch, leader_end: int, now_ms: int) -> None:
        """Record a fetch at `fetch.offset`. `leader_end` is the leader's log end offset before the read for this fetch.

        While the leader keeps appending, a replica may never reach the log end exactly. So it also counts as caught up if `fetch.offset`
        has reached the log end that the leader had at the replica's previous fetch. It was then caught up at the time of that previous
        fetch.
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

    def follow_session(self, fetch_time: SessionFetchTime) -> None:
        """Count each request of the session as a fetch at the leader's log end, until `leave_session`.

        The last fetch must have been at the log end. When a follower starts a new session, a request of the old one may still be pending.
        The replica then follows two sessions for a while.
        """
        self.fetch_times = (*self.fetch_times, fetch_time)

    def refresh(self) -> None:
        """Update the replica's fetch times from the last request of its fetch session."""
        for fetch_time in self.fetch_times:
            self.caught_up_ms = max(self.caught_up_ms, fetch_time.ms)
            self.fetched_ms = max(self.fetched_ms, fetch_time.ms)

    def leave_session(self, fetch_time: SessionFetchTime) -> None:
        """Undo `follow_session`, because the partition has changed. From now on, a request of the session counts as a fetch of this
        partition only if the partition is read for it."""
        if fetch_time in self.fetch_times:
            self.refresh()
            self.fetch_times = tuple(other for other in self.fetch_times if other is not fetch_time)

    def is_caught_up(self, leader_end: int, now_ms: int, lag_max_ms: int) -> bool:
        """Return whether the replica is at the leader's log end, or was at most `lag_max_ms` ago."""
        return self.log_end == leader_end or now_ms - self.caught_up_ms <= lag_max_ms

    def new_leadership(self, leader_end: int, now_ms: int, *, in_sync: bool, again: bool) -> None:
        """Reset the state for a leader epoch that begins at `leader_end`. A replica that is in the ISR (`in_sync`) counts as caught up now.

        `again` means that the same broker led in the previous epoch: the replica's log start and end offsets are then kept.
        """
        self.fetch_times = ()
        self.caught_up_ms = now_ms if in_sync else NEVER
        self.fetched_ms = now_ms if in_sync and again else NEVER
        self.leader_end = leader_end if again else UNKNOWN_END
        if not again:
            self.log_start = self.log_end = UNKNOWN_END
            self.broker_epoch = None
