"""A follower's fetch session with one leader: partitions are named once, then only what changed of them (KIP-227).

The caller says which partitions may have changed: nothing here walks over all of them once a session has begun. The other side is
`ottla.broker.runtime.replicas.fetch_sessions`. Source: KAFKA FetchSessionHandler.
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

    @property
    def names_all(self) -> bool:
        """Whether the next request begins a session, and names everything that is to be fetched."""
        return self.epoch == INITIAL_EPOCH

    def next(self, wanted: Mapping[PartitionKey, FetchPartition | None]) -> tuple[dict[PartitionKey, FetchPartition], list[PartitionKey]]:
        """What the next request says: the partitions that it names, and those that it takes out of the session.

        `wanted` holds what may be asked otherwise than before, and everything if the request `names_all`; None where a partition is not to
        be fetched. What is asked of a partition is new when it is another object than before: a busy follower compares with every answer.
        """
        if self.names_all:
            self.asked = {key: asks for key, asks in wanted.items() if asks is not None}
            return dict(self.asked), []
        named, forgotten = dict[PartitionKey, FetchPartition](), list[PartitionKey]()
        for key, asks in wanted.items():
            before = self.asked.get(key)
            if asks is None:
                if before is not None:
                    del self.asked[key]
                    forgotten.append(key)
            elif before is not asks:
                self.asked[key] = named[key] = asks
        return named, forgotten

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
