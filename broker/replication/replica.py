"""What one replica of a partition knows of itself and of the others, and what follows from it. No log, no clock, no loop.

Rules:
* A leader's high watermark is the least log end of all in-sync replicas, itself included, and it never goes back. A follower's is what its
  leader last said, as far as its own log reaches; it may go back.
* A leader counts its own log only as far as its sync rule allows (flush.messages): while a sync is due or under way, up to what is on disk.
* What an in-sync follower has is unknown until it fetches from this leadership, and an unknown end holds the high watermark where it is.
* Every change says what has to be done for it: `SYNC` (records have to go to disk first), `COMMITTED` (the high watermark has moved).

Source: KAFKA Partition.maybeIncrementLeaderHW, makeLeader, makeFollower; KIP-101, KIP-279.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum
from typing import Final

from broker.core.log_config import INT64_MAX
from broker.core.rejected import Rejected
from protocol.error_codes import ErrorCode

NOTHING: Final = 0
SYNC: Final = 1
COMMITTED: Final = 2

UNKNOWN_END: Final = -1


class ReplicaRole(Enum):
    """Whether appends come from clients or from another broker."""

    LEADER = "leader"
    FOLLOWER = "follower"


class Replica:
    """The replica of one broker. Offsets are of records; ends are one past the last.

    Each change returns effects: a sum of `SYNC` and `COMMITTED`, or `NOTHING`.
    """

    __slots__ = ("_held", "_syncing", "followers", "high_watermark", "leader_epoch", "log_end", "role", "synced")

    def __init__(self, *, log_end: int, synced: int, high_watermark: int, leader_epoch: int) -> None:
        self.role = ReplicaRole.FOLLOWER
        self.leader_epoch = leader_epoch
        self.log_end = log_end
        self.synced = synced
        """Everything below it is on disk."""
        self.high_watermark = high_watermark
        self.followers: dict[int, int] = {}
        """Log ends of the other in-sync replicas, by node id; `UNKNOWN_END` until they fetch."""
        self._syncing = False
        self._held = False

    @property
    def own_end(self) -> int:
        """How far this replica's own log counts: to its end, or to what is on disk while a sync is due."""
        return max(self.synced, self.high_watermark) if self._held else self.log_end

    @property
    def sync_may_begin(self) -> bool:
        """Whether there is something to sync, and no sync is under way."""
        return not self._syncing and self.synced < self.log_end

    # --- who leads ---------------------------------------------------------------------------------------------------------------

    def lead(self, epoch: int, in_sync: Collection[int] = ()) -> int:
        """This replica leads in `epoch`; `in_sync` are the other members of the in-sync set. Raises Rejected for an epoch of the past."""
        self._begin(epoch)
        before = self.followers if self.role is ReplicaRole.LEADER else {}
        self.role = ReplicaRole.LEADER
        self.followers = {node: before.get(node, UNKNOWN_END) for node in in_sync}
        return self._committed()

    def follow(self, epoch: int) -> int:
        """Another replica leads in `epoch`. Raises Rejected for an epoch of the past."""
        self._begin(epoch)
        self.role = ReplicaRole.FOLLOWER
        self.followers = {}
        return NOTHING

    def _begin(self, epoch: int) -> None:
        if epoch < self.leader_epoch:
            raise Rejected(ErrorCode.FENCED_LEADER_EPOCH, f"leader epoch {epoch} is older than {self.leader_epoch}")
        self.leader_epoch = epoch

    def check_epoch(self, requested: int) -> None:
        """Raises Rejected when a client knows another leader epoch (KIP-320); -1 asks for no check."""
        if requested not in {-1, self.leader_epoch}:
            raise Rejected(ErrorCode.FENCED_LEADER_EPOCH if requested < self.leader_epoch else ErrorCode.UNKNOWN_LEADER_EPOCH)

    def check_leads(self) -> None:
        """Raises Rejected where another replica leads."""
        if self.role is not ReplicaRole.LEADER:
            raise Rejected(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    # --- how far the logs reach --------------------------------------------------------------------------------------------------

    def appended(self, log_end: int, flush_messages: int = INT64_MAX) -> int:
        """Records were appended here. `flush_messages` is the topic's flush.messages: so many may wait for a sync."""
        self.log_end = log_end
        if flush_messages == INT64_MAX:
            self._held = False
            return self._committed()
        due = log_end - self.synced >= flush_messages
        self._held = due or self._syncing
        return (SYNC if due else NOTHING) | self._committed()

    def sync_began(self) -> None:
        """What is in the log now is on its way to the disk."""
        self._syncing = True

    def sync_ended(self, offset: int, flush_messages: int = INT64_MAX) -> int:
        """Everything below `offset` is on disk."""
        self._syncing = False
        self.synced = max(self.synced, offset)
        self._held = self.log_end - self.synced >= flush_messages
        return (SYNC if self._held else NOTHING) | self._committed()

    def follower_reached(self, node: int, log_end: int) -> int:
        """An in-sync follower has fetched up to `log_end`; what others than in-sync replicas have commits nothing."""
        if node not in self.followers:
            return NOTHING
        self.followers[node] = log_end
        return self._committed()

    def in_sync_changed(self, in_sync: Collection[int]) -> int:
        """The in-sync set, without this replica, is another one now."""
        self.followers = {node: self.followers.get(node, UNKNOWN_END) for node in in_sync}
        return self._committed()

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
        if self.high_watermark <= log_end:
            return NOTHING
        self.high_watermark = log_end
        return COMMITTED

    def _committed(self) -> int:
        if self.role is not ReplicaRole.LEADER:
            return NOTHING
        end = self.own_end
        if self.followers:
            end = min(end, *self.followers.values())
        if end <= self.high_watermark:
            return NOTHING
        self.high_watermark = end
        return COMMITTED
