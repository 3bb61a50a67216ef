"""A member of a share group that records exactly when it acquired each record, and when the broker answered its acknowledgement.

A client library would acquire records before the application polls them. This member sends one request at a time, so that a record is known
to have been acquired after the request for it was sent.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from client_compat.crash.routes import MustReconnect, Routes
from ottla.protocol.client import Client
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.errors import ProtocolError
from ottla.protocol.messages.k76_share_group_heartbeat import ShareGroupHeartbeatRequest
from ottla.protocol.messages.k78_share_fetch import ShareFetchRequest, ShareFetchResponse
from ottla.protocol.messages.k79_share_acknowledge import ShareAcknowledgeRequest
from ottla.protocol.messages.share_partitions import AcknowledgementBatch, SharePartition, ShareTopic

ACCEPT, RELEASE = 1, 2
RELEASED_PART = 0.1
"""The fraction of the acquired records that a member releases instead of accepting, so that they are delivered again."""
RETRY_S = 0.02
FETCH_WAIT_MS = 50
BEAT_S = 1.0
_SENDING_AWAY: Final = {
    ErrorCode.SHARE_SESSION_NOT_FOUND,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
}

Offset = tuple[int, int]
"""Names a record: (partition, offset)."""


@dataclass(slots=True)
class Delivery:
    """A record that a member acquired. `accepts`: the member accepts the record, not releases it. `sent`: when the ShareFetch request that
    acquired the record was sent; `accepted`: when the broker confirmed the acceptance, 0 if it never did. Both times are seconds of the
    monotonic clock."""

    offset: Offset
    sent: float
    accepts: bool
    accepted: float = 0.0


@dataclass(slots=True)
class _Session:
    """A share session of the member with one broker, which leads the partitions `partitions`."""

    client: Client
    partitions: list[int] = field(default_factory=list)
    epoch: int = 0


@dataclass
class Member:
    """A member of a share group, which fetches and acknowledges records on a thread of its own until `stop`. It notifies `progress` when it
    has acquired records, and when a broker has answered its acknowledgements.

    `deliveries` has every record that it acquired; the list is complete when `stop` has returned.
    """

    ports: Sequence[int]
    group: str
    topic: str
    seed: int
    progress: threading.Condition
    deliveries: list[Delivery] = field(default_factory=list)
    answered: int = 0
    """The number of ShareAcknowledge requests to which a broker has responded without an error."""

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)
        self._member_id = str(UUID(int=self._random.getrandbits(128), version=4))
        self._ended = threading.Event()
        self._epoch = 0
        self._topic_id = bytes(16)
        self._sessions: list[_Session] = []
        self._thread = threading.Thread(target=self._run, name=f"member {self.seed}", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the member after its current request."""
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.is_set():
            try:
                with Routes(self.ports, self._random) as routes:
                    self._epoch, self._sessions = 0, []
                    self._serve(routes)
            except (OSError, ProtocolError, MustReconnect):
                self._ended.wait(RETRY_S)

    def _serve(self, routes: Routes) -> None:
        coordinator, beat_at = routes.coordinator(self.group), 0.0
        while not self._ended.is_set():
            if time.monotonic() >= beat_at:
                self._beat(coordinator, routes)
                beat_at = time.monotonic() + (BEAT_S if self._sessions else RETRY_S)
            for session in self._sessions:
                self._fetch(session)

    def _beat(self, coordinator: Client, routes: Routes) -> None:
        request = ShareGroupHeartbeatRequest(self.group, self._member_id, self._epoch, subscribed_topic_names=[self.topic])
        answer = coordinator.call(request)
        if answer.error_code:
            raise MustReconnect
        self._epoch = answer.member_epoch
        if answer.assignment is None:
            return
        assigned = [index for topic in answer.assignment.topic_partitions for index in topic.partitions]
        if sorted(assigned) == sorted(index for session in self._sessions for index in session.partitions):
            return
        if self._sessions:
            raise MustReconnect
        self._topic_id = answer.assignment.topic_partitions[0].topic_id
        leaders, sessions = routes.leaders(self.topic), dict[int, _Session]()
        for index in assigned:
            sessions.setdefault(id(leaders[index]), _Session(leaders[index])).partitions.append(index)
        self._sessions = list(sessions.values())

    def _fetch(self, session: _Session) -> None:
        named = [ShareTopic(self._topic_id, [SharePartition(index) for index in session.partitions])]
        sent = time.monotonic()
        response: ShareFetchResponse = session.client.call(
            ShareFetchRequest(
                self.group,
                self._member_id,
                session.epoch,
                max_wait_ms=FETCH_WAIT_MS,
                min_bytes=1,
                max_records=100,
                batch_size=100,
                topics=[] if session.epoch else named,
            )
        )
        if response.error_code:
            raise MustReconnect
        session.epoch += 1
        for topic in response.responses:
            for partition in topic.partitions:
                if partition.error_code in _SENDING_AWAY:
                    raise MustReconnect
                for acquired in partition.acquired_records:
                    offsets = range(acquired.first_offset, acquired.last_offset + 1)
                    self._acknowledge(session, partition.partition_index, offsets, sent)

    def _acknowledge(self, session: _Session, index: int, offsets: range, sent: float) -> None:
        taken = [Delivery((index, offset), sent, self._random.random() >= RELEASED_PART) for offset in offsets]
        with self.progress:
            self.deliveries += taken
            self.progress.notify_all()
        batch = AcknowledgementBatch(offsets[0], offsets[-1], [ACCEPT if one.accepts else RELEASE for one in taken])
        topics = [ShareTopic(self._topic_id, [SharePartition(index, [batch])])]
        answer = session.client.call(ShareAcknowledgeRequest(self.group, self._member_id, session.epoch, topics=topics))
        now = time.monotonic()
        if answer.error_code:
            raise MustReconnect
        session.epoch += 1
        if not any(partition.error_code for topic in answer.responses for partition in topic.partitions):
            for delivery in taken:
                delivery.accepted = now if delivery.accepts else 0.0
            with self.progress:
                self.answered += 1
                self.progress.notify_all()
