"""An incremental fetch session that reads only changed partitions responds exactly as one that reads all, whatever happens in between."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from random import Random

import pytest

from ottla.broker.core.log_config import LogConfig
from ottla.broker.replication.brokers import BrokerLiveness
from ottla.broker.runtime.replicas.partition import Partition
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k01_fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, ForgottenTopic, ReplicaState
from ottla.protocol.records.batch import split_batches
from tests.support.fetching_leader import EACH, LAG_MS, LEADER, NODES, TOPICS, FetchingLeader
from tests.support.simulation import settle

STEPS = 400
Key = tuple[str, int]


@dataclass(eq=False)
class Fetcher:
    """The client side of a fetch session: a follower (`node`) or a consumer (-1), with what it needs to check that the leader's responses
    are consistent."""

    node: int
    rng: Random
    session_id: int = 0
    epoch: int = 0
    offsets: dict[Key, int] = field(default_factory=dict)
    changed: set[Key] = field(default_factory=set)
    forgotten: set[Key] = field(default_factory=set)
    epochs: dict[Key, int] = field(default_factory=dict)
    broker_epoch: int = 0
    isolation: int = 0
    rack: str = ""

    def __post_init__(self) -> None:
        self.broker_epoch = self.node
        self.isolation = self.rng.choice([0, 1])
        for topic in TOPICS:
            for index in range(EACH):
                self.offsets[topic, index] = 0
        self.changed = set(self.offsets)

    def request(self) -> FetchRequest:
        rng = self.rng
        for key in rng.sample(sorted(self.offsets), k=min(len(self.offsets), rng.choice([0, 0, 0, 0, 1]))):
            del self.offsets[key]
            self.forgotten.add(key)
        for key in rng.sample(sorted(self.forgotten), k=min(len(self.forgotten), rng.choice([0, 0, 1]))):
            self.forgotten.discard(key)
            self.offsets[key] = 0
            self.changed.add(key)
        if rng.random() < 0.02:
            self.isolation = 1 - self.isolation
        if rng.random() < 0.02:
            self.rack = rng.choice(["", "r"])
        if rng.random() < 0.03:
            self.epoch = 0
        named = set(self.offsets) if self.epoch == 0 else self.changed & set(self.offsets)
        topics = [
            FetchTopic(
                topic,
                topic.encode() * 16,
                [
                    FetchPartition(
                        index,
                        current_leader_epoch=self.epochs.get((topic, index), -1),
                        fetch_offset=self.offsets[topic, index],
                        last_fetched_epoch=-1,
                        log_start_offset=0 if self.node >= 0 else -1,
                        partition_max_bytes=rng.choice([100, 1 << 20]),
                    )
                    for name, index in sorted(named)
                    if name == topic
                ],
            )
            for topic in TOPICS
        ]
        gone = [
            ForgottenTopic(topic, topic.encode() * 16, [index for name, index in sorted(self.forgotten) if name == topic])
            for topic in TOPICS
        ]
        self.changed = set()
        return FetchRequest(
            replica_id=self.node,
            replica_state=ReplicaState(self.node, self.broker_epoch),
            max_wait_ms=rng.choice([0, 0, 300]),
            min_bytes=rng.choice([1, 1, 200]),
            max_bytes=rng.choice([150, 1 << 20]),
            isolation_level=0 if self.node >= 0 else self.isolation,
            session_id=self.session_id,
            session_epoch=self.epoch,
            topics=[each for each in topics if each.partitions],
            forgotten_topics_data=[each for each in gone if each.partitions] if self.epoch else [],
            rack_id="" if self.node >= 0 else self.rack,
        )

    def answered(self, response: FetchResponse) -> None:
        if response.error_code:
            self.session_id = self.epoch = 0
            return
        self.session_id = response.session_id
        self.epoch = self.epoch + 1 if self.session_id else 0
        for topic in response.responses:
            for data in topic.partitions:
                key = topic.topic or topic.topic_id[:1].decode(), data.partition_index
                if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                    self.offsets[key] = self.rng.choice([0, 1, 2, 5])
                    self.changed.add(key)
                elif data.records and self.rng.random() < 0.9:
                    *_, (_, last) = split_batches(bytes(data.records))
                    self.offsets[key] = last.next_offset
                    self.changed.add(key)
                elif data.error_code in {ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_LEADER_EPOCH}:
                    self.epochs.pop(key, None)
                    self.changed.add(key)


def produce(leader: FetchingLeader, partition: Partition, rng: Random) -> None:
    leader.produce(partition, rng.randint(1, 3), producer=rng.choice([-1, -1, -1, 7, 8]))


def end_transaction(leader: FetchingLeader, partition: Partition, rng: Random) -> None:
    leader.end_transaction(partition, rng.choice([7, 8]), commit=rng.random() < 0.5)


def delete_records(leader: FetchingLeader, partition: Partition, rng: Random) -> None:
    leader.delete_records(partition, rng.randrange(6))


def maybe_shrink_isr(_: FetchingLeader, partition: Partition, __: Random) -> None:
    partition.maybe_shrink_isr()


def answer_proposals(leader: FetchingLeader, _: Partition, rng: Random) -> None:
    leader.answer_proposals(accept=rng.random() < 0.7)


def elect(leader: FetchingLeader, partition: Partition, rng: Random) -> None:
    known = leader.registered[partition.topic, partition.index]
    leader.register(partition, known._replace(leader=rng.choice([1, 1, 1, 2]), leader_epoch=known.leader_epoch + 1))


def alter_in_sync_set(leader: FetchingLeader, partition: Partition, rng: Random) -> None:
    known = leader.registered[partition.topic, partition.index]
    leader.register(partition, known._replace(isr=rng.choice([NODES, (1, 2), (1, 3)])))


def fence(leader: FetchingLeader, _: Partition, rng: Random) -> None:
    node = rng.choice(NODES[1:])
    liveness = leader.brokers.liveness[node]
    leader.brokers.liveness = leader.brokers.liveness | {node: liveness._replace(fenced=not liveness.fenced)}


def alter_rights(leader: FetchingLeader, _: Partition, rng: Random) -> None:
    leader.rights.version += 1
    leader.rights.refused = rng.choice([frozenset(), frozenset(), frozenset({"t"}), frozenset({"cluster"})])


def remove(leader: FetchingLeader, partition: Partition, _: Random) -> None:
    leader.partitions.remove(partition.topic, partition.index)
    leader.log_dir.delete_log(partition.topic, partition.index)


def reconfigure(_: FetchingLeader, partition: Partition, rng: Random) -> None:
    partition.reconfigure(LogConfig(min_insync_replicas=rng.randint(1, 3)))


def lose_disk(_: FetchingLeader, partition: Partition, __: Random) -> None:
    partition.log.fail(OSError("the disk is gone"))


EVENTS: dict[Callable[[FetchingLeader, Partition, Random], None], int] = {
    produce: 40,
    end_transaction: 8,
    delete_records: 6,
    maybe_shrink_isr: 10,
    answer_proposals: 8,
    elect: 4,
    alter_in_sync_set: 4,
    fence: 3,
    alter_rights: 2,
    remove: 2,
    reconfigure: 3,
    lose_disk: 1,
}
"""Each step, and its relative frequency."""


class Twins:
    """Two leaders that get the same requests and events: one reads only the changed partitions of a session, the other all of them."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.leaders = [FetchingLeader(walks=False), FetchingLeader(walks=True)]
        self.fetchers = [Fetcher(node, Random(seed + node)) for node in (2, 3, -1, -1)]
        self.incarnation = 10
        self.waiting: dict[Fetcher, list[asyncio.Task[FetchResponse]]] = {}
        self.read = self.walked = 0

    def step(self) -> None:
        """Apply one random event to both leaders."""
        rng = self.rng
        if rng.random() < 0.55:
            fetcher = rng.choice(self.fetchers)
            if fetcher not in self.waiting or rng.random() < 0.1:
                self.fetch(fetcher)
            return
        key, passes_ms, seed = (rng.choice(TOPICS), rng.randrange(EACH)), rng.choice([1, 50, 50, 400]), rng.random()
        (happens,) = rng.choices(list(EVENTS), list(EVENTS.values()))
        for leader in self.leaders:
            leader.clock.advance(passes_ms)
            leader.timers.run_due(leader.clock.mono_ms())
            partition = leader.get(*key)
            if partition is None:
                leader.serve(*key)
            else:
                happens(leader, partition, Random(seed))
        if rng.random() < 0.005:
            self.replace(rng.choice(NODES[1:]))

    def replace(self, node: int) -> None:
        """Register a new incarnation of the broker. Mostly its fetchers then use the new broker epoch; else the old incarnation continues
        to fetch."""
        self.incarnation += 1
        for leader in self.leaders:
            leader.brokers.liveness = leader.brokers.liveness | {node: BrokerLiveness(self.incarnation)}
        if self.rng.random() < 0.8:
            for fetcher in self.fetchers:
                if fetcher.node == node:
                    fetcher.broker_epoch = self.incarnation

    def fetch(self, fetcher: Fetcher) -> None:
        request = fetcher.request()
        version = 15 if fetcher.node >= 0 else 12
        self.read += self.leaders[0].dirty[fetcher.session_id]
        self.walked += self.leaders[1].dirty[fetcher.session_id]
        self.waiting.pop(fetcher, None)
        answer, expected = (leader.fetch(request, version=version) for leader in self.leaders)
        if isinstance(answer, FetchResponse):
            assert answer == expected
            fetcher.answered(answer)
        else:
            assert isinstance(expected, asyncio.Task)
            self.waiting[fetcher] = [answer, expected]

    def check(self) -> None:
        dirty, walking = self.leaders
        for fetcher, (answer, expected) in list(self.waiting.items()):
            assert answer.done() == expected.done()
            if answer.done():
                assert answer.result() == expected.result()
                fetcher.answered(answer.result())
                del self.waiting[fetcher]
        assert dirty.waits.waiting == walking.waits.waiting
        assert dirty.state() == walking.state()

    def stop(self) -> None:
        for leader in self.leaders:
            leader.waits.release_all()

    def close(self) -> None:
        for leader in self.leaders:
            leader.close()


