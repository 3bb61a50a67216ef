"""The in-sync set as its leader sees it: what the controller has committed, and at most one change that it was asked for.

Rules:
* the high watermark waits for the maximal set: with who is about to join, and still with who is about to leave;
* acks=all is refused by the committed set;
* metadata always wins over a change that is under way; the answer to that comes too late then, and is ignored.

Source: KIP-497; KAFKA PartitionState (CommittedPartitionState, PendingExpandIsr, PendingShrinkIsr), Partition.handleAlterPartitionError.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

from ottla.protocol.error_codes import ErrorCode

RECOVERED: Final = 0
"""LeaderRecoveryState: a leader that proposes has recovered, whatever the record of its election said."""


class InSyncMember(NamedTuple):
    """One of a proposed set. `broker_epoch` is of the incarnation that fetched; -1 while none has."""

    node: int
    broker_epoch: int


@dataclass(frozen=True, slots=True)
class Proposal:
    """What an AlterPartition request says of one partition."""

    leader_epoch: int
    partition_epoch: int
    members: tuple[InSyncMember, ...]
    recovery_state: int = RECOVERED


class Accepted(NamedTuple):
    """What the controller answers where there is no error."""

    leader_epoch: int
    partition_epoch: int
    members: frozenset[int]


class Verdict(Enum):
    """What an error of the controller means for the proposal."""

    REVERT = "it was not carried out and never will be: back to the committed set"
    AWAIT_METADATA = "whether it was carried out, a record will tell"
    RETRY = "the same again"


_AWAIT: Final = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.INVALID_UPDATE_VERSION,
    ErrorCode.INVALID_REQUEST,
    ErrorCode.NEW_LEADER_ELECTED,
)

VERDICTS: Final[Mapping[ErrorCode, Verdict]] = {
    ErrorCode.OPERATION_NOT_ATTEMPTED: Verdict.REVERT,
    ErrorCode.INELIGIBLE_REPLICA: Verdict.REVERT,
    **dict.fromkeys(_AWAIT, Verdict.AWAIT_METADATA),
}
"""Every other error is `Verdict.RETRY`."""


@dataclass(frozen=True, slots=True)
class InSync:
    """Committed where `proposal` is None. Node ids include the leader's."""

    committed: frozenset[int] = frozenset()
    maximal: frozenset[int] = frozenset()
    proposal: Proposal | None = None

    @classmethod
    def settled(cls, members: Iterable[int]) -> InSync:
        """The controller has committed these, and nothing is under way."""
        committed = frozenset(members)
        return cls(committed, committed)

    def pending(self, proposal: Proposal) -> InSync:
        """`proposal` is under way: who would join counts already, who would leave counts still."""
        return InSync(self.committed, self.committed.union(m.node for m in proposal.members), proposal)
