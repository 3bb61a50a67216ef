"""Shards of an internal topic by leader epoch: elected, loaded, used, resigned."""

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


class Place:
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
async def place() -> Place:
    return Place()


async def test_an_empty_partition_is_served_at_once(place: Place) -> None:
    assert place.shards.of(KEY).state is ShardState.SERVING


async def test_a_shard_answers_after_its_log_is_loaded(place: Place) -> None:
    place.write(0, "a", "b", "c")
    assert place.refusal(KEY) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    with pytest.raises(Rejected):
        place.shards.all()
    await place.shards.load()
    assert place.shards.of(KEY).machine.words == ["a", "b", "c"]
    assert place.loaded == [0]
    assert [shard.partition.index for shard in place.shards.all()] == [0, 1]


async def test_a_missing_topic_has_no_coordinator(place: Place) -> None:
    assert place.shards.exist
    place.count = 0
    assert not place.shards.exist
    assert place.refusal(KEY) is ErrorCode.NOT_COORDINATOR
    await place.shards.create_topic()
    assert place.refusal(KEY) is None


async def test_an_offline_partition_does_not_move_its_keys(place: Place) -> None:
    del place.partitions[0]
    assert place.refusal(KEY) is ErrorCode.NOT_COORDINATOR
    assert place.shards.of(OTHER_KEY).partition.index == 1


async def test_a_damaged_partition_is_logged_and_not_served(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    place.write(0, "a")
    place.partitions[0].log.batches[0] = place.partitions[0].log.batches[0][:-1] + b"\xff"
    with caplog.at_level(logging.ERROR):
        await place.shards.load()
    assert f"loading of {TOPIC}-0 failed" in caplog.text
    assert place.refusal(KEY) is ErrorCode.NOT_COORDINATOR
    assert place.refusal(OTHER_KEY) is None


async def test_a_shard_ignores_the_end_of_an_older_leader_epoch(place: Place) -> None:
    shard = place.shards.of(KEY)
    place.shards.resigned(0, shard.epoch)
    assert place.closed == []
    place.shards.resigned(0, shard.epoch + 1)
    assert (place.closed, shard.state) == ([0], ShardState.RESIGNED)
    assert place.shards.serving() == []


async def test_a_removed_replica_stops_its_shard(place: Place) -> None:
    shard = place.shards.of(KEY)
    place.shards.resigned(0, None)
    assert (place.closed, shard.state) == ([0], ShardState.RESIGNED)


async def test_only_changes_of_the_shards_topic_start_or_stop_shards(place: Place) -> None:
    callbacks = SimpleNamespace(on_elected=[], on_resigned=[])
    place.shards.follow(callbacks)
    for topic in ("other", TOPIC):
        for elected in callbacks.on_elected:
            elected(topic, 1, 4)
    assert [shard.partition.index for shard in place.shards.serving()] == [1]
    for topic in ("other", TOPIC):
        for resigned in callbacks.on_resigned:
            resigned(topic, 1, 5)
    assert place.closed == [1]


async def test_a_leadership_change_of_an_offline_partition_is_ignored(place: Place) -> None:
    del place.partitions[0]
    place.shards.elected(0)
    assert place.refusal(KEY) is ErrorCode.NOT_COORDINATOR


async def test_a_start_keeps_shards_that_metadata_started(place: Place) -> None:
    place.write(0, *"abc")
    place.shards.elected(0)
    before = place.shards.at(0)
    await place.shards.load()
    assert place.shards.at(0) is before
    assert place.closed == []


async def test_a_known_election_does_not_restart_the_shard(place: Place) -> None:
    place.write(0, *"abc")
    place.partitions[0].leader_epoch = 5
    met = place.shards.at(0)
    place.shards.elected(0)
    assert (place.shards.at(0) is met, place.closed) == (True, [])


async def test_a_partition_led_elsewhere_answers_not_coordinator(place: Place) -> None:
    place.partitions[0].leads = False
    assert place.refusal(KEY) is ErrorCode.NOT_COORDINATOR


async def test_a_new_leader_epoch_loads_the_log_again(place: Place) -> None:
    before = place.shards.of(KEY)
    before.run(Effects(["mine"], None))
    place.write(0, "theirs")
    place.partitions[0].leader_epoch = 5
    place.shards.elected(0)
    await asyncio.sleep(0)
    async with asyncio.timeout(10):
        while place.refusal(KEY) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:  # noqa: ASYNC110 # as a client asks
            await asyncio.sleep(0)
    after = place.shards.of(KEY)
    assert (after.machine.words, after.epoch, before.state) == (["mine", "theirs"], 5, ShardState.RESIGNED)


async def test_losing_leadership_while_loading_leaves_no_state(place: Place) -> None:
    place.write(0, *"abcdefgh")
    place.shards.elected(0)
    await asyncio.sleep(0)
    place.partitions[0].leads = False
    place.shards.resigned(0, 9)
    for _ in range(20):
        await asyncio.sleep(0)
    assert (place.loaded, place.closed) == ([], [0])


async def test_a_stop_ends_all_shards(place: Place) -> None:
    place.write(1, *"abc")
    place.shards.of(KEY)
    place.shards.elected(1)
    place.shards.stop()
    assert sorted(place.closed) == [0, 1]


async def test_a_bug_after_one_load_does_not_stop_other_loads(place: Place) -> None:
    class NotTheFirst(list[int]):
        def append(self, index: int) -> None:
            if index == 0:
                raise ZeroDivisionError
            super().append(index)

    place.loaded = NotTheFirst()
    place.write(0, "a")
    place.write(1, "b")
    await place.shards.load()
    assert place.loaded == [1]
    assert place.refusal(KEY) is ErrorCode.NOT_COORDINATOR
    assert place.shards.of(OTHER_KEY).machine.words == ["b"]


async def test_a_bug_while_loading_stops_neither_other_loads_nor_the_start(
    place: Place, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    apply = Words.apply

    def broken(machine: Words, record: str, record_offset: int, producer_id: int = -1) -> None:
        if record == "bug":
            raise ZeroDivisionError
        apply(machine, record, record_offset, producer_id)

    monkeypatch.setattr(Words, "apply", broken)
    place.write(0, "a", "bug")
    place.write(1, "a", "b")
    await place.shards.load()
    assert "loading of __words-0 failed" in caplog.text
    assert place.refusal(KEY) is ErrorCode.NOT_COORDINATOR
    assert place.shards.of(OTHER_KEY).machine.words == ["a", "b"]


async def test_a_sweep_visits_one_partition_per_turn_despite_a_bug(place: Place) -> None:
    await place.shards.load()
    swept: list[int] = []

    def sweep(shard: Shard[str, Words]) -> None:
        swept.append(shard.partition.index)
        assert len(swept) > 1, "a bug"

    place.shards.sweep_every("sweep", 1_000, sweep)
    turns = []
    for ms in (999, 1, 1_000):
        place.clock.advance(ms)
        place.timers.run_due(place.clock.mono_ms())
        for _ in range(4):  # the clock stands still meanwhile
            turns.append(len(swept))
            await asyncio.sleep(0)
    assert turns == [0, 0, 0, 0, 0, 1, 2, 2, 2, 3, 4, 4]
    assert sorted(swept) == [0, 0, 1, 1]
    await place.nursery.stop()
    assert place.timers.next_deadline() is None
