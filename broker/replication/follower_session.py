"""The follower's side of an incremental fetch session (KIP-227): a request lists each partition once, and later only its changes.

The caller passes the partitions that may have changed, so an incremental request does not iterate over the whole session. The leader's side
is `ottla.broker.runtime.replicas.fetch_sessions`. Source: KAFKA FetchSessionHandler.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k01_fetch import FetchPartition

NO_SESSION: Final = 0
INITIAL_EPOCH: Final = 0
"""Session epoch of a full request. The leader closes the session that the request carries and creates a new one."""

_INT32_MAX: Final = 2**31 - 1

PartitionKey = tuple[bytes, int]
"""The key of a partition: its topic id and its index in the topic."""


class FollowerSession:
    """The session's partitions as last sent to the leader, and the session id and epoch of the next request."""

    __slots__ = ("epoch", "session_id", "session_partitions")

    def __init__(self) -> None:
        self.session_id = NO_SESSION
        self.epoch = INITIAL_EPOCH
        self.session_partitions: dict[PartitionKey, FetchPartition] = {}
        """The fetch parameters that the leader holds for each partition of the session."""

    @property
    def is_full(self) -> bool:
        """Whether the next request is a full one, which starts a session and lists every partition to fetch."""
        return self.epoch == INITIAL_EPOCH

    def next(self, wanted: Mapping[PartitionKey, FetchPartition | None]) -> tuple[dict[PartitionKey, FetchPartition], list[PartitionKey]]:
        """Return the partitions that the next request lists, and those that it removes from the session.

        `wanted` maps each partition that may have changed to its fetch parameters, or to None if it must not be fetched. For a full request
        (`is_full`), `wanted` has every partition. A change is detected by object identity, because comparing fields in each request would
        be expensive for a busy follower.
        """
        if self.is_full:
            self.session_partitions = {key: asks for key, asks in wanted.items() if asks is not None}
            return dict(self.session_partitions), []
        named, forgotten = dict[PartitionKey, FetchPartition](), list[PartitionKey]()
        for key, asks in wanted.items():
            before = self.session_partitions.get(key)
            if asks is None:
                if before is not None:
                    del self.session_partitions[key]
                    forgotten.append(key)
            elif before is not asks:
                self.session_partitions[key] = named[key] = asks
        return named, forgotten

    def handle_response(self, error: int, session_id: int, keys: Collection[PartitionKey]) -> bool:
        """Advance the session after a Fetch response, which has an error code, a session id and the partitions `keys`. Return whether the
        response is usable: it has no error, no partition outside the session and, after a full request, all partitions of the session.

        After an unusable response the next request starts a new session.
        """
        if error == ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
            self.session_id = NO_SESSION
        if error:
            self.epoch = INITIAL_EPOCH
            return False
        whole = self.epoch == INITIAL_EPOCH
        if any(key not in self.session_partitions for key in keys) or (whole and len(keys) < len(self.session_partitions)):
            self.epoch = INITIAL_EPOCH
            return False
        self.session_id = session_id
        self.epoch = INITIAL_EPOCH if session_id == NO_SESSION else 1 if self.epoch == _INT32_MAX else self.epoch + 1
        return True

    def failed(self) -> None:
        """Start a new session with the next request, because the leader may or may not have processed the last one."""
        self.epoch = INITIAL_EPOCH
