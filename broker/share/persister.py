"""The interface through which a share partition's leader reads and writes the persisted delivery state (Kafka's Persister).

The share coordinator implements it; it stores the state in `__share_group_state`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from ottla.protocol.uuids import decode_uuid, encode_uuid

UNINITIALIZED_START_OFFSET: Final = -1
"""The start offset of a share partition that no member has read yet. Where the group starts is then decided by share.auto.offset.reset."""


class SharePartitionKey(NamedTuple):
    """Identifies a share partition: the share group, the topic id and the partition."""

    group_id: str
    topic_id: bytes
    partition: int

    @property
    def coordinator_key(self) -> str:
        """The text form of the key, `group:topicId:partition`, which FindCoordinator requests contain. Its hash selects the partition of
        `__share_group_state`."""
        return f"{self.group_id}:{encode_uuid(self.topic_id)}:{self.partition}"

    @classmethod
    def parse(cls, text: str) -> SharePartitionKey:
        """Parse the text form of a share partition's key, `group:topicId:partition`. The group id may contain colons. Raises ValueError if
        the text has another form."""
        group_id, topic_id, partition = text.rsplit(":", 2)
        if not group_id.strip():
            raise ValueError("a share partition without a group id")
        return cls(group_id, decode_uuid(topic_id), int(partition))


class StateBatch(NamedTuple):
    """The delivery state of the offsets from `first_offset` to `last_offset`, both included (Kafka's PersisterStateBatch)."""

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
    """The state that a share partition's leader writes to the share coordinator: the changed batches, and the start offset.

    `delivery_complete_count` is the number of acknowledged or archived records at or above the start offset.
    """

    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    batches: Sequence[StateBatch]


@dataclass(frozen=True, slots=True)
class StateSummary:
    """The persisted epochs and start offset of a share partition, without the delivery states of records. The default values describe a
    share partition that has no persisted state."""

    state_epoch: int = 0
    leader_epoch: int = 0
    start_offset: int = UNINITIALIZED_START_OFFSET
    delivery_complete_count: int = -1


class Persister(Protocol):
    """Reads and writes the persisted state of share partitions. Each method returns its result or, if it has to wait, a future of the
    result. A failure is raised by the method or the future, as Rejected with the error code of the share coordinator's response, such as
    FENCED_STATE_EPOCH."""

    def read(self, key: SharePartitionKey, leader_epoch: int) -> ReadState | asyncio.Future[ReadState]:
        """Return the share partition's state. From then on, requests with a leader epoch below `leader_epoch` are rejected with
        FENCED_LEADER_EPOCH."""

    def write(self, key: SharePartitionKey, state: WrittenState) -> asyncio.Future[None] | None:
        """Write changes of the share partition's state. Return None if they are already durable, otherwise a future that is done when they
        are durable."""

    def initialize(self, key: SharePartitionKey, state_epoch: int, start_offset: int) -> asyncio.Future[None] | None:
        """Begin a new state epoch of the share partition: its state has this start offset and no delivery states."""

    def delete(self, key: SharePartitionKey) -> asyncio.Future[None] | None:
        """Delete the share partition's state, if it has any."""

    def summary(self, key: SharePartitionKey) -> StateSummary | asyncio.Future[StateSummary]:
        """Return the start offset, the state epoch and the leader epoch of the share partition's state, without the delivery states."""
