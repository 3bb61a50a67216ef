"""How a follower goes on with one partition: from where it fetches, and what its leader's answer means.

Rules:
* an answer counts only for the offset and the epochs with which was asked, and only while the partition is fetched;
* of an answer that tells of a divergence nothing else counts (KAFKA-13141): the high watermark is that of the next;
* a follower never truncates to its own high watermark as long as its log knows an epoch (KIP-101);
* what cannot be mended by asking again (an epoch that the leader has left behind, an error of the log) ends the fetching until metadata
  says something newer; all else is asked again after a pause.

Source: KAFKA AbstractFetcherThread.processFetchRequest, getOffsetTruncationState, fetchOffsetAndTruncate; KIP-279, KIP-595.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple, Protocol

from ottla.broker.replication.progress import NEVER, UNKNOWN_END
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k01_fetch import EpochEndOffset, FetchPartition, PartitionData

BACKOFF_MS: Final = 1000
"""replica.fetch.backoff.ms."""
NO_EPOCH: Final = -1


class EpochHistory(Protocol):
    """Of `ottla.broker.storage.leader_epochs.LeaderEpochs`, what is asked here."""

    @property
    def latest(self) -> int: ...

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]: ...


class FollowerLog(Protocol):
    """Of `ottla.broker.storage.partition_log.PartitionLog`, what is asked here."""

    @property
    def log_start_offset(self) -> int: ...

    @property
    def log_end_offset(self) -> int: ...

    @property
    def high_watermark(self) -> int: ...

    @property
    def epochs(self) -> EpochHistory: ...


class AppendFetched(NamedTuple):
    """Append the answer's batches, but none of a greater epoch than `leader_epoch` (KAFKA-18723); then take over the leader's high
    watermark and log start, and call `appended`."""

    leader_epoch: int


class TruncateLog(NamedTuple):
    """Drop what is at `offset` and after it; then call `truncated`."""

    offset: int


class RestartLog(NamedTuple):
    """Drop everything, and begin at `offset`; then call `truncated`."""

    offset: int


class FetchAction(Enum):
    """What is done without a number."""

    NOTHING = "it was of no account, or the next fetch does it"
    BACK_OFF = "asked again after a pause"
    ASK_OFFSETS = "ask where the leader's log begins and ends, then call `offsets_answered`"
    FAIL = "not fetched any more until newer metadata says so"


Action = AppendFetched | TruncateLog | RestartLog | FetchAction


class Follower:
    """The fetching of one partition in one leader epoch. Times are in ms of a clock that never goes back."""

    __slots__ = (
        "_asked",
        "_backoff_ms",
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
        self._backoff_ms = max(1, backoff_ms)  # a leader that cannot be asked is not asked without end in one turn
        self.leader_epoch = leader_epoch
        self.last_fetched_epoch = log.epochs.latest
        self.truncating = self.last_fetched_epoch == NO_EPOCH
        """Without any epoch the leader cannot say where the logs part: the log is first cut at its high watermark."""
        self.fetch_offset = log.high_watermark if self.truncating else log.log_end_offset
        self.lag: int | None = None
        """How many committed records the leader has more; None before the first answer."""
        self.delayed_until_ms = NEVER
        """When its last pause ends."""
        self._asked: FetchPartition | None = None

    def is_ready(self, now_ms: int) -> bool:
        """Whether it is to be in the next request."""
        return not self.truncating and not self.is_delayed(now_ms)

    def is_delayed(self, now_ms: int) -> bool:
        """Whether it pauses."""
        return self.delayed_until_ms > now_ms

    def back_off(self, now_ms: int) -> None:
        """Pause, unless it does so already."""
        if not self.is_delayed(now_ms):
            self.delayed_until_ms = now_ms + self._backoff_ms

    def request(self, partition: int, max_bytes: int) -> FetchPartition:
        """What the next request says of it; the same object as long as that is the same."""
        asked, log_start = self._asked, self.log.log_start_offset
        if (
            asked is None
            or asked.fetch_offset != self.fetch_offset
            or asked.last_fetched_epoch != self.last_fetched_epoch
            or asked.log_start_offset != log_start
        ):
            asked = self._asked = FetchPartition(
                partition=partition,
                current_leader_epoch=self.leader_epoch,
                fetch_offset=self.fetch_offset,
                last_fetched_epoch=self.last_fetched_epoch,
                log_start_offset=log_start,
                partition_max_bytes=max_bytes,
            )
        return asked

    # --- the leader's answers ----------------------------------------------------------------------------------------------------

    def answered(self, sent: FetchPartition, got: PartitionData, now_ms: int) -> Action:
        """What is to be done with the answer to a fetch."""
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
        """The leader answered a request of this partition with an error.

        An epoch that it has left behind will never be served again, unless metadata has given a newer one meanwhile.
        """
        if error == ErrorCode.FENCED_LEADER_EPOCH and sent.current_leader_epoch == self.leader_epoch:
            return FetchAction.FAIL
        self.back_off(now_ms)
        return FetchAction.BACK_OFF

    def offsets_answered(self, sent: FetchPartition, leader_start: int, leader_end: int, now_ms: int) -> Action:
        """The leader's log reaches from `leader_start` to `leader_end`, and what was asked for in `sent` is out of that.

        A leader with less than this log was elected uncleanly; one that begins after it has deleted what would come next. Else the leader
        has grown meanwhile, and the same is asked again.
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
        asked = (sent.fetch_offset, sent.current_leader_epoch, sent.last_fetched_epoch)
        return asked == (self.fetch_offset, self.leader_epoch, self.last_fetched_epoch) and self.is_ready(now_ms)

    # --- what was done with them -------------------------------------------------------------------------------------------------

    def appended(self, last_epoch: int | None, leader_high_watermark: int) -> bool:
        """The log took what it should. `last_epoch` is of the last batch, None where there was none: what it fetched last stays what it
        was (KAFKA-15510). True if others are to come before it next time."""
        moved = self.lag is None or self.log.log_end_offset != self.fetch_offset
        self.fetch_offset = self.log.log_end_offset
        self.lag = max(0, leader_high_watermark - self.fetch_offset)
        if last_epoch is not None:
            self.last_fetched_epoch = last_epoch
        return moved

    def truncated(self) -> None:
        """The log was cut, as far as it had to be: it goes on from where it ends."""
        self.truncating = False
        self.fetch_offset = self.log.log_end_offset
        self.last_fetched_epoch = self.log.epochs.latest


def truncation(leaders: EpochEndOffset, log: FollowerLog, otherwise: int) -> int:
    """Where to cut `log`, now that for the epoch of its last record the leader has told its greatest epoch up to that, and that one's end.

    `otherwise` is for a leader that knows no end. Where this log has not the leader's epoch, it is cut where its own last one before that
    ends; the next fetch names that epoch, and may diverge again (KIP-279).
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
