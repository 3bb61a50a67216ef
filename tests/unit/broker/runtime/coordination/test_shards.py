"""Shards of an internal topic by leader epoch: created by an election, loaded, used, and closed by a resignation."""

from __future__ import annotations

import asyncio
import logging
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.broker.core.clock import VirtualClock
from ottla.broker.core.effects import Effects
from ottla.broker.core.java_hash import partition_of
from ottla.broker.core.rejected import Rejected
from ottla.broker.core.timers import Timers
from ottla.broker.runtime.coordination.shard import Shard, ShardState
from ottla.broker.runtime.coordination.shards import Shards
from ottla.broker.runtime.upkeep.nursery import Nursery
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.records.record import SimpleRecord
from tests.support.memory_partition import MemoryPartition

TOPIC = "__words"
KEY = next(key for key in "abcdefgh" if partition_of(key, 2) == 0)
OTHER_KEY = next(key for key in "abcdefgh" if partition_of(key, 2) == 1)


class Words:
    """A state machine whose state is the words written so far."""

    def __init__(self) -> None:
        self.words: list[str] = []

    def apply(self, record: str, record_offset: int, producer_id: int = -1) -> None:
        self.words.append(record)

    def end_transaction(self, producer_id: int, *, commit: bool) -> None:
        pass


def _decode(_: object, value: Any) -> str | None:
    return bytes(value).decode()


class Harness:
    """An internal topic of two partitions, any of which may be missing, and the shards that were loaded or unloaded."""

    def __init__(self) -> None:
        self.partitions: dict[int, Any] = {0: MemoryPartition(), 1: MemoryPartition()}
        for index, partition in self.partitions.items():
            partition.index = index
        self.count = 2
        self.loaded: list[int] = []
        self.closed: list[int] = []
        self.clock, self.timers = VirtualClock(), Timers()
        self.nursery = Nursery(self.timers, self.clock, lambda _: None)
        registry: Any = SimpleNamespace(by_name=lambda _: SimpleNamespace(partitions=self.partitions), get=self._get)
        self.shards: Shards[Shard[str, Words]] = Shards(
            TOPIC,
            registry,
            lambda: self.count,
            lambda partition: Shard(partition, Words(), lambda word: (b"k", word.encode()), _decode),
            create_topic=self._create_topic,
            nursery=self.nursery,
            loaded=lambda shard: self.loaded.append(shard.partition.index),
            closed=lambda shard: self.closed.append(shard.partition.index),
            chunk_bytes=1,
        )

    async def _create_topic(self, topic: str) -> None:
        assert topic == TOPIC
        self.count = 2

    def _get(self, _: str, index: int) -> Any:
        if index not in self.partitions:
            raise Rejected(ErrorCode.KAFKA_STORAGE_ERROR, "offline")
        return self.partitions[index]

    def write(self, index: int, *words: str) -> None:
        for word in words:
            self.partitions[index].append_records([SimpleRecord(b"k", word.encode())])

    def refusal(self, key: str) -> ErrorCode | None:
        try:
            self.shards.of(key)
        except Rejected as rejected:
            return rejected.code
        return None


@pytest.fixture
async def harness() -> Harness:
    return Harness()


async def test_an_empty_partition_is_served_at_once(harness: Harness) -> None:
    assert harness.shards.of(KEY).state is ShardState.SERVING


async def test_a_shard_answers_after_its_log_is_loaded(harness: Harness) -> None:
    harness.write(0, "a", "b", "c")
    assert harness.refusal(KEY) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    with pytest.raises(Rejected):
        harness.shards.all()
    await harness.shards.load()
    assert harness.shards.of(KEY).machine.words == ["a", "b", "c"]
    assert harness.loaded == [0]
    assert [shard.partition.index for shard in harness.shards.all()] == [0, 1]


async def test_a_missing_topic_has_no_coordinator(harness: Harness) -> None:
    assert harness.shards.exist
    harness.count = 0
    assert not harness.shards.exist
    assert harness.refusal(KEY) is ErrorCode.NOT_COORDINATOR
    await harness.shards.create_topic()
    assert harness.refusal(KEY) is None


async def test_an_offline_partition_does_not_move_its_keys(harness: Harness) -> None:
    del harness.partitions[0]
    assert harness.refusal(KEY) is ErrorCode.NOT_COORDINATOR
    assert harness.shards.of(OTHER_KEY).partition.index == 1


async def test_a_damaged_partition_is_logged_and_not_served(harness: Harness, caplog: pytest.LogCaptureFixture) -> None:
    harness.write(0, "a")
    harness.partitions[0].log.batches[0] = harness.partitions[0].log.batches[0][:-1] + b"\xff"
    with caplog.at_level(logging.ERROR):
        await harness.shards.load()
    assert f"loading of {TOPIC}-0 failed" in caplog.text
    assert harness.refusal(KEY) is ErrorCode.NOT_COORDINATOR
    assert harness.refusal(OTHER_KEY) is None


async def test_a_shard_ignores_the_end_of_an_older_leader_epoch(harness: Harness) -> None:
    shard = harness.shards.of(KEY)
    harness.shards.on_resignation(0, shard.epoch)
    assert harness.closed == []
    harness.shards.on_resignation(0, shard.epoch + 1)
    assert (harness.closed, shard.state) == ([0], ShardState.CLOSED)
    assert harness.shards.serving() == []