@pytest.mark.parametrize("seed", range(40))
async def test_fetch_session_that_reads_only_changed_partitions_answers_like_a_full_read(seed: int) -> None:
    twins = Twins(seed)
    try:
        for _ in range(STEPS):
            twins.step()
            await settle(6)
            twins.check()
        twins.stop()
        await settle()
        twins.check()
        assert not twins.waiting
    finally:
        twins.close()
    assert twins.read < twins.walked


def of_follower(*named: FetchPartition, epoch: int, session_id: int = 1) -> FetchRequest:
    topics = [FetchTopic("t", b"t" * 16, list(named))] if named else []
    return FetchRequest(replica_id=2, replica_state=ReplicaState(2, 2), session_id=session_id, session_epoch=epoch, topics=topics)


def at(offset: int, index: int = 0) -> FetchPartition:
    return FetchPartition(index, 1, offset, log_start_offset=0, partition_max_bytes=1000)


@pytest.fixture
def leader() -> Iterator[FetchingLeader]:
    made = FetchingLeader(walks=False)
    yield made
    made.close()


async def test_follower_that_caught_up_while_leaving_the_isr_rejoins_without_naming_the_partition(
    leader: FetchingLeader,
) -> None:
    partition = leader.partitions.get("t", 0)
    leader.fetch(of_follower(at(0), epoch=0), version=15)
    leader.produce(partition, 1)
    leader.clock.advance(LAG_MS + 1)
    partition.maybe_shrink_isr()
    leader.fetch(of_follower(at(1), epoch=1), version=15)
    assert leader.dirty[1] == 0, "it has everything, and is in sync until the controller answers"
    leader.answer_proposals(accept=True)
    assert partition.replica.leadership.in_sync.committed == {LEADER}
    leader.fetch(of_follower(epoch=2), version=15)
    leader.answer_proposals(accept=True)
    assert 2 in partition.replica.leadership.in_sync.committed


