"""Simulated members of a consumer group: they read their assigned partitions and commit their positions.

Sources: KIP-848; KAFKA AbstractMembershipManager.
"""

from __future__ import annotations

from random import Random
from typing import Final

from ottla.broker.runtime.nodes.link import LinkBroken
from ottla.broker.sim.sim_client import SimClient
from ottla.broker.sim.sim_cluster import SimCluster
from ottla.broker.sim.sim_producer import ClientHistory
from ottla.broker.sim.sim_reader import Delivered, fetched
from ottla.broker.txns.transaction import TopicPartition
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages import k08_offset_commit as k08
from ottla.protocol.messages import k09_offset_fetch as k09
from ottla.protocol.messages.k68_consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

GROUP: Final = "members"
_REBALANCE_MS: Final = 10_000
_IDLE_MS: Final = 500
_GROUP_KIND: Final = 0
_OUT: Final = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH})


class GroupDeliveries:
    """The records that the members of a simulated consumer group have received, and for each partition the greatest offset whose commit was
    confirmed."""

    def __init__(self) -> None:
        self.delivered: dict[TopicPartition, set[Delivered]] = {}
        self.committed: dict[TopicPartition, int] = {}


class SimMember(SimClient):
    """A simulated consumer group member. It repeatedly sends a heartbeat, reads its assigned partitions of one topic, and commits its
    offsets."""

    def __init__(
        self, name: str, cluster: SimCluster, random: Random, history: ClientHistory, *, topic: str, group: GroupDeliveries
    ) -> None:
        super().__init__(name, cluster, random)
        self.history, self.topic, self.group = history, topic, group
        self._member_id = ""
        self._epoch = 0
        self._owned: dict[int, int] = {}
        """For each assigned partition, the offset that the member reads next."""
        self._committed_up_to: dict[int, int] = {}
        """For each assigned partition, the last committed offset that a response has confirmed. A commit without a response is sent
        again."""
        self._wanted: set[int] = set()
        self._sends_all_fields = True
        """Whether the next heartbeat contains all fields. This is needed after a heartbeat without a response, so that the coordinator
        sends the assignment again."""
        self._topic_id = bytes(16)

    async def work(self) -> None:
        """Send heartbeats, read the assigned partitions and commit offsets, until the member is killed."""
        while True:
            if await self._beat() and self._owned:
                await self._read()
            else:
                await self.pause(_IDLE_MS)

    async def _beat(self) -> bool:
        """Send a heartbeat to the group coordinator. Return whether this client is a member of the group after the response."""
        if self._epoch == 0:
            self._sends_all_fields = True
            self._member_id, self._owned, self._wanted = self.random.randbytes(11).hex(), {}, set()
        request = ConsumerGroupHeartbeatRequest(
            GROUP,
            self._member_id,
            self._epoch,
            rebalance_timeout_ms=_REBALANCE_MS if self._sends_all_fields else -1,
            subscribed_topic_names=[self.topic] if self._sends_all_fields else None,
            topic_partitions=[TopicPartitions(self._topic_id, sorted(self._owned))] if self._owned else [],
        )
        self._sends_all_fields = True
        try:
            answer: ConsumerGroupHeartbeatResponse = await self.ask_coordinator(GROUP, _GROUP_KIND, request, 1)
        except LinkBroken:
            return False
        if answer.error_code in _OUT:
            self._epoch = 0
            return False
        if answer.error_code:
            self.forget_coordinator(GROUP, _GROUP_KIND)
            return False
        self._epoch, self._sends_all_fields = answer.member_epoch, False
        for share in [] if answer.assignment is None else answer.assignment.topic_partitions:
            self._topic_id = share.topic_id
        if answer.assignment is not None:
            self._wanted = {index for share in answer.assignment.topic_partitions for index in share.partitions}
        self._owned = {index: offset for index, offset in self._owned.items() if index in self._wanted}
        for index in sorted(self._wanted - self._owned.keys()):
            offset = await self._committed(index)
            if offset is not None:
                self._owned[index] = self._committed_up_to[index] = offset
        return True

    async def _committed(self, index: int) -> int | None:
        topics = [k09.OffsetFetchRequestTopics(self.topic, partition_indexes=[index])]
        request_group = k09.OffsetFetchRequestGroup(GROUP, self._member_id, self._epoch, topics)
        known = self.group.committed.get((self.topic, index), 0)
        try:
            answer = await self.ask_coordinator(GROUP, _GROUP_KIND, k09.OffsetFetchRequest(groups=[request_group], require_stable=True), 9)
        except LinkBroken:
            return None
        (group,) = answer.groups
        error = group.error_code or group.topics[0].partitions[0].error_code
        if error:
            self._leave_if_out(error)
            return None
        offset: int = max(0, group.topics[0].partitions[0].committed_offset)
        if offset < known:
            self.history.wrong.append(f"{self.name}: the committed offset of {self.topic}-{index} is {offset}, but was {known} before")
        return offset

    async def _read(self) -> None:
        for index in sorted(self._owned):
            if index not in self._owned:
                return  # a response in between expelled it from the group
            tp, offset = (self.topic, index), self._owned[index]
            records, following = await fetched(self, self.history, tp, offset, committed=True)
            self.group.delivered.setdefault(tp, set()).update(records)
            self._owned[index] = max(offset, following)
            if self._owned[index] > self._committed_up_to[index]:
                await self._commit(index, self._owned[index])

    async def _commit(self, index: int, offset: int) -> None:
        topic = k08.OffsetCommitRequestTopic(self.topic, partitions=[k08.OffsetCommitRequestPartition(index, offset)])
        request = k08.OffsetCommitRequest(GROUP, self._epoch, self._member_id, topics=[topic])
        try:
            answer = await self.ask_coordinator(GROUP, _GROUP_KIND, request, 9)
        except LinkBroken:
            return
        error = answer.topics[0].partitions[0].error_code
        if error:
            self._leave_if_out(error)
        else:
            tp, self._committed_up_to[index] = (self.topic, index), offset
            self.group.committed[tp] = max(offset, self.group.committed.get(tp, 0))

    def _leave_if_out(self, error: int) -> None:
        if error in _OUT:
            self._epoch, self._owned = 0, {}
        elif error != ErrorCode.UNSTABLE_OFFSET_COMMIT:
            self.forget_coordinator(GROUP, _GROUP_KIND)
