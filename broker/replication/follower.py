"""The fetch state machine of one followed partition: the next fetch offset, and the action that the leader's response requires.

Invariants:
* A response is used only if the fetch offset, the leader epoch and the last fetched epoch are those of its request, and the partition is
  neither truncating nor in back-off.
* If a response has a diverging epoch, the follower only truncates its log (KAFKA-13141). The high watermark comes with the next response.
* A follower never truncates to its own high watermark if its log contains any leader epoch (KIP-101).
* Errors that a retry cannot resolve (a fenced leader epoch, an inconsistent log end) stop the fetch until newer metadata arrives. All other
  errors are retried after a back-off.

Source: KAFKA AbstractFetcherThread.processFetchRequest, getOffsetTruncationState, fetchOffsetAndTruncate; KIP-279, KIP-595.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple, Protocol

from ottla.broker.replication.progress import NEVER, UNKNOWN_END
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k01_fetch import EpochEndOffset, FetchPartition, PartitionData

BACKOFF_MS: Final = 1000
"""Default of replica.fetch.backoff.ms."""
NO_EPOCH: Final = -1


class EpochHistory(Protocol):
    """The part of `ottla.broker.storage.leader_epochs.LeaderEpochs` that a follower reads."""

    @property
    def latest(self) -> int: ...

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]: ...


class FollowerLog(Protocol):
    """The part of `ottla.broker.storage.partition_log.PartitionLog` that a follower reads."""

    @property
    def log_start_offset(self) -> int: ...

    @property
    def log_end_offset(self) -> int: ...

    @property
    def high_watermark(self) -> int: ...

    @property
    def epochs(self) -> EpochHistory: ...


class AppendFetched(NamedTuple):
    """An action: append the batches of the response, except those with a leader epoch above `leader_epoch` (KAFKA-18723).

    Afterwards apply the leader's high watermark and log start offset, and call `appended`.
    """

    leader_epoch: int


class TruncateLog(NamedTuple):
    """An action: delete all records at `offset` and above, then call `truncated`."""

    offset: int


class RestartLog(NamedTuple):
    """An action: delete all records and start an empty log at `offset`, then call `truncated`."""

    offset: int


class FetchAction(Enum):
    """The actions of a follower that have no parameters, such as a back-off."""

    NOTHING = "nothing"
    """Do nothing: the response is outdated, or the next fetch is sufficient."""
    BACK_OFF = "back off"
    """Fetch the partition again after a back-off."""
    ASK_OFFSETS = "ask offsets"
    """Request the leader's log start and end offsets, then call `handle_offsets`."""
    FAIL = "fail"
    """Stop fetching the partition until newer metadata arrives."""


Action = AppendFetched | TruncateLog | RestartLog | FetchAction


