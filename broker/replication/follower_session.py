"""A follower's fetch session with one leader: partitions are named once, then only what changed of them (KIP-227).

The other side of `ottla.broker.runtime.replicas.fetch_sessions`. Source: KAFKA FetchSessionHandler.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k01_fetch import FetchPartition

NO_SESSION: Final = 0
INITIAL_EPOCH: Final = 0
"""Of a request that names all, closes the session that it names and asks for a new one."""

_INT32_MAX: Final = 2**31 - 1

PartitionKey = tuple[bytes, int]
"""Topic id and number of a partition."""


class FollowerSession:
    """What was asked last of each partition, and the numbers of the next request."""

    __slots__ = ("asked", "epoch", "session_id")

    def __init__(self) -> None:
        self.session_id = NO_SESSION
        self.epoch = INITIAL_EPOCH
        self.asked: dict[PartitionKey, FetchPartition] = {}
        """Of every partition of the session, what the leader believes to be asked."""

    def next(self, wanted: Mapping[PartitionKey, FetchPartition]) -> tuple[dict[PartitionKey, FetchPartition], list[PartitionKey]]:
        """What the next request says: the partitions that it names, and those that it takes out of the session.

        What is asked of a partition is new when it is another object than before: a busy follower compares with every answer.
        """
        before = {} if self.epoch == INITIAL_EPOCH else self.asked
        self.asked = dict(wanted)
        return {key: asks for key, asks in wanted.items() if before.get(key) is not asks}, [key for key in before if key not in wanted]

    def answered(self, error: int, session_id: int, keys: Collection[PartitionKey]) -> bool:
        """The leader has answered for `keys`. False if that cannot be used: the next request begins a session."""
        if error == ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
            self.session_id = NO_SESSION
        if error:
            self.epoch = INITIAL_EPOCH
            return False
        whole = self.epoch == INITIAL_EPOCH
        if any(key not in self.asked for key in keys) or (whole and len(keys) < len(self.asked)):
            self.epoch = INITIAL_EPOCH
            return False
        self.session_id = session_id
        self.epoch = INITIAL_EPOCH if session_id == NO_SESSION else 1 if self.epoch == _INT32_MAX else self.epoch + 1
        return True

    def failed(self) -> None:
        """Whether the leader has got the request is not known."""
        self.epoch = INITIAL_EPOCH
