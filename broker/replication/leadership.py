"""A partition leader's view of the other replicas, from which it derives ISR changes and the limit of the high watermark.

Invariants:
* A replica joins the ISR only if it has every committed record and every record that the log had when this leadership began. The previous
  leader may have committed the latter, and an ISR member may be elected leader, so it must not lack them (KAFKA-7128).
* A replica leaves the ISR if it lags behind the leader and was last caught up more than replica.lag.time.max.ms ago. A replica that would
  have to leave at once does not join. Without this rule it could join and leave endlessly, while the ISR is below min.insync.replicas and
  the high watermark cannot advance (KAFKA-19996).
* One ISR change is pending at a time.

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
    """A partition's replicas, ISR, leader and epochs from the metadata (KAFKA PartitionRegistration). `leader` is -1 if the partition has
    no leader.
    """

    leader: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader_epoch: int
    partition_epoch: int
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    recovering: bool = False
    """Whether the leader was elected uncleanly and has not altered the ISR since."""


def sole_replica_registration(leader_epoch: int, node: int = 0) -> Registration:
    """Return the registration of a partition whose only replica, on broker `node`, is the leader. Its partition epoch, -1, is below that of
    any metadata record.
    """
    return Registration(node, (node,), (node,), leader_epoch, partition_epoch=-1)


class Leadership:
    """A leader's state of a partition's other replicas and of its ISR. It is empty while this replica is a follower."""

    __slots__ = ("_brokers", "epoch_start", "followers", "in_sync", "lag_max_ms", "min_in_sync", "registration")

    def __init__(self, brokers: Brokers, lag_max_ms: int = REPLICA_LAG_TIME_MAX_MS) -> None:
        self._brokers = brokers
        self.lag_max_ms = lag_max_ms
        self.min_in_sync = 1
        """The setting min.insync.replicas of the topic."""
        self.registration = sole_replica_registration(-1)
        self.followers: dict[int, Progress] = {}
        """All assigned replicas except this one, by node id."""
        self.in_sync = InSync()
        self.epoch_start = 0
        """The log end offset at which this leadership began."""

    def assigned(self, registration: Registration, *, news: bool) -> None:
        """Apply the replica assignment and ISR of a metadata record. If the record is `news`, it discards the pending ISR proposal.

        A record is not news if an AlterPartition response has already confirmed its change. A proposal that was sent after that response
        stays pending: the controller may have committed it, so the high watermark must keep waiting for the replicas that it adds.
        """
        self.registration = registration
        others = [node for node in registration.replicas if node != registration.leader]
        self.followers = {node: self.followers.get(node) or Progress() for node in others}
        if news or self.in_sync.proposal is None:
            self.in_sync = InSync.settled(registration.isr)

    def began(self, log_end: int, now_ms: int, *, again: bool) -> None:
        """Start a new leader epoch at offset `log_end`. `again` means that this broker led in the previous epoch too."""
        self.epoch_start = log_end
        for node, progress in self.followers.items():
            progress.new_leadership(log_end, now_ms, in_sync=node in self.in_sync.committed, again=again)

    def ended(self, registration: Registration) -> None:
        """Discard the followers and the ISR, because another replica leads or the partition has no leader."""
        self.registration = registration
        self.followers = {}
        self.in_sync = InSync()

    # --- the ISR -----------------------------------------------------------------------------------------------------------------

    def has_replaced(self, fetch: FollowerFetch) -> bool:
        """Return whether the fetching broker has registered again since it took the broker epoch of this fetch (KIP-903)."""
        return self._brokers.has_replaced(fetch.node, fetch.broker_epoch)

    def expansion(self, node: int, high_watermark: int, log_end: int, now_ms: int) -> frozenset[int] | None:
        """Return the ISR extended by `node`, or None if this must not be proposed: a change is pending, or the node is in the ISR, may not
        join or has not caught up. `log_end` is the leader's.
        """
        current, reached = self.in_sync, self.followers[node].log_end
        if current.proposal is not None or node in current.committed or not self._may_join(node) or self._lags(node, log_end, now_ms):
            return None
        return current.committed | {node} if reached >= high_watermark and reached >= self.epoch_start else None

    def shrinkage(self, log_end: int, now_ms: int) -> frozenset[int] | None:
        """Return the ISR without lagging replicas, or None if there is nothing to propose or a change is pending."""
        current = self.in_sync
        lagging = {node for node in current.committed if node != self.registration.leader and self._lags(node, log_end, now_ms)}
        return current.committed - lagging if lagging and current.proposal is None else None

    def followers_caught_up(self, log_end: int) -> bool:
        """Return whether every in-sync follower has reached the leader's `log_end`. Until the next append, none of them can lag."""
        others = (self.followers.get(node) for node in self.in_sync.committed if node != self.registration.leader)
        return all(progress is not None and progress.log_end == log_end for progress in others)

    def members(self, nodes: Iterable[int]) -> tuple[InSyncMember, ...]:
        """Return `nodes`, the brokers of an ISR proposal, with their broker epochs, by which the controller detects a restart (KIP-903).

        The broker epoch may be unknown (-1) only for a replica that is already in the ISR. If that broker restarts, its removal from the
        ISR increments the partition epoch, and the controller rejects the proposal as outdated.
        """
        return tuple(InSyncMember(node, self._epoch_of(node)) for node in sorted(nodes))

    def propose(self, proposal: Proposal) -> None:
        """Store the ISR proposal as the pending one."""
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

    # --- high watermark and low watermark ----------------------------------------------------------------------------------------

    @property
    def effective_min_in_sync(self) -> int:
        """min.insync.replicas of the topic, limited to the partition's number of replicas."""
        return min(self.min_in_sync, len(self.followers) + 1)

    @property
    def below_min_in_sync(self) -> bool:
        """Whether the ISR is too small, so that acks=all is rejected and the high watermark does not advance (KIP-966)."""
        return len(self.in_sync.committed) < self.effective_min_in_sync

    def committable(self, own_end: int, log_end: int, now_ms: int) -> int:
        """Return the offset up to which the high watermark may advance, at most `own_end`; `BLOCKED` if the ISR is too small.

        The high watermark also waits for a replica outside the ISR that has nearly caught up, because it could never join otherwise
        (KAFKA-4485). This applies only if the replica is eligible to join (KAFKA-15021).
        """
        if self.below_min_in_sync:
            return BLOCKED
        end, maximal = own_end, self.in_sync.maximal
        for node, progress in self.followers.items():
            if progress.log_end < end and (node in maximal or (self._may_join(node) and not self._lags(node, log_end, now_ms))):
                end = progress.log_end
        return end

    def lowest_start(self) -> int:
        """Return the lowest log start offset of the other live replicas, -1 if one of them has not fetched yet, or INT64_MAX if there are
        none.
        """
        return min((p.log_start for node, p in self.followers.items() if self._brokers.is_alive(node)), default=INT64_MAX)
