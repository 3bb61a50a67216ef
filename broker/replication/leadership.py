"""What the leader of a partition knows of the other replicas, and what follows from it for the in-sync set and the high watermark.

Rules:
* a replica joins the in-sync set when it has all that is committed and all that was there when this leadership began: what lies between may
  be committed, and a member may become leader (KAFKA-7128);
* it leaves when it lacks something and had all longer ago than replica.lag.time.max.ms; who would have to leave at once does not join, as
  with a high watermark that stands still, below min.insync.replicas, it could over and over (KAFKA-19996);
* one change is under way at a time.

Source: KAFKA Partition (updateAssignmentAndIsr, needsExpandIsr, getOutOfSyncReplicas, maybeIncrementLeaderHW, lowWatermarkIfLeader).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from ottla.broker.core.log_config import INT64_MAX
from ottla.broker.replication.brokers import UNKNOWN_BROKER_EPOCH, Brokers
from ottla.broker.replication.in_sync import InSync, InSyncMember, Proposal
from ottla.broker.replication.progress import FollowerFetch, Progress

REPLICA_LAG_TIME_MAX_MS: Final = 30_000
BLOCKED: Final = -1


class Registration(NamedTuple):
    """What metadata says of a partition (KAFKA PartitionRegistration). `leader` is -1 where nobody leads."""

    leader: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader_epoch: int
    partition_epoch: int
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    recovering: bool = False
    """Whether the leader was elected uncleanly, and has proposed no in-sync set since."""


def alone(leader_epoch: int, node: int = 0) -> Registration:
    """Of a partition with one replica, which leads; older than whatever metadata says."""
    return Registration(node, (node,), (node,), leader_epoch, partition_epoch=-1)


class Leadership:
    """The other replicas of a partition, as its leader sees them. A follower knows of none."""

    __slots__ = ("_brokers", "epoch_start", "followers", "in_sync", "lag_max_ms", "min_in_sync", "registration")

    def __init__(self, brokers: Brokers, lag_max_ms: int = REPLICA_LAG_TIME_MAX_MS) -> None:
        self._brokers = brokers
        self.lag_max_ms = lag_max_ms
        self.min_in_sync = 1
        """min.insync.replicas of the topic."""
        self.registration = alone(-1)
        self.followers: dict[int, Progress] = {}
        """All assigned replicas but this one, by node id."""
        self.in_sync = InSync()
        self.epoch_start = 0
        """Where the log ended when this leadership began."""

    def assigned(self, registration: Registration, *, news: bool) -> None:
        """Metadata says who is assigned and in sync. What was under way is forgotten if that is `news`.

        A record that comes after the answer that told of it is none: a change asked for in between may have been carried out since, and the
        high watermark goes on waiting for who joined by it.
        """
        self.registration = registration
        others = [node for node in registration.replicas if node != registration.leader]
        self.followers = {node: self.followers.get(node) or Progress() for node in others}
        if news or self.in_sync.proposal is None:
            self.in_sync = InSync.settled(registration.isr)

    def began(self, log_end: int, now_ms: int, *, again: bool) -> None:
        """A new leader epoch begins at `log_end`, `again` of the same leader."""
        self.epoch_start = log_end
        for node, progress in self.followers.items():
            progress.new_leadership(log_end, now_ms, in_sync=node in self.in_sync.committed, again=again)

    def ended(self, registration: Registration) -> None:
        """Another replica leads, or none."""
        self.registration = registration
        self.followers = {}
        self.in_sync = InSync()

    # --- the in-sync set ---------------------------------------------------------------------------------------------------------

    def has_replaced(self, fetch: FollowerFetch) -> bool:
        """Whether the fetch is of an incarnation after which another has registered (KIP-903)."""
        return self._brokers.has_replaced(fetch.node, fetch.broker_epoch)

    def expansion(self, node: int, high_watermark: int, log_end: int, now_ms: int) -> frozenset[int] | None:
        """The in-sync set with `node`, or None where that is not to be proposed. `log_end` is the leader's."""
        current, reached = self.in_sync, self.followers[node].log_end
        if current.proposal is not None or node in current.committed or not self._may_join(node) or self._lags(node, log_end, now_ms):
            return None
        return current.committed | {node} if reached >= high_watermark and reached >= self.epoch_start else None

    def shrinkage(self, log_end: int, now_ms: int) -> frozenset[int] | None:
        """The in-sync set without who lags, or None where that is not to be proposed."""
        current = self.in_sync
        lagging = {node for node in current.committed if node != self.registration.leader and self._lags(node, log_end, now_ms)}
        return current.committed - lagging if lagging and current.proposal is None else None

    def have_all(self, log_end: int) -> bool:
        """Whether every in-sync follower has everything up to `log_end`, the leader's: until an append, none of them can lag."""
        others = (self.followers.get(node) for node in self.in_sync.committed if node != self.registration.leader)
        return all(progress is not None and progress.log_end == log_end for progress in others)

    def members(self, nodes: Iterable[int]) -> tuple[InSyncMember, ...]:
        """`nodes` with the epochs by which the controller recognizes their incarnations.

        Only of who is in sync already may the epoch be unknown; if that one crashes, its removal moves the partition epoch on.
        """
        return tuple(InSyncMember(node, self._epoch_of(node)) for node in sorted(nodes))

    def propose(self, proposal: Proposal) -> None:
        """The proposal is under way from now on."""
        self.in_sync = self.in_sync.pending(proposal)

    def _epoch_of(self, node: int) -> int:
        if node == self.registration.leader:
            return self._brokers.own_epoch
        progress = self.followers.get(node)
        return UNKNOWN_BROKER_EPOCH if progress is None or progress.broker_epoch is None else progress.broker_epoch

    def _may_join(self, node: int) -> bool:
        return self._brokers.may_join(node, self.followers[node].broker_epoch)

    def _lags(self, node: int, log_end: int, now_ms: int) -> bool:
        progress = self.followers.get(node)
        return progress is None or not progress.is_caught_up(log_end, now_ms, self.lag_max_ms)

    # --- what is committed, and what is deleted ----------------------------------------------------------------------------------

    @property
    def effective_min_in_sync(self) -> int:
        """min.insync.replicas, but no more than there are."""
        return min(self.min_in_sync, len(self.followers) + 1)

    @property
    def below_min_in_sync(self) -> bool:
        """Whether acks=all is refused, and the high watermark stands still (KIP-966)."""
        return len(self.in_sync.committed) < self.effective_min_in_sync

    def committable(self, own_end: int, log_end: int, now_ms: int) -> int:
        """How far the high watermark may go: `own_end` at most; `BLOCKED` while too few are in sync.

        Who has almost caught up is waited for, or it never would (KAFKA-4485); but only if it may join (KAFKA-15021).
        """
        if self.below_min_in_sync:
            return BLOCKED
        end, maximal = own_end, self.in_sync.maximal
        for node, progress in self.followers.items():
            if progress.log_end < end and (node in maximal or (self._may_join(node) and not self._lags(node, log_end, now_ms))):
                end = progress.log_end
        return end

    def lowest_start(self) -> int:
        """The least log start of the other replicas that live; no bound where there are none."""
        return min((p.log_start for node, p in self.followers.items() if self._brokers.is_alive(node)), default=INT64_MAX)
