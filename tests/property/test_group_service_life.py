"""Random sequences of events in groups of both protocols under one service: whatever clients, clocks and disks do, no request waits for
ever, no timer is late, and no state is left once all clients are silent."""

from __future__ import annotations

import asyncio
import random
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.broker.core.clock import VirtualClock
from ottla.broker.core.rejected import Rejected
from ottla.broker.core.settings import BrokerSettings
from ottla.broker.core.timers import Timers
from ottla.broker.groups.classic import ClassicGroup, LeavingMember, SyncRequest
from ottla.broker.groups.classic_join import JoinRequest
from ottla.broker.groups.classic_members import JoinProtocol
from ottla.broker.groups.consumer import ConsumerGroup
from ottla.broker.groups.consumer_heartbeat import Heartbeat
from ottla.broker.groups.embedded_protocol import ConsumerProtocolAssignment, TopicPartition
from ottla.broker.groups.results import JoinGroupResult
from ottla.broker.groups.topics_view import TopicInfo
from ottla.broker.runtime.coordination.group_service import GroupService
from ottla.broker.runtime.upkeep.nursery import Nursery
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.schema import encode_prefixed
from tests.support.consumer_groups import subscription, topic_id
from tests.support.memory_partition import MemoryPartition

ASSIGNMENT = encode_prefixed(ConsumerProtocolAssignment([TopicPartition("t", [0, 1])]), 3)
SUBSCRIPTIONS = [subscription("t"), subscription("t", "u"), subscription("t", owned={topic_id("t"): frozenset({0, 1})}), b"?"]
WISHES: list[dict[str, Any]] = [
    {"topic_names": frozenset({"t"})},
    {"topic_names": frozenset({"t", "u"})},
    {"topic_regex": "t.*"},
    {"topic_regex": "("},
]


class Topics:
    """The metadata that groups see: two topics, one of which grows."""

    def __init__(self) -> None:
        self.version = 1
        self.creation_version = 1
        self.counts = {"t": 4, "u": 2}

    def by_name(self, name: str) -> TopicInfo | None:
        count = self.counts.get(name)
        return None if count is None else TopicInfo(name, topic_id(name), count)

    def by_id(self, wanted: bytes) -> TopicInfo | None:
        return self.by_name(wanted.rstrip(b"\0").decode())

    def names(self) -> list[str]:
        return list(self.counts)

    def partition_count(self, name: str) -> int:
        return 1


