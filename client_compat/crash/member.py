"""A member of a share group that tells exactly when each record was acquired and when its acceptance was answered.

A client library would acquire records before the application polls them. This member sends one request at a time, so that a record is known
to have been acquired after the request for it was sent.
"""

from __future__ import annotations

import random
import threading
import time
from dataclasses import dataclass, field
from uuid import UUID

from ottla.protocol.client import Client
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.errors import ProtocolError
from ottla.protocol.messages.k10_find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.k76_share_group_heartbeat import ShareGroupHeartbeatRequest
from ottla.protocol.messages.k78_share_fetch import ShareFetchRequest, ShareFetchResponse
from ottla.protocol.messages.k79_share_acknowledge import ShareAcknowledgeRequest
from ottla.protocol.messages.share_partitions import AcknowledgementBatch, SharePartition, ShareTopic

ACCEPT, RELEASE = 1, 2
RELEASED_PART = 0.1
"""How many of the acquired records are released, to be delivered again."""
TIMEOUT_S = 5.0
RETRY_S = 0.02
FETCH_WAIT_MS = 50
BEAT_S = 1.0

Offset = tuple[int, int]
"""Partition and offset."""


class Restarted(Exception):
    """The session or the membership has to begin again."""


@dataclass(slots=True)
class Delivery:
    """A record that a member acquired: when the request was sent, and whether and when its acceptance was answered (0 if it was not)."""

    offset: Offset
    sent: float
    accepts: bool
    accepted: float = 0.0


@dataclass
class Member:
    """One member on a thread of its own. It notifies `progress` when it begins to answer for records, and when a broker has answered it.

    `deliveries` is complete when `stop` has returned.
    """

    port: int
    group: str
    topic: str
    seed: int
    progress: threading.Condition
    deliveries: list[Delivery] = field(default_factory=list)
    answered: int = 0
    """The number of acknowledgements that were answered."""

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)
        self._member_id = str(UUID(int=self._random.getrandbits(128), version=4))
        self._ended = threading.Event()
        self._epoch = self._session_epoch = 0
        self._assigned: dict[bytes, list[int]] = {}
        self._thread = threading.Thread(target=self._run, name=f"member {self.seed}", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the member after its current request."""
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.is_set():
            try:
                with Client("127.0.0.1", self.port, timeout_s=TIMEOUT_S) as client:
                    self._epoch = self._session_epoch = 0
                    client.call(FindCoordinatorRequest(coordinator_keys=[self.group]), version=6)
                    self._serve(client)
            except (OSError, ProtocolError, Restarted):
                self._ended.wait(RETRY_S)

    def _serve(self, client: Client) -> None:
        beat_at = 0.0
        while not self._ended.is_set():
            if time.monotonic() >= beat_at:
                self._beat(client)
                beat_at = time.monotonic() + (BEAT_S if self._assigned else RETRY_S)
            if self._assigned:
                self._fetch(client)

    def _beat(self, client: Client) -> None:
        request = ShareGroupHeartbeatRequest(self.group, self._member_id, self._epoch, subscribed_topic_names=[self.topic])
        answer = client.call(request)
        if answer.error_code:
            raise Restarted
        self._epoch = answer.member_epoch
        if answer.assignment is not None:
            assigned = {one.topic_id: one.partitions for one in answer.assignment.topic_partitions}
            if assigned != self._assigned and self._session_epoch:
                raise Restarted
            self._assigned = assigned

    def _fetch(self, client: Client) -> None:
        topics = []
        if self._session_epoch == 0:
            topics = [ShareTopic(topic_id, [SharePartition(index) for index in indexes]) for topic_id, indexes in self._assigned.items()]
        sent = time.monotonic()
        response: ShareFetchResponse = client.call(
            ShareFetchRequest(
                self.group,
                self._member_id,
                self._session_epoch,
                max_wait_ms=FETCH_WAIT_MS,
                min_bytes=1,
                max_records=100,
                batch_size=100,
                topics=topics,
            )
        )
        if response.error_code:
            raise Restarted
        self._session_epoch += 1
        for topic in response.responses:
            for partition in topic.partitions:
                if partition.error_code in {ErrorCode.SHARE_SESSION_NOT_FOUND, ErrorCode.NOT_LEADER_OR_FOLLOWER}:
                    raise Restarted
                for acquired in partition.acquired_records:
                    offsets = range(acquired.first_offset, acquired.last_offset + 1)
                    self._acknowledge(client, topic.topic_id, partition.partition_index, offsets, sent)

    def _acknowledge(self, client: Client, topic_id: bytes, index: int, offsets: range, sent: float) -> None:
        taken = [Delivery((index, offset), sent, self._random.random() >= RELEASED_PART) for offset in offsets]
        with self.progress:
            self.deliveries += taken
            self.progress.notify_all()
        batch = AcknowledgementBatch(offsets[0], offsets[-1], [ACCEPT if one.accepts else RELEASE for one in taken])
        asked = [ShareTopic(topic_id, [SharePartition(index, [batch])])]
        answer = client.call(ShareAcknowledgeRequest(self.group, self._member_id, self._session_epoch, topics=asked))
        now = time.monotonic()
        if answer.error_code:
            raise Restarted
        self._session_epoch += 1
        if not any(partition.error_code for topic in answer.responses for partition in topic.partitions):
            for delivery in taken:
                delivery.accepted = now if delivery.accepts else 0.0
            with self.progress:
                self.answered += 1
                self.progress.notify_all()
