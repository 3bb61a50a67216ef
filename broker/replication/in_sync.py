"""A partition's ISR as its leader sees it: the ISR committed by the controller, and at most one pending change.

Invariants:
* The high watermark waits for the maximal ISR, which includes replicas that are about to join and those that are about to leave.
* An append with acks=all is rejected if the committed ISR is smaller than min.insync.replicas.
* Metadata overrides a pending change. A later response to that change is ignored.

Source: KIP-497; KAFKA PartitionState (CommittedPartitionState, PendingExpandIsr, PendingShrinkIsr), Partition.handleAlterPartitionError.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

from ottla.protocol.error_codes import ErrorCode

RECOVERED: Final = 0
"""LeaderRecoveryState.RECOVERED: a leader that proposes an ISR has recovered, even after an unclean election."""


class InSyncMember(NamedTuple):
    """A replica of a proposed ISR. `broker_epoch` is that of the incarnation that fetched; -1 if none has fetched yet."""

    node: int
    broker_epoch: int


@dataclass(frozen=True, slots=True)
class Proposal:
    """A proposed ISR of one partition, as an entry of an AlterPartition request."""

    leader_epoch: int
    partition_epoch: int
    members: tuple[InSyncMember, ...]
    recovery_state: int = RECOVERED


class Accepted(NamedTuple):
    """The partition's state that the controller has confirmed: its entry in an AlterPartition response without an error."""

    leader_epoch: int
    partition_epoch: int
    members: frozenset[int]


class ErrorReaction(Enum):
    """The leader's reaction to the controller's error response to an ISR change."""

    REVERT = "revert"
    """The change was not made and never will be: return to the committed ISR."""
    AWAIT_METADATA = "await metadata"
    """The change may have been made. A later metadata record decides, so keep the proposal pending and do not send it again."""
    RETRY = "retry"
    """Send the same proposal again."""


_AWAIT: Final = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.INVALID_UPDATE_VERSION,
    ErrorCode.INVALID_REQUEST,
    ErrorCode.NEW_LEADER_ELECTED,
)

ERROR_REACTIONS: Final[Mapping[ErrorCode, ErrorReaction]] = {
    ErrorCode.OPERATION_NOT_ATTEMPTED: ErrorReaction.REVERT,
    ErrorCode.INELIGIBLE_REPLICA: ErrorReaction.REVERT,
    **dict.fromkeys(_AWAIT, ErrorReaction.AWAIT_METADATA),
}
"""The leader's reaction to each error code of an AlterPartition response. Every other error is retried (`ErrorReaction.RETRY`)."""


@dataclass(frozen=True, slots=True)
class InSync:
    """A partition's ISR as its leader sees it: the committed ISR, the pending proposal (if any), and the maximal ISR, which has the members
    of both. Node ids include the leader's."""

    committed: frozenset[int] = frozenset()
    maximal: frozenset[int] = frozenset()
    proposal: Proposal | None = None

    @classmethod
    def settled(cls, members: Iterable[int]) -> InSync:
        """Return the state in which the controller has committed `members` and no change is pending."""
        committed = frozenset(members)
        return cls(committed, committed)

    def pending(self, proposal: Proposal) -> InSync:
        """Return the state with `proposal` pending. Its maximal ISR is the union of the committed and the proposed ISR."""
        return InSync(self.committed, self.committed.union(m.node for m in proposal.members), proposal)
