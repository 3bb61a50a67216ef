"""What one replica of a partition knows of itself and of the others, and what follows from it. No log, no clock, no loop.

Rules:
* A leader's high watermark is the least log end of all in-sync replicas, itself included, and it never goes back. A follower's is what its
  leader last said, as far as its own log reaches; it may go back.
* It is not moved by an election: what lies above becomes committed only when every in-sync replica has it.
* A leader counts its own log only as far as its sync rule allows (flush.messages): while a sync is due or under way, up to what is on disk.
* What an in-sync follower has is unknown until it fetches from this leadership, and an unknown end holds the high watermark where it is.
* A leader that is elected again in the very next epoch goes on knowing that. After an epoch of which it was not told it does not: another
  may have led, and made its followers cut what they had. (Kafka goes on knowing, and may then commit what a follower has no more.)
* Metadata of an older partition epoch is ignored. Of the same it is taken, as the answer to a proposal may come before its record; but what
  has been proposed since stays under way. (Kafka forgets it, and may then commit what a new member of the in-sync set lacks.)
* Every change says what has to be done for it.

Source: KAFKA Partition.maybeIncrementLeaderHW, makeLeader, makeFollower, updateFollowerFetchState, submitAlterPartition; KIP-101, KIP-279.
"""

from __future__ import annotations

from typing import Final

from ottla.broker.core.log_config import INT64_MAX
from ottla.broker.core.rejected import Rejected
from ottla.broker.replication.brokers import Brokers
from ottla.broker.replication.in_sync import VERDICTS, Accepted, InSync, Proposal, Verdict
from ottla.broker.replication.leadership import REPLICA_LAG_TIME_MAX_MS, Leadership, Registration
from ottla.broker.replication.progress import FollowerFetch
from ottla.protocol.error_codes import ErrorCode

NOTHING: Final = 0
SYNC: Final = 1
"""Records have to go to disk first."""
COMMITTED: Final = 2
"""The high watermark has moved."""
PROPOSE: Final = 4
"""The controller is to be asked for `proposal`."""
LOW_WATERMARK: Final = 8
"""Another replica has deleted what was before its log start: the low watermark may have moved."""
FETCH: Final = 16
"""A leadership has begun elsewhere: fetching begins anew, from the same broker too."""


