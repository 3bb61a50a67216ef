"""The state machine of one partition replica: leadership, ISR and high watermark. It has no log, no clock and no I/O.

Invariants:
* A leader's high watermark is the lowest log end offset of the ISR, itself included, and never decreases. A follower's high watermark is
  the one that its leader last sent, limited to its own log end; it may decrease.
* An election does not move the high watermark. Records above it become committed only when every in-sync replica has them.
* With flush.messages set, a leader counts only the records on its disk toward the high watermark while a sync is due or running.
* The log end of an in-sync follower is unknown until it fetches under this leadership. An unknown log end blocks the high watermark.
* A leader that is re-elected in the very next epoch keeps the log ends of its followers. If it missed an epoch, it discards them, because
  another leader may have truncated the followers. (Kafka keeps them, and may then commit records that a follower has lost.)
* Metadata with an older partition epoch is ignored. Metadata with the same epoch is applied, because the response to a proposal may arrive
  before its record, but a proposal sent since then stays pending. (Kafka discards it, and may then commit records that a new ISR member
  lacks.)
* Every state change returns the effects that the caller has to carry out.

Source: KAFKA Partition.maybeIncrementLeaderHW, makeLeader, makeFollower, updateFollowerFetchState, submitAlterPartition; KIP-101, KIP-279.
"""

from __future__ import annotations

from typing import Final

from ottla.broker.core.log_config import INT64_MAX
from ottla.broker.core.rejected import Rejected
from ottla.broker.replication.brokers import Brokers
from ottla.broker.replication.in_sync import ERROR_REACTIONS, Accepted, ErrorReaction, InSync, Proposal
from ottla.broker.replication.leadership import REPLICA_LAG_TIME_MAX_MS, Leadership, Registration
from ottla.broker.replication.progress import FollowerFetch
from ottla.protocol.error_codes import ErrorCode

NOTHING: Final = 0
SYNC: Final = 1
"""An effect of a state change, one bit of a bit set: the caller must sync the log to disk."""
COMMITTED: Final = 2
"""An effect of a state change, one bit of a bit set: the high watermark has moved."""
PROPOSE: Final = 4
"""An effect of a state change, one bit of a bit set: the caller must send `Replica.proposal` to the controller."""
LOW_WATERMARK: Final = 8
"""An effect of a state change, one bit of a bit set: another replica's log start offset has increased, so the low watermark may have
moved."""
FETCH: Final = 16
"""An effect of a state change, one bit of a bit set: another leader epoch has begun, so the caller must restart the fetch from the leader,
even if the leader is the same broker."""