async def test_a_follower_of_idle_partitions_has_caught_up_at_its_last_request_when_one_of_them_gets_a_record(
    leader: FetchingLeader,
) -> None:
    partition = leader.partitions.get("t", 0)
    leader.fetch(of_follower(at(0), at(0, 1), epoch=0), version=15)
    for epoch in range(1, 10):
        leader.clock.advance(LAG_MS)
        assert leader.dirty[1] == 0
        leader.fetch(of_follower(epoch=epoch), version=15)
    leader.produce(partition, 1)
    leader.clock.advance(LAG_MS)
    assert partition.replica.leadership.followers[2].is_caught_up(1, leader.clock.mono_ms(), LAG_MS)
    leader.clock.advance(1)
    assert not partition.replica.leadership.followers[2].is_caught_up(1, leader.clock.mono_ms(), LAG_MS)


async def test_incremental_fetch_reads_only_the_changed_partition_of_many(leader: FetchingLeader) -> None:
    everything = [at(0, index) for index in range(EACH)]
    leader.fetch(of_follower(*everything, epoch=0), version=15)
    leader.produce(leader.partitions.get("t", 2), 1)
    (session,) = leader.sessions
    assert [target.requested.partition for target in session.pending()] == [2]


async def test_cancelled_first_request_of_a_fetch_session_leaves_no_waiter_or_watcher(leader: FetchingLeader) -> None:
    request = of_follower(at(0), epoch=0)
    request.max_wait_ms, request.min_bytes = 500, 1
    task = leader.fetch(request, version=15)
    await settle(3)
    assert isinstance(task, asyncio.Task)
    assert leader.partitions.get("t", 0).log_end_watchers
    task.cancel()
    await settle(3)
    assert (leader.waits.waiting, leader.partitions.get("t", 0).log_end_watchers) == (0, {})