class Replica:
    """The replica of one broker. Offsets are of records; ends are one past the last; times are in ms of a clock that never goes back.

    Each change returns effects, a sum of those above, or `NOTHING`.
    """

    __slots__ = (
        "_held",
        "_sync_counts_to",
        "_syncing",
        "high_watermark",
        "leader_epoch",
        "leads",
        "log_end",
        "others",
        "partition_epoch",
        "shared",
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
        """Whether appends come from clients, or from another broker."""
        self.leader_epoch = -1
        self.partition_epoch = -1
        self.log_end = log_end
        self.synced = synced
        """Everything below it is on disk."""
        self.high_watermark = high_watermark
        self.others = Leadership(brokers or Brokers(), lag_max_ms)
        """What is known of the other replicas; nothing while following."""
        self.shared = False
        """Whether this replica leads others; without them every append is committed, and the time of it is not looked at."""
        self._syncing = False
        self._sync_counts_to = INT64_MAX
        self._held = False

    @property
    def own_end(self) -> int:
        """How far this replica's own log counts: to its end, or to what is on disk while a sync is due."""
        return max(self.synced, self.high_watermark) if self._held else self.log_end

    @property
    def sync_is_due(self) -> bool:
        """Whether flush.messages asks for a sync of what is in the log, which has not ended."""
        return self._held and self.synced < self.log_end

    @property
    def sync_may_begin(self) -> bool:
        """Whether there is something to sync, and no sync is under way."""
        return not self._syncing and self.synced < self.log_end

    # --- who leads ---------------------------------------------------------------------------------------------------------------

    def is_stale(self, registration: Registration) -> bool:
        """Whether something newer than `registration` is known already."""
        return registration.partition_epoch < self.partition_epoch

    def is_elected(self, registration: Registration) -> bool:
        """Whether `registration` begins a leadership."""
        return registration.leader_epoch > self.leader_epoch

    def lead(self, registration: Registration, now_ms: int) -> int:
        """Metadata says that this replica leads, and with whom. What was proposed before is forgotten if the partition epoch is new."""
        if self.is_stale(registration):
            return NOTHING
        self.others.assigned(registration, news=registration.partition_epoch > self.partition_epoch)
        if self.is_elected(registration):
            again = self.leads and registration.leader_epoch == self.leader_epoch + 1
            self.others.began(self.log_end, now_ms, again=again)
            self.leader_epoch = registration.leader_epoch
        self.partition_epoch = registration.partition_epoch
        self.leads = True
        self.shared = bool(self.others.followers)
        return self._committed(now_ms)

    def follow(self, registration: Registration) -> int:
        """Metadata says that another replica leads, or none."""
        if self.is_stale(registration):
            return NOTHING
        elected = self.is_elected(registration)
        self.leads = self.shared = False
        self.leader_epoch = registration.leader_epoch
        self.partition_epoch = registration.partition_epoch
        self.others.ended(registration)
        return FETCH if elected else NOTHING

    @property
    def lags_its_epoch(self) -> bool:
        """Whether this leader does not know yet that all is committed that it began with: where the log ends is no news for clients."""
        return self.leads and self.others.epoch_start > self.high_watermark

    def check_epoch(self, requested: int) -> None:
        """Raises Rejected when a client knows another leader epoch (KIP-320); -1 asks for no check."""
        if requested not in {-1, self.leader_epoch}:
            raise Rejected(ErrorCode.FENCED_LEADER_EPOCH if requested < self.leader_epoch else ErrorCode.UNKNOWN_LEADER_EPOCH)

    def check_leads(self) -> None:
        """Raises Rejected where another replica leads."""
        if not self.leads:
            raise Rejected(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    # --- the other replicas ------------------------------------------------------------------------------------------------------

    def check_follower(self, node: int, leader_epoch: int) -> None:
        """Raises Rejected where `node` may not fetch from this replica as a follower in `leader_epoch` (-1: not said).

        Who is not assigned has newer metadata, perhaps, than this broker: it is to try again in this epoch (KAFKA-14078).
        """
        self.check_epoch(leader_epoch)
        self.check_leads()
        if node not in self.others.followers:
            raise Rejected(ErrorCode.NOT_LEADER_OR_FOLLOWER if leader_epoch == -1 else ErrorCode.UNKNOWN_LEADER_EPOCH)

    def fetched(self, fetch: FollowerFetch, leader_end: int, now_ms: int) -> int:
        """A follower has fetched, and did not diverge. `leader_end` is where this log ended before it was read for that.

        Raises Rejected as `check_follower` does, and for an incarnation that has been replaced (KIP-903).
        """
        self.check_follower(fetch.node, fetch.leader_epoch)
        others = self.others
        if others.has_replaced(fetch):
            raise Rejected(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"broker {fetch.node} has registered again since epoch {fetch.broker_epoch}")
        progress = others.followers[fetch.node]
        has_grown, has_deleted = fetch.offset != progress.log_end, fetch.log_start != progress.log_start
        lowest_start = others.lowest_start() if has_deleted else 0
        progress.fetched(fetch, leader_end, now_ms)
        effects = self._propose(others.expansion(fetch.node, self.high_watermark, self.log_end, now_ms))
        if has_grown:
            effects |= self._committed(now_ms)
        if has_deleted and others.lowest_start() > lowest_start:
            effects |= LOW_WATERMARK
        return effects

    def look_for_laggards(self, now_ms: int) -> int:
        """Who lags behind leaves the in-sync set. To be called every half of replica.lag.time.max.ms."""
        return self._propose(self.others.shrinkage(self.log_end, now_ms))

    @property
    def may_lag(self) -> bool:
        """Whether `look_for_laggards` may find one before something changes."""
        return self.shared and not self.others.have_all(self.log_end)

    @property
    def proposal(self) -> Proposal | None:
        """The in-sync set that the controller is asked for."""
        return self.others.in_sync.proposal

    def answered(self, proposal: Proposal, answer: Accepted | ErrorCode, now_ms: int) -> int:
        """The controller has answered a proposal. Of no account unless that is still the present one."""
        others = self.others
        if others.in_sync.proposal is not proposal:
            return NOTHING
        if isinstance(answer, ErrorCode):
            verdict = VERDICTS.get(answer, Verdict.RETRY)
            if verdict is Verdict.REVERT:
                others.in_sync = InSync.settled(others.in_sync.committed)
                return self._committed(now_ms)
            return PROPOSE if verdict is Verdict.RETRY else NOTHING
        if answer.leader_epoch != self.leader_epoch or answer.partition_epoch < self.partition_epoch:
            return NOTHING
        self.partition_epoch = answer.partition_epoch
        others.in_sync = InSync.settled(answer.members)
        return self._committed(now_ms)

    def _propose(self, nodes: frozenset[int] | None) -> int:
        if nodes is None:
            return NOTHING
        self.others.propose(Proposal(self.leader_epoch, self.partition_epoch, self.others.members(nodes)))
        return PROPOSE

    # --- acks=all, DeleteRecords -------------------------------------------------------------------------------------------------

    def check_enough_in_sync(self) -> None:
        """Raises Rejected where too few are in sync for acks=all; to be called before the append."""
        if self.others.below_min_in_sync:
            raise Rejected(ErrorCode.NOT_ENOUGH_REPLICAS, f"{len(self.others.in_sync.committed)} replica(s) are in sync")

    def check_enough_have_it(self) -> None:
        """Raises Rejected where too few were in sync when what acks=all waited for was committed."""
        if len(self.others.in_sync.maximal) < self.others.effective_min_in_sync:
            raise Rejected(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, f"{len(self.others.in_sync.maximal)} replica(s) are in sync")

    def min_in_sync_changed(self, min_in_sync: int, now_ms: int) -> int:
        """The topic's min.insync.replicas is another one now."""
        self.others.min_in_sync = min_in_sync
        return self._committed(now_ms)

    def low_watermark(self, log_start: int) -> int:
        """Below it every replica that lives has deleted its records; `log_start` is this one's."""
        return min(log_start, self.others.lowest_start())

    # --- how far the own log reaches ---------------------------------------------------------------------------------------------

    def appended(self, log_end: int, now_ms: int, flush_messages: int = INT64_MAX) -> int:
        """Records were appended here. `flush_messages` is the topic's flush.messages: so many may wait for a sync."""
        self.log_end = log_end
        if flush_messages == INT64_MAX:
            self._held = False
            if self.shared or not self.leads:
                return self._committed(now_ms)
            self.high_watermark = log_end
            return COMMITTED
        due = log_end - self.synced >= flush_messages
        self._held = due or self._syncing
        return (SYNC if due else NOTHING) | self._committed(now_ms)

    def sync_began(self) -> None:
        """What is in the log now is on its way to the disk."""
        self._syncing = True
        self._sync_counts_to = INT64_MAX

    def sync_ended(self, offset: int, now_ms: int, flush_messages: int = INT64_MAX) -> int:
        """Everything below `offset` is on disk, as it was when the sync began."""
        self._syncing = False
        self.synced = max(self.synced, min(offset, self._sync_counts_to))
        self._held = self.log_end - self.synced >= flush_messages
        return (SYNC if self._held else NOTHING) | self._committed(now_ms)

    def leader_said(self, high_watermark: int) -> int:
        """A follower was told its leader's high watermark."""
        reached = min(high_watermark, self.log_end)
        if reached == self.high_watermark:
            return NOTHING
        self.high_watermark = reached
        return COMMITTED

    def truncated(self, log_end: int) -> int:
        """The log was cut at `log_end`."""
        self.log_end = log_end
        self.synced = min(self.synced, log_end)
        self._sync_counts_to = min(self._sync_counts_to, log_end)
        if self.high_watermark <= log_end:
            return NOTHING
        self.high_watermark = log_end
        return COMMITTED

    def restarted(self, offset: int) -> None:
        """The log is empty, and begins at `offset`."""
        self.log_end = self.synced = self.high_watermark = offset
        self._sync_counts_to = min(self._sync_counts_to, offset)

    def _committed(self, now_ms: int) -> int:
        if not self.leads:
            return NOTHING
        end = self.own_end if self._held else self.log_end
        if self.shared:
            end = self.others.committable(end, self.log_end, now_ms)
        if end <= self.high_watermark:
            return NOTHING
        self.high_watermark = end
        return COMMITTED