class Life:
    """Random clients of the group service. They may use each other's member ids, forget their own, repeat requests and disconnect; one
    write in fifteen fails."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.clock, self.timers, self.offsets = VirtualClock(), Timers(), MemoryPartition()
        self.topics: Any = Topics()
        registry: Any = SimpleNamespace(get=lambda name, index: self.offsets)
        settings = BrokerSettings(
            group_initial_rebalance_delay_ms=self.random.choice([0, 0, 3_000]),
            group_max_size=self.random.choice([3, 100]),
            group_consumer_max_size=self.random.choice([3, 100]),
        )
        self.service = GroupService(
            settings, Nursery(self.timers, self.clock, lambda _: None), registry, self._no_topic, cluster=self.topics
        )
        self.waiting: list[asyncio.Future[Any]] = []
        self.ids = [""]

    async def _no_topic(self, name: str) -> None:
        raise AssertionError(f"{name} is there")

    def step(self) -> None:
        self.offsets.refusal = Rejected(ErrorCode.KAFKA_STORAGE_ERROR) if self.random.random() < 0.07 else None
        group_id, member_id = self.random.choice("gh"), self.random.choice(self.ids[-8:])
        instance_id = self.random.choice([None, None, "i1", "i2"])
        act = self.random.choice([self.join, self.join, self.sync, self.beat, self.consumer, self.consumer, self.leave, self.other])
        try:
            answer = act(group_id, member_id, instance_id)
        except Rejected:
            return
        if isinstance(answer, asyncio.Future):
            self.waiting.append(answer)
            answer.add_done_callback(lambda done: None if done.cancelled() or done.exception() else self.heard(done.result()))
            if self.random.random() < 0.1:
                answer.cancel()
        else:
            self.heard(answer)

    def heard(self, answer: object) -> None:
        if isinstance(answer, JoinGroupResult) and answer.member_id:
            self.ids.append(answer.member_id)

    def join(self, group_id: str, member_id: str, instance_id: str | None) -> object:
        request = JoinRequest(
            member_id=member_id,
            new_member_id=f"m{len(self.ids)}-{self.random.random()}",
            instance_id=instance_id,
            client_id="c",
            client_host="/h",
            session_timeout_ms=self.random.choice([6_000, 45_000]),
            rebalance_timeout_ms=self.random.choice([0, 1_000, 10_000, 300_000]),
            protocol_type=self.random.choice(["consumer", "consumer", "consumer", "connect"]),
            protocols=(JoinProtocol("range", self.random.choice(SUBSCRIPTIONS)),),
            require_known_member_id=self.random.random() < 0.5,
        )
        return self.service.join(group_id, request)

    def sync(self, group_id: str, member_id: str, instance_id: str | None) -> object:
        given = dict.fromkeys(self.ids[-5:], ASSIGNMENT)
        request = SyncRequest(member_id=member_id, instance_id=None, generation=self.generation(group_id, member_id), assignments=given)
        return self.service.sync(group_id, request)

    def beat(self, group_id: str, member_id: str, instance_id: str | None) -> object:
        return self.service.heartbeat(group_id, member_id, instance_id, self.generation(group_id, member_id))

    def generation(self, group_id: str, member_id: str) -> int:
        group = self.service.get(group_id)
        if isinstance(group, ClassicGroup):
            return group.generation
        return group.members[member_id].epoch if group is not None and member_id in group.members else 1

    def consumer(self, group_id: str, member_id: str, instance_id: str | None) -> object:
        member_id = self.random.choice(["n1", "n2", "n3"])
        group = self.service.get(group_id)
        member = group.members.get(member_id) if isinstance(group, ConsumerGroup) else None
        epoch = self.random.choice([0, -1, -2]) if member is None or self.random.random() < 0.3 else member.epoch
        owned = self.random.choice([None, {}, {} if member is None else member.assigned])
        fields: dict[str, Any] = (
            {"owned": {}, "rebalance_timeout_ms": 1_000, **self.random.choice(WISHES)} if epoch == 0 else {"owned": owned}
        )
        beat = Heartbeat(group_id=group_id, member_id=member_id, epoch=epoch, instance_id=instance_id, **fields)
        return self.service.consumer_heartbeat(beat)

    def leave(self, group_id: str, member_id: str, instance_id: str | None) -> object:
        return self.service.leave(group_id, [LeavingMember(member_id, instance_id)])

    def other(self, group_id: str, member_id: str, instance_id: str | None) -> object:
        what = self.random.randrange(6)
        if what == 0:
            self.topics.counts["t"] += 1
            self.topics.version += 1
        elif what == 1:
            return self.service.delete_group(group_id)
        else:
            self.pass_ms(self.random.choice([1, 500, 1_000, 6_000, 45_000, 400_000]))
        return None

    def pass_ms(self, ms: int) -> None:
        end = self.clock.mono_ms() + ms
        for _ in range(20_000):
            deadline = self.timers.next_deadline()
            if deadline is None or deadline > end:
                break
            self.clock.advance(max(0, deadline - self.clock.mono_ms()))
            self.timers.run_due(self.clock.mono_ms(), 1)
        else:
            raise AssertionError("the timers never end")
        self.clock.advance(end - self.clock.mono_ms())

    def check_timers(self) -> None:
        for shard in self.service.shards.serving():
            for group_id in shard.machine.groups:
                deadline = shard.machine.next_deadline(group_id)
                assert deadline is None or shard.timers[group_id].deadline_ms <= deadline


@pytest.mark.parametrize("seed", range(80))
async def test_every_pending_request_is_answered_and_silent_groups_end_empty_without_timers(seed: int) -> None:
    life = Life(seed)
    for _ in range(120):
        life.step()
        await asyncio.sleep(0)
        life.check_timers()
    life.offsets.refusal = None
    for _ in range(6):
        life.pass_ms(1_000_000)
        await asyncio.sleep(0)
    assert all(answer.done() for answer in life.waiting)
    for shard in life.service.shards.serving():
        assert all(group.is_empty for group in shard.machine.groups.values())
        assert not shard.timers
