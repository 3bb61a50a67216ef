"""Simulated members of a share group: they acquire records, and accept, release, reject or renew them, or let their locks expire.

A member has only one request in flight. So a record that it gets was acquired after the member sent the request.

Sources: KIP-932, KIP-1222; KAFKA ShareConsumeRequestManager.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Final

from ottla.broker.runtime.nodes.link import LinkBroken, UnsupportedByPeer
from ottla.broker.share.acknowledgement import AcknowledgeType
from ottla.broker.sim.sim_client import SimClient
from ottla.broker.sim.sim_cluster import SimCluster
from ottla.broker.sim.sim_share_judge import GROUP, Delivery, ShareGroupHistory
from ottla.broker.txns.transaction import TopicPartition
from ottla.protocol.messages import k78_share_fetch as k78
from ottla.protocol.messages.k76_share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from ottla.protocol.messages.k79_share_acknowledge import ShareAcknowledgeRequest
from ottla.protocol.messages.share_partitions import AcknowledgementBatch, SharePartition, ShareTopic
from ottla.protocol.records.batch import split_batches
from ottla.protocol.records.record import iter_records

_GROUP_KIND: Final = 0
_BEAT_US: Final = 1_000_000
_WAIT_MS: Final = 200
_BYTES_MAX: Final = 4_000
_RECORDS_MAX: Final = 20
_BATCH_LIMIT_MODE, _RECORD_LIMIT_MODE = 0, 1
_NOT_ACKNOWLEDGED: Final = 0.03
"""The probability (0 to 1) that a member does not acknowledge a record at all, so that its lock expires."""
_WITH_NEXT_FETCH: Final = 0.5
"""The probability (0 to 1) that a member sends acknowledgements in its next ShareFetch instead of a ShareAcknowledge."""
_TYPES: Final = {AcknowledgeType.ACCEPT: 80, AcknowledgeType.RELEASE: 12, AcknowledgeType.REJECT: 4, AcknowledgeType.RENEW: 4}


class _Lost(Exception):
    """Raised if the share session must be restarted, because a request had no response or an error."""


@dataclass(slots=True)
class _Session:
    """A member's share session with one broker, for the partitions `tps` that this broker leads. `due` are the acknowledgements that the
    next ShareFetch will contain."""

    node: int
    tps: frozenset[TopicPartition]
    epoch: int = 0
    due: dict[TopicPartition, list[Delivery]] = field(default_factory=dict)


class SimShareMember(SimClient):
    """A simulated share group member. It reads all partitions that the group coordinator assigns to it."""

    def __init__(self, name: str, cluster: SimCluster, random: Random, history: ShareGroupHistory, topics: list[str]) -> None:
        super().__init__(name, cluster, random)
        self.history, self.topics = history, topics

    async def work(self) -> None:
        """Join the share group as a new member, and then acquire and acknowledge records until the member is killed."""
        self._member_id = self.random.randbytes(11).hex()
        self._epoch, self._beat_at_us = 0, 0
        self._assigned: list[TopicPartition] = []
        self._sessions: dict[int, _Session] = {}
        while True:
            if self.loop.now_us >= self._beat_at_us:
                await self._beat()
            if not self._assigned:
                await self.pause()
            for node, tps in (await self._led()).items():
                session = self._sessions.get(node)
                if session is None or session.tps != tps:
                    session = self._sessions[node] = _Session(node, tps)
                try:
                    await self._fetch(session)
                except (_Lost, LinkBroken, UnsupportedByPeer):
                    del self._sessions[node]
                    for tp in tps:
                        self.forget_leader(tp)
                    await self.pause()

    async def _led(self) -> dict[int, frozenset[TopicPartition]]:
        """Return the assigned partitions, grouped by the node id of their leader."""
        led: dict[int, set[TopicPartition]] = {}
        for tp in self._assigned:
            led.setdefault(await self.leader_of(tp), set()).add(tp)
        return {node: frozenset(tps) for node, tps in led.items()}

    async def _beat(self) -> None:
        request = ShareGroupHeartbeatRequest(GROUP, self._member_id, self._epoch, subscribed_topic_names=self.topics)
        try:
            answer: ShareGroupHeartbeatResponse = await self.ask_coordinator(GROUP, _GROUP_KIND, request)
        except LinkBroken:
            return
        if answer.error_code:
            self._epoch = 0
            self.forget_coordinator(GROUP, _GROUP_KIND)
            await self.pause()
            return
        self._epoch, self._beat_at_us = answer.member_epoch, self.loop.now_us + _BEAT_US
        if answer.assignment is not None:
            names = {self.history.topic_ids[name]: name for name in self.topics}
            listed = answer.assignment.topic_partitions
            self._assigned = [(names[topic.topic_id], index) for topic in listed for index in topic.partitions]

    # --- records -------------------------------------------------------------------------------------------------------------------

    async def _fetch(self, session: _Session) -> None:
        tps = session.tps if session.epoch == 0 else session.due.keys()
        due, session.due = session.due, {}
        sent = self.history.next_number()
        request = k78.ShareFetchRequest(
            GROUP,
            self._member_id,
            session.epoch,
            max_wait_ms=_WAIT_MS,
            min_bytes=1,
            max_bytes=_BYTES_MAX,
            max_records=_RECORDS_MAX,
            batch_size=self.random.choice([1, 5, _RECORDS_MAX]),
            share_acquire_mode=self.random.choice([_BATCH_LIMIT_MODE, _RECORD_LIMIT_MODE]),
            topics=self._topics({tp: due.get(tp, []) for tp in sorted(tps)}),
        )
        answer: k78.ShareFetchResponse = await self.call(session.node, request)
        if answer.error_code:
            raise _Lost
        session.epoch += 1
        got: dict[TopicPartition, list[Delivery]] = {}
        for tp, partition in self._partitions(answer.responses):
            self.history.answered(self.name, due.get(tp, []), ok=not partition.acknowledge_error_code and not partition.error_code)
            if partition.error_code:
                raise _Lost
            got[tp] = list(self._delivered(tp, partition, sent))
        self._decide(got)
        if self.random.random() < _WITH_NEXT_FETCH:
            session.due = {tp: [one for one in ones if one.type not in {None, AcknowledgeType.RENEW}] for tp, ones in got.items()}
            self.history.acknowledging(session.due)
        else:
            await self._acknowledge(session, got)

    def _partitions(self, topics: list[k78.ShareFetchableTopicResponse]) -> Iterator[tuple[TopicPartition, k78.PartitionData]]:
        names = {topic_id: name for name, topic_id in self.history.topic_ids.items()}
        for topic in topics:
            for partition in topic.partitions:
                yield (names[topic.topic_id], partition.partition_index), partition

    def _delivered(self, tp: TopicPartition, partition: k78.PartitionData, sent: int) -> Iterator[Delivery]:
        data = bytes(partition.records or b"")
        values: dict[int, bytes] = {}
        for position, header in split_batches(data):
            if not header.is_control:
                for record in iter_records(data[position : position + header.size_bytes]):
                    values[header.base_offset + record.offset_delta] = bytes(record.value or b"")
        for acquired in partition.acquired_records:
            for offset in range(acquired.first_offset, acquired.last_offset + 1):
                delivery = Delivery((*tp, offset), sent, acquired.delivery_count, values.get(offset))
                self.history.delivered(self.name, delivery)
                yield delivery

    def _decide(self, got: dict[TopicPartition, list[Delivery]]) -> None:
        for one in (one for ones in got.values() for one in ones):
            if one.value is None:
                one.type = AcknowledgeType.GAP
            elif self.history.is_poison(one.value):
                one.type = AcknowledgeType.RELEASE
            elif self.random.random() >= _NOT_ACKNOWLEDGED:
                (one.type,) = self.random.choices(list(_TYPES), list(_TYPES.values()))

    async def _acknowledge(self, session: _Session, got: dict[TopicPartition, list[Delivery]]) -> None:
        """Send a ShareAcknowledge for the records `got`. Those that the member renews (RENEW) are accepted with a second request
        afterwards. Raises _Lost if a response has an error."""
        left = {tp: [one for one in ones if one.type is not None] for tp, ones in got.items()}
        while left := {tp: ones for tp, ones in left.items() if ones}:
            self.history.acknowledging(left)
            renews = any(one.type is AcknowledgeType.RENEW for ones in left.values() for one in ones)
            request = ShareAcknowledgeRequest(GROUP, self._member_id, session.epoch, renews, self._topics(left))
            answer = await self.call(session.node, request)
            if answer.error_code:
                raise _Lost
            session.epoch += 1
            names = {topic_id: name for name, topic_id in self.history.topic_ids.items()}
            for topic in answer.responses:
                for partition in topic.partitions:
                    tp = (names[topic.topic_id], partition.partition_index)
                    self.history.answered(self.name, left[tp], ok=not partition.error_code)
            left = {tp: [one for one in ones if one.type is AcknowledgeType.RENEW] for tp, ones in left.items()}
            for one in (one for ones in left.values() for one in ones):
                one.type = AcknowledgeType.ACCEPT

    def _topics(self, acknowledged: dict[TopicPartition, list[Delivery]]) -> list[ShareTopic]:
        topics: dict[str, list[SharePartition]] = {}
        for (topic, index), ones in acknowledged.items():
            topics.setdefault(topic, []).append(SharePartition(index, list(_batches(ones))))
        return [ShareTopic(self.history.topic_ids[topic], partitions) for topic, partitions in topics.items()]


def _batches(ones: list[Delivery]) -> Iterator[AcknowledgementBatch]:
    """Convert deliveries to acknowledgement batches for a request, one batch for each range of consecutive offsets."""
    batch: AcknowledgementBatch | None = None
    for one in ones:
        assert one.type is not None
        if batch is not None and batch.last_offset + 1 == one.offset[2]:
            batch.last_offset += 1
            batch.acknowledge_types.append(one.type)
            continue
        if batch is not None:
            yield batch
        batch = AcknowledgementBatch(one.offset[2], one.offset[2], [one.type])
    if batch is not None:
        yield batch