class Replica:
    """The replica of a partition on this broker. End offsets are exclusive. Times are in ms of a monotonic clock.

    Each state change returns its effects as a bit set of the constants in this module, or `NOTHING`.
    """

    __slots__ = (
        "_held",
        "_sync_counts_to",
        "_syncing",
        "has_followers",
        "high_watermark",
        "leader_epoch",
        "leadership",
        "leads",
        "log_end",
        "partition_epoch",
        "synced",
    )

    def __init__(
        self,
        *,
        log_end: int,
        synced: int,
        high_watermark: int,
        brokers: Brokers | None = None,
        lag_max_ms: int = REPLICA_LAG_TIME_MAX_MS,
    ) -> None:
        self.leads = False
        """Whether this replica is the leader."""
        self.leader_epoch = -1
        self.partition_epoch = -1
        self.log_end = log_end
        self.synced = synced
        """Every record below this offset is on disk."""
        self.high_watermark = high_watermark
        self.leadership = Leadership(brokers or Brokers(), lag_max_ms)
        """The state of the other replicas; empty while this replica follows."""
        self.has_followers = False
        """Whether this replica leads and the partition has other replicas. A leader without followers commits every append at once, without
        reading the clock."""
        self._syncing = False
        self._sync_counts_to = INT64_MAX
        self._held = False

    @property
    def own_end(self) -> int:
        """The end offset up to which this replica's own log counts for acknowledgements: its log end offset or, while flush.messages
        requires a sync, the end of the records on disk (at least the high watermark).
        """
        return max(self.synced, self.high_watermark) if self._held else self.log_end

    @property
    def sync_is_due(self) -> bool:
        """Whether flush.messages requires a sync of records in the log, and that sync has not completed."""
        return self._held and self.synced < self.log_end

    @property
    def sync_may_begin(self) -> bool:
        """Whether the log has records that are not on disk, and no sync is running."""
        return not self._syncing and self.synced < self.log_end

    # --- leadership --------------------------------------------------------------------------------------------------------------

    def is_stale(self, registration: Registration) -> bool:
        """Return whether this replica has already applied a newer partition epoch than that of `registration`."""
        return registration.partition_epoch < self.partition_epoch

    def is_elected(self, registration: Registration) -> bool:
        """Return whether `registration` begins a new leader epoch."""
        return registration.leader_epoch > self.leader_epoch

    def lead(self, registration: Registration, now_ms: int) -> int:
        """Become or stay leader according to a metadata record. A new partition epoch discards the pending proposal. Return the effects, a
        bit set of `SYNC`, `COMMITTED`, `PROPOSE` and so on."""
        if self.is_stale(registration):
            return NOTHING
        self.leadership.assigned(registration, news=registration.partition_epoch > self.partition_epoch)
        if self.is_elected(registration):
            again = self.leads and registration.leader_epoch == self.leader_epoch + 1
            self.leadership.began(self.log_end, now_ms, again=again)
            self.leader_epoch = registration.leader_epoch
        self.partition_epoch = registration.partition_epoch
        self.leads = True
        self.has_followers = bool(self.leadership.followers)
        return self._committed(now_ms)

    def follow(self, registration: Registration) -> int:
        """Become or stay follower according to a metadata record, in which another replica or none leads. Return the effects, a bit set of
        `SYNC`, `COMMITTED`, `PROPOSE` and so on."""
        if self.is_stale(registration):
            return NOTHING
        elected = self.is_elected(registration)
        self.leads = self.has_followers = False
        self.leader_epoch = registration.leader_epoch
        self.partition_epoch = registration.partition_epoch
        self.leadership.ended(registration)
        return FETCH if elected else NOTHING

    @property
    def high_watermark_lags_epoch_start(self) -> bool:
        """Whether this leader has not yet confirmed that all records from before its leader epoch are committed.

        Until then its high watermark may be lower than the previous leader's, so ListOffsets rejects lookups at or above it (KIP-207).
        """
        return self.leads and self.leadership.epoch_start > self.high_watermark

    def check_epoch(self, requested: int) -> None:
        """Reject a request whose leader epoch differs from the current one (KIP-320). An epoch of -1 disables the check.

        Raises Rejected with FENCED_LEADER_EPOCH for an older epoch, with UNKNOWN_LEADER_EPOCH for a newer one.
        """
        if requested not in {-1, self.leader_epoch}:
            raise Rejected(ErrorCode.FENCED_LEADER_EPOCH if requested < self.leader_epoch else ErrorCode.UNKNOWN_LEADER_EPOCH)

    def check_leads(self) -> None:
        """Raise Rejected (NOT_LEADER_OR_FOLLOWER) if this replica is not the leader."""
        if not self.leads:
            raise Rejected(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    # --- the other replicas ------------------------------------------------------------------------------------------------------

    def check_follower(self, node: int, leader_epoch: int) -> None:
        """Raise Rejected if `node` may not fetch from this replica as a follower in `leader_epoch` (-1: not specified): the epoch is not
        the current one, this replica is not the leader, or `node` is not an assigned replica.

        A node that is not assigned may have newer metadata than this broker. The error UNKNOWN_LEADER_EPOCH makes that node retry in the
        same epoch (KAFKA-14078).
        """
        self.check_epoch(leader_epoch)
        self.check_leads()
        if node not in self.leadership.followers:
            raise Rejected(ErrorCode.NOT_LEADER_OR_FOLLOWER if leader_epoch == -1 else ErrorCode.UNKNOWN_LEADER_EPOCH)

    def fetched(self, fetch: FollowerFetch, leader_end: int, now_ms: int) -> int:
        """Record a follower's fetch that did not diverge, and return the effects, a bit set of `SYNC`, `COMMITTED`, `PROPOSE` and so on.
        `leader_end` is this log's end offset before the read for that fetch.

        Raises Rejected if the broker may not fetch as a follower (`check_follower`), or if it has registered again since it took the broker
        epoch in the fetch (KIP-903).
        """
        self.check_follower(fetch.node, fetch.leader_epoch)
        leadership = self.leadership
        if leadership.has_replaced(fetch):
            raise Rejected(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"broker {fetch.node} has registered again since epoch {fetch.broker_epoch}")
        progress = leadership.followers[fetch.node]
        has_grown, has_deleted = fetch.offset != progress.log_end, fetch.log_start != progress.log_start
        lowest_start = leadership.lowest_start() if has_deleted else 0
        progress.fetched(fetch, leader_end, now_ms)
        effects = self._propose(leadership.expansion(fetch.node, self.high_watermark, self.log_end, now_ms))
        if has_grown:
            effects |= self._committed(now_ms)
        if has_deleted and leadership.lowest_start() > lowest_start:
            effects |= LOW_WATERMARK
        return effects

    def maybe_shrink_isr(self, now_ms: int) -> int:
        """Propose to remove lagging replicas from the ISR (KAFKA Partition.maybeShrinkIsr). Return the effects, a bit set of `SYNC`,
        `COMMITTED`, `PROPOSE` and so on.

        The caller does this at intervals of half of replica.lag.time.max.ms.
        """
        return self._propose(self.leadership.shrinkage(self.log_end, now_ms))

    @property
    def followers_may_lag(self) -> bool:
        """Whether an in-sync follower is not at the log end, so that it may lag as time passes even if nothing else changes."""
        return self.has_followers and not self.leadership.followers_caught_up(self.log_end)

    @property
    def proposal(self) -> Proposal | None:
        """The ISR change that is pending at the controller, or None."""
        return self.leadership.in_sync.proposal

    def proposal_completed(self, proposal: Proposal, answer: Accepted | ErrorCode, now_ms: int) -> int:
        """Handle the controller's response to a proposal, and return the effects, a bit set of `SYNC`, `COMMITTED`, `PROPOSE` and so on.
        The response is ignored if the proposal is no longer the pending one."""
        leadership = self.leadership
        if leadership.in_sync.proposal is not proposal:
            return NOTHING
        if isinstance(answer, ErrorCode):
            reaction = ERROR_REACTIONS.get(answer, ErrorReaction.RETRY)
            if reaction is ErrorReaction.REVERT:
                leadership.in_sync = InSync.settled(leadership.in_sync.committed)
                return self._committed(now_ms)
            return PROPOSE if reaction is ErrorReaction.RETRY else NOTHING
        if answer.leader_epoch != self.leader_epoch or answer.partition_epoch < self.partition_epoch:
            return NOTHING
        self.partition_epoch = answer.partition_epoch
        leadership.in_sync = InSync.settled(answer.members)
        return self._committed(now_ms)

    def _propose(self, nodes: frozenset[int] | None) -> int:
        if nodes is None:
            return NOTHING
        self.leadership.propose(Proposal(self.leader_epoch, self.partition_epoch, self.leadership.members(nodes)))
        return PROPOSE

    # --- acks=all, DeleteRecords -------------------------------------------------------------------------------------------------

    def check_enough_in_sync(self) -> None:
        """Raise Rejected (NOT_ENOUGH_REPLICAS) if the ISR is too small for acks=all. Call this before the append."""
        if self.leadership.below_min_in_sync:
            raise Rejected(ErrorCode.NOT_ENOUGH_REPLICAS, f"{len(self.leadership.in_sync.committed)} replica(s) are in sync")

    def check_enough_in_sync_after_append(self) -> None:
        """Raise Rejected (NOT_ENOUGH_REPLICAS_AFTER_APPEND) if the maximal ISR (committed and proposed members) is too small when the
        records of an acks=all append become committed."""
        if len(self.leadership.in_sync.maximal) < self.leadership.effective_min_in_sync:
            raise Rejected(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, f"{len(self.leadership.in_sync.maximal)} replica(s) are in sync")

    def min_in_sync_changed(self, min_in_sync: int, now_ms: int) -> int:
        """Apply a new value of the topic's min.insync.replicas. Return the effects, a bit set of `SYNC`, `COMMITTED`, `PROPOSE` and so
        on."""
        self.leadership.min_in_sync = min_in_sync
        return self._committed(now_ms)

    def low_watermark(self, log_start: int) -> int:
        """Return the lowest log start offset of all live replicas. `log_start` is that of this replica."""
        return min(log_start, self.leadership.lowest_start())

    # --- this replica's log ------------------------------------------------------------------------------------------------------

    def appended(self, log_end: int, now_ms: int, flush_messages: int = INT64_MAX) -> int:
        """Record an append, and return the effects, a bit set of `SYNC`, `COMMITTED`, `PROPOSE` and so on. `flush_messages` is the topic's
        flush.messages: the number of unsynced records that makes a sync due."""
        self.log_end = log_end
        if flush_messages == INT64_MAX:
            self._held = False
            if self.has_followers or not self.leads:
                return self._committed(now_ms)
            self.high_watermark = log_end
            return COMMITTED
        due = log_end - self.synced >= flush_messages
        self._held = due or self._syncing
        return (SYNC if due else NOTHING) | self._committed(now_ms)

    def sync_began(self) -> None:
        """Record the start of a sync, which covers the records in the log now."""
        self._syncing = True
        self._sync_counts_to = INT64_MAX

    def sync_ended(self, offset: int, now_ms: int, flush_messages: int = INT64_MAX) -> int:
        """Record the end of a sync, and return the effects, a bit set of `SYNC`, `COMMITTED`, `PROPOSE` and so on. `offset` is the log end
        offset at which the sync began; every record below it is on disk."""
        self._syncing = False
        self.synced = max(self.synced, min(offset, self._sync_counts_to))
        self._held = self.log_end - self.synced >= flush_messages
        return (SYNC if self._held else NOTHING) | self._committed(now_ms)

    def update_high_watermark(self, high_watermark: int) -> int:
        """Set a follower's high watermark to the leader's, limited to this log's end. Return the effects, a bit set of `SYNC`, `COMMITTED`,
        `PROPOSE` and so on."""
        reached = min(high_watermark, self.log_end)
        if reached == self.high_watermark:
            return NOTHING
        self.high_watermark = reached
        return COMMITTED

    def truncated(self, log_end: int) -> int:
        """Record that the log was truncated at `log_end`. Return the effects, a bit set of `SYNC`, `COMMITTED`, `PROPOSE` and so on."""
        self.log_end = log_end
        self.synced = min(self.synced, log_end)
        self._sync_counts_to = min(self._sync_counts_to, log_end)
        if self.high_watermark <= log_end:
            return NOTHING
        self.high_watermark = log_end
        return COMMITTED

    def restarted(self, offset: int) -> None:
        """Record that the log was emptied and now starts at `offset`."""
        self.log_end = self.synced = self.high_watermark = offset
        self._sync_counts_to = min(self._sync_counts_to, offset)

    def _committed(self, now_ms: int) -> int:
        if not self.leads:
            return NOTHING
        end = self.own_end if self._held else self.log_end
        if self.has_followers:
            end = self.leadership.committable(end, self.log_end, now_ms)
        if end <= self.high_watermark:
            return NOTHING
        self.high_watermark = end
        return COMMITTED