class Follower:
    """The fetch state of one partition in one leader epoch. Times are in ms of a monotonic clock."""

    __slots__ = (
        "_backoff_ms",
        "_last_request",
        "delayed_until_ms",
        "fetch_offset",
        "lag",
        "last_fetched_epoch",
        "leader_epoch",
        "log",
        "truncating",
    )

    def __init__(self, log: FollowerLog, leader_epoch: int, backoff_ms: int = BACKOFF_MS) -> None:
        self.log = log
        self._backoff_ms = max(1, backoff_ms)  # a pause of 0 ms would let an unreachable leader be retried endlessly in one event loop turn
        self.leader_epoch = leader_epoch
        self.last_fetched_epoch = log.epochs.latest
        self.truncating = self.last_fetched_epoch == NO_EPOCH
        """Whether the log must first be cut at its high watermark.

        A log without any leader epoch requires this, because the leader cannot determine where the two logs diverge.
        """
        self.fetch_offset = log.high_watermark if self.truncating else log.log_end_offset
        self.lag: int | None = None
        """The number of committed records that the follower lacks; None before the first response."""
        self.delayed_until_ms = NEVER
        """The monotonic time (ms) at which the partition's last back-off ends or has ended; NEVER before the first back-off."""
        self._last_request: FetchPartition | None = None

    def is_ready(self, now_ms: int) -> bool:
        """Return whether the next Fetch request includes the partition: it is neither truncating nor in back-off."""
        return not self.truncating and not self.is_delayed(now_ms)

    def is_delayed(self, now_ms: int) -> bool:
        """Return whether the partition is in back-off."""
        return self.delayed_until_ms > now_ms

    def back_off(self, now_ms: int) -> None:
        """Start a back-off of the partition unless one is running."""
        if not self.is_delayed(now_ms):
            self.delayed_until_ms = now_ms + self._backoff_ms

    def request(self, partition: int, max_bytes: int) -> FetchPartition:
        """Return the partition's entry for the next request.

        Unchanged parameters give the identical object, because `FollowerSession` detects changes by identity.
        """
        fetch_partition, log_start = self._last_request, self.log.log_start_offset
        if (
            fetch_partition is None
            or fetch_partition.fetch_offset != self.fetch_offset
            or fetch_partition.last_fetched_epoch != self.last_fetched_epoch
            or fetch_partition.log_start_offset != log_start
        ):
            fetch_partition = self._last_request = FetchPartition(
                partition=partition,
                current_leader_epoch=self.leader_epoch,
                fetch_offset=self.fetch_offset,
                last_fetched_epoch=self.last_fetched_epoch,
                log_start_offset=log_start,
                partition_max_bytes=max_bytes,
            )
        return fetch_partition

    # --- the leader's responses --------------------------------------------------------------------------------------------------

    def handle_response(self, sent: FetchPartition, got: PartitionData, now_ms: int) -> Action:
        """Return the action that the partition's part of a Fetch response requires. `sent` is the partition's entry in the request."""
        if not self._is_of_now(sent, now_ms):
            return FetchAction.NOTHING
        if got.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            return FetchAction.ASK_OFFSETS
        if got.error_code:
            return self.refused(got.error_code, sent, now_ms)
        if got.diverging_epoch.epoch >= 0:
            return TruncateLog(truncation(got.diverging_epoch, self.log, self.fetch_offset))
        if self.log.log_end_offset != self.fetch_offset:
            return FetchAction.FAIL
        return AppendFetched(self.leader_epoch)

    def refused(self, error: int, sent: FetchPartition, now_ms: int) -> FetchAction:
        """Return the action that an error response for this partition requires: FAIL for a fenced leader epoch, otherwise BACK_OFF.

        A leader never serves a fenced leader epoch again, so a retry is useless, unless newer metadata has changed the epoch since the
        request.
        """
        if error == ErrorCode.FENCED_LEADER_EPOCH and sent.current_leader_epoch == self.leader_epoch:
            return FetchAction.FAIL
        self.back_off(now_ms)
        return FetchAction.BACK_OFF

    def handle_offsets(self, sent: FetchPartition, leader_start: int, leader_end: int, now_ms: int) -> Action:
        """Return the action that the leader's log start and end offsets require, after the fetch described by `sent` was out of the
        leader's range.

        A leader whose log ends before this log was elected uncleanly: truncate. A leader whose log starts after the end of this log has
        deleted the next records: restart there. Otherwise the leader's log has grown since, and the same fetch is repeated.
        """
        if not self._is_of_now(sent, now_ms):
            return FetchAction.NOTHING
        log_end = self.log.log_end_offset
        self.lag = max(0, leader_end - max(leader_start, log_end))
        if leader_end < log_end:
            return TruncateLog(leader_end)
        if leader_start > log_end:
            return RestartLog(leader_start)
        self.truncated()
        return FetchAction.NOTHING

    def _is_of_now(self, sent: FetchPartition, now_ms: int) -> bool:
        """Return whether `sent` has the current fetch offset and epochs, and the partition is ready. Otherwise the response is stale."""
        sent_position = (sent.fetch_offset, sent.current_leader_epoch, sent.last_fetched_epoch)
        return sent_position == (self.fetch_offset, self.leader_epoch, self.last_fetched_epoch) and self.is_ready(now_ms)

    # --- completed actions -------------------------------------------------------------------------------------------------------

    def appended(self, last_epoch: int | None, leader_high_watermark: int) -> bool:
        """Update the fetch state after an append. Returns whether the partition moves to the end of the fetch order.

        `last_epoch` is the leader epoch of the last appended batch. If it is None, nothing was appended, and the last fetched epoch stays
        unchanged (KAFKA-15510).
        """
        moved = self.lag is None or self.log.log_end_offset != self.fetch_offset
        self.fetch_offset = self.log.log_end_offset
        self.lag = max(0, leader_high_watermark - self.fetch_offset)
        if last_epoch is not None:
            self.last_fetched_epoch = last_epoch
        return moved

    def truncated(self) -> None:
        """Continue to fetch at the end of the log, after the log was truncated or was found to need no truncation."""
        self.truncating = False
        self.fetch_offset = self.log.log_end_offset
        self.last_fetched_epoch = self.log.epochs.latest


def truncation(leaders: EpochEndOffset, log: FollowerLog, otherwise: int) -> int:
    """Return the offset at which to truncate `log`.

    `leaders` is the leader's answer: its largest leader epoch that is not above the follower's last one, and the end offset of that epoch.
    If `log` has that epoch, it is cut where the epoch ends in either log, whichever is first. If not, it is cut at the end of its largest
    epoch below the leader's; the next fetch carries that epoch and may diverge again (KIP-279). If the answer has no end offset, the
    result is `otherwise`.
    """
    if leaders.end_offset == UNKNOWN_END:
        return otherwise
    bound = log.log_end_offset
    if leaders.epoch == NO_EPOCH:
        return min(leaders.end_offset, bound)
    epoch, end = log.epochs.end_offset_for(leaders.epoch, bound)
    if end == UNKNOWN_END:
        return min(leaders.end_offset, bound)
    if epoch != leaders.epoch:
        return min(end, bound)
    return min(end, leaders.end_offset, bound)