async def test_a_removed_replica_stops_its_shard(harness: Harness) -> None:
    shard = harness.shards.of(KEY)
    harness.shards.on_resignation(0, None)
    assert (harness.closed, shard.state) == ([0], ShardState.CLOSED)


async def test_only_changes_of_the_shards_topic_start_or_stop_shards(harness: Harness) -> None:
    callbacks = SimpleNamespace(on_election=[], on_resignation=[])
    harness.shards.follow(callbacks)
    for topic in ("other", TOPIC):
        for elected in callbacks.on_election:
            elected(topic, 1, 4)
    assert [shard.partition.index for shard in harness.shards.serving()] == [1]
    for topic in ("other", TOPIC):
        for resigned in callbacks.on_resignation:
            resigned(topic, 1, 5)
    assert harness.closed == [1]


async def test_a_leadership_change_of_an_offline_partition_is_ignored(harness: Harness) -> None:
    del harness.partitions[0]
    harness.shards.on_election(0)
    assert harness.refusal(KEY) is ErrorCode.NOT_COORDINATOR


async def test_a_start_keeps_shards_that_metadata_started(harness: Harness) -> None:
    harness.write(0, *"abc")
    harness.shards.on_election(0)
    before = harness.shards.at(0)
    await harness.shards.load()
    assert harness.shards.at(0) is before
    assert harness.closed == []


async def test_a_known_election_does_not_restart_the_shard(harness: Harness) -> None:
    harness.write(0, *"abc")
    harness.partitions[0].leader_epoch = 5
    met = harness.shards.at(0)
    harness.shards.on_election(0)
    assert (harness.shards.at(0) is met, harness.closed) == (True, [])


async def test_a_partition_led_elsewhere_answers_not_coordinator(harness: Harness) -> None:
    harness.partitions[0].leads = False
    assert harness.refusal(KEY) is ErrorCode.NOT_COORDINATOR


async def test_a_new_leader_epoch_loads_the_log_again(harness: Harness) -> None:
    before = harness.shards.of(KEY)
    before.run(Effects(["mine"], None))
    harness.write(0, "theirs")
    harness.partitions[0].leader_epoch = 5
    harness.shards.on_election(0)
    await asyncio.sleep(0)
    async with asyncio.timeout(10):
        while harness.refusal(KEY) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:  # noqa: ASYNC110 # as a client asks
            await asyncio.sleep(0)
    after = harness.shards.of(KEY)
    assert (after.machine.words, after.epoch, before.state) == (["mine", "theirs"], 5, ShardState.CLOSED)


async def test_losing_leadership_while_loading_leaves_no_state(harness: Harness) -> None:
    harness.write(0, *"abcdefgh")
    harness.shards.on_election(0)
    await asyncio.sleep(0)
    harness.partitions[0].leads = False
    harness.shards.on_resignation(0, 9)
    for _ in range(20):
        await asyncio.sleep(0)
    assert (harness.loaded, harness.closed) == ([], [0])


async def test_a_stop_ends_all_shards(harness: Harness) -> None:
    harness.write(1, *"abc")
    harness.shards.of(KEY)
    harness.shards.on_election(1)
    harness.shards.stop()
    assert sorted(harness.closed) == [0, 1]


async def test_a_bug_after_one_load_does_not_stop_other_loads(harness: Harness) -> None:
    class NotTheFirst(list[int]):
        def append(self, index: int) -> None:
            if index == 0:
                raise ZeroDivisionError
            super().append(index)

    harness.loaded = NotTheFirst()
    harness.write(0, "a")
    harness.write(1, "b")
    await harness.shards.load()
    assert harness.loaded == [1]
    assert harness.refusal(KEY) is ErrorCode.NOT_COORDINATOR
    assert harness.shards.of(OTHER_KEY).machine.words == ["b"]


async def test_a_bug_while_loading_stops_neither_other_loads_nor_the_start(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    apply = Words.apply

    def broken(machine: Words, record: str, record_offset: int, producer_id: int = -1) -> None:
        if record == "bug":
            raise ZeroDivisionError
        apply(machine, record, record_offset, producer_id)

    monkeypatch.setattr(Words, "apply", broken)
    harness.write(0, "a", "bug")
    harness.write(1, "a", "b")
    await harness.shards.load()
    assert "loading of __words-0 failed" in caplog.text
    assert harness.refusal(KEY) is ErrorCode.NOT_COORDINATOR
    assert harness.shards.of(OTHER_KEY).machine.words == ["a", "b"]


async def test_a_sweep_visits_one_partition_per_turn_despite_a_bug(harness: Harness) -> None:
    await harness.shards.load()
    swept: list[int] = []

    def sweep(shard: Shard[str, Words]) -> None:
        swept.append(shard.partition.index)
        assert len(swept) > 1, "a bug"

    harness.shards.sweep_every("sweep", 1_000, sweep)
    turns = []
    for ms in (999, 1, 1_000):
        harness.clock.advance(ms)
        harness.timers.run_due(harness.clock.mono_ms())
        for _ in range(4):  # the clock stands still meanwhile
            turns.append(len(swept))
            await asyncio.sleep(0)
    assert turns == [0, 0, 0, 0, 0, 1, 2, 2, 2, 3, 4, 4]
    assert sorted(swept) == [0, 0, 1, 1]
    await harness.nursery.stop()
    assert harness.timers.next_deadline() is None
