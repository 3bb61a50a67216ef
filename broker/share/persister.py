"""The persister: where a share partition's leader reads and writes the delivery state (KAFKA Persister).

A share partition depends on this interface only. The state itself is in `__share_group_state`, at the group's share coordinator.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

UNINITIALIZED_START_OFFSET: Final = -1
"""The start offset of a share partition that no member has read yet: share.auto.offset.reset decides."""


class SharePartitionKey(NamedTuple):
    """One partition of a topic as one share group sees it."""

    group_id: str
    topic_id: bytes
    partition: int


class StateBatch(NamedTuple):
    """The delivery state of the offsets from `first_offset` to `last_offset`, both included (KAFKA PersisterStateBatch)."""

    first_offset: int
    last_offset: int
    delivery_state: int
    delivery_count: int


@dataclass(frozen=True, slots=True)
class ReadState:
    """The persisted state of a share partition. `batches` are sorted and do not overlap."""

    state_epoch: int
    start_offset: int
    batches: Sequence[StateBatch] = ()


@dataclass(frozen=True, slots=True)
class WrittenState:
    """What a share partition's leader writes: the batches that have changed, and its start offset.

    `delivery_complete_count` is the number of acknowledged or archived records at and above the start offset.
    """

    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    batches: Sequence[StateBatch]


class Persister(Protocol):
    """Reads and writes share state. A call returns its result, or a future of it if it has to wait; either raises Rejected.

    `Rejected.code` is the code of the coordinator's response, such as FENCED_STATE_EPOCH.
    """

    def read(self, key: SharePartitionKey, leader_epoch: int) -> ReadState | asyncio.Future[ReadState]:
        """Return the state, and make `leader_epoch` the one that may write it."""

    def write(self, key: SharePartitionKey, state: WrittenState) -> asyncio.Future[None] | None:
        """Write the state. Returns None if it is durable already."""
