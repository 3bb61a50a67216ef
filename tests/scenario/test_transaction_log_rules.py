"""Readers of a log with transactions get the right records, also after a SIGKILL or a clean stop."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ottla.broker.app import Broker
from ottla.broker.core.clock import Clock
from ottla.protocol.client import Client
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k02_list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.protocol.messages.k61_describe_producers import DescribeProducersRequest, TopicRequest
from tests.support.group_calls import Waiting
from tests.support.running_broker import RunningBroker
from tests.support.topic_calls import create
from tests.support.transactions import LAST_BY_NAME, Transactional, committed_values, fetch, fetch_request, latest

Between = Callable[[RunningBroker], object]


def nothing(broker: RunningBroker) -> None:
    """Leave the broker running."""


def killed(broker: RunningBroker) -> None:
    broker.restart(kill=True)


def stopped(broker: RunningBroker) -> None:
    broker.restart()


def killed_without_its_index(broker: RunningBroker) -> None:
    """Kill the broker and delete the index, as after a lost directory entry: aborted transactions must be found in the log again."""
    broker.kill()
    for index in broker.data_dir.glob("t-*/*.txnindex"):
        index.unlink()
    broker.start()


every_way = pytest.mark.parametrize("between", [nothing, killed, stopped, killed_without_its_index])


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[RunningBroker]:
    with RunningBroker(tmp_path / "data") as running, running.client() as client:
        create(client, "t", partitions=2)
        yield running


def roll(broker: RunningBroker) -> None:
    """Roll to a new segment, unless the active one is empty."""

    def on_loop(running: Broker) -> None:
        log = running.services.partitions.get("t", 0).log
        if log.segments.active.size:
            log.roll(Clock().now_ms())

    broker.call(on_loop)


def aborted(client: Client, offset: int) -> list[tuple[int, int]]:
    return [(each.producer_id, each.first_offset) for each in fetch(client, offset=offset).aborted_transactions or ()]


# --- the last stable offset ----------------------------------------------------------------------------------------------------------


@every_way
def test_last_stable_offset_is_the_first_offset_of_all_open_transactions(broker: RunningBroker, between: Between) -> None:
    first, second = Transactional(broker, "first").init(), Transactional(broker, "second").init()
    with broker.client() as client:
        first.produce(client, 0, b"a")
        second.produce(client, 0, b"b")
        second.produce(client, 1, b"c")
    between(broker)
    with broker.client() as client:
        assert (latest(client, committed=True), latest(client, committed=False)) == (0, 3)
        second.end(commit=True)
        assert (latest(client, committed=True), committed_values(client)) == (0, [])
        first.end(commit=True)
        assert (latest(client, committed=True), latest(client, committed=False)) == (5, 5)
        assert committed_values(client) == [b"a", b"b", b"c"]


def test_read_uncommitted_returns_everything_and_a_null_list_of_aborted_transactions(broker: RunningBroker) -> None:
    producer = Transactional(broker).init()
    with broker.client() as client:
        producer.produce(client, 0, b"a")
        open_one = fetch(client, committed=False)
        assert (len(open_one.records or b"") > 0, open_one.aborted_transactions, open_one.last_stable_offset) == (True, None, 0)
        producer.end(commit=False)
        after = fetch(client, committed=False)
        assert (after.aborted_transactions, after.last_stable_offset, after.high_watermark) == (None, 2, 2)


def test_read_committed_returns_an_empty_list_without_aborted_transactions(broker: RunningBroker) -> None:
    producer = Transactional(broker).init()
    with broker.client() as client:
        producer.produce(client, 0, b"a")
        assert fetch(client).aborted_transactions == []
        producer.end(commit=True)
        assert fetch(client).aborted_transactions == []


def test_read_committed_timestamp_search_finds_no_uncommitted_record(broker: RunningBroker) -> None:
    def at(client: Client, *, committed: bool) -> int:
        request = ListOffsetsRequest(-1, int(committed), [ListOffsetsTopic("t", [ListOffsetsPartition(0, -1, 0)])])
        offset: int = client.call(request).topics[0].partitions[0].offset
        return offset

    producer = Transactional(broker).init()
    with broker.client() as client:
        producer.produce(client, 0, b"a")
        assert (at(client, committed=True), at(client, committed=False)) == (-1, 0)
        producer.end(commit=True)
        assert at(client, committed=True) == 0


@pytest.mark.parametrize("commit", [True, False], ids=["commit", "abort"])
def test_waiting_read_committed_fetch_is_completed_by_the_transactions_end(broker: RunningBroker, commit: bool) -> None:
    producer = Transactional(broker).init()
    with broker.client() as client:
        producer.produce(client, 0, b"x" * 10_000)
        request = fetch_request("t", 0, max_wait_ms=60_000, min_bytes=5_000)
        waiting = Waiting(broker, request, LAST_BY_NAME)
        broker.call_until(lambda running: running.services.fetch_purgatory.waiting == 1)
        producer.produce(client, 1, b"y" * 10_000)
        producer.end(commit=commit)
        (topic,) = waiting.response().responses
        assert len(topic.partitions[0].records) > 20_000
        assert bool(topic.partitions[0].aborted_transactions) is not commit


# --- aborted transactions --------------------------------------------------------------------------------------------------------------


@every_way
def test_fetch_lists_only_the_aborted_transactions_of_its_range(broker: RunningBroker, between: Between) -> None:
    one, other = Transactional(broker, "one").init(), Transactional(broker, "other").init()
    one_id, other_id = one.producer_id, other.producer_id
    with broker.client() as client:
        one.produce(client, 0, b"aborted")  # offset 0
        other.produce(client, 0, b"kept")  # 1
        one.end(commit=False)  # 2
        other.end(commit=True)  # 3
        other.produce(client, 0, b"aborted too")  # 4
        other.end(commit=False)  # 5
        one.produce(client, 0, b"kept too")  # 6
        one.end(commit=True)  # 7
    between(broker)
    with broker.client() as client:
        assert aborted(client, 0) == [(one_id, 0), (other_id, 4)]
        assert aborted(client, 3) == [(other_id, 4)]
        assert aborted(client, 6) == []
        assert committed_values(client) == [b"kept", b"kept too"]


@every_way
def test_aborted_transaction_is_listed_to_fetches_of_older_segments(broker: RunningBroker, between: Between) -> None:
    producer = Transactional(broker).init()
    with broker.client() as client:
        producer.produce(client, 0, b"aborted")
        roll(broker)
        producer.produce(client, 1, b"aborted too")
        roll(broker)
        producer.end(commit=False)
        producer.produce(client, 0, b"kept")
        producer.end(commit=True)
    between(broker)
    with broker.client() as client:
        assert committed_values(client) == [b"kept"]
        assert [len(aborted(client, offset)) for offset in (0, 1, 2, 3)] == [1, 1, 1, 0]


def test_open_transaction_survives_a_roll_and_a_kill_and_can_be_committed(broker: RunningBroker) -> None:
    producer = Transactional(broker).init()
    with broker.client() as client:
        producer.produce(client, 0, b"a")
        roll(broker)
    broker.restart(kill=True)
    with broker.client() as client:
        assert producer.produce(client, 1, b"b").error_code == ErrorCode.NONE
        assert producer.end(commit=True) is ErrorCode.NONE
        assert committed_values(client) == [b"a", b"b"]


def test_describe_producers_shows_open_transactions_only_on_their_partitions(broker: RunningBroker) -> None:
    producer = Transactional(broker).init()
    with broker.client() as client:
        producer.produce(client, 0, b"a", index=1)
        (topic,) = client.call(DescribeProducersRequest([TopicRequest("t", [0, 1])])).topics
        assert [[each.current_txn_start_offset for each in partition.active_producers] for partition in topic.partitions] == [[], [0]]
        producer.end(commit=True)
        (topic,) = client.call(DescribeProducersRequest([TopicRequest("t", [1])])).topics
        (known,) = topic.partitions[0].active_producers
        assert (known.current_txn_start_offset, known.producer_epoch) == (-1, producer.epoch)


# --- random transactions ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("endings", [[nothing, killed, stopped], [nothing, killed, killed_without_its_index]], ids=["any end", "no index"])
def test_readers_of_committed_records_get_the_committed_records_and_no_others(
    broker: RunningBroker, seed: int, endings: list[Between]
) -> None:
    """Run random transactions of five producers over two partitions, with plain records, segment rolls and kills of the broker."""
    rng = random.Random(seed)
    producers = [Transactional(broker, f"tx-{n}", version=1 + n % 2).init() for n in range(5)]
    sequences: dict[tuple[int, int, int], int] = {}
    open_values: list[dict[int, list[bytes]]] = [{} for _ in producers]
    committed: dict[int, set[bytes]] = {0: set(), 1: set()}

    def step(client: Client, number: int) -> None:
        n = rng.randrange(len(producers))
        producer, mine = producers[n], open_values[n]
        if mine and rng.random() < 0.25:
            commit = rng.random() < 0.5
            assert producer.end(commit=commit) is ErrorCode.NONE
            for index, values in mine.items() if commit else ():
                committed[index] |= set(values)
            mine.clear()
            return
        index, value = rng.randrange(2), b"%d" % number
        if producer.version < 2:
            assert producer.add(("t", index)) is ErrorCode.NONE
        place = (producer.producer_id, producer.epoch, index)
        answer = producer.produce(client, sequences.get(place, 0), value, index=index)
        assert answer.error_code == ErrorCode.NONE, (seed, number, answer.error_message)
        sequences[place] = sequences.get(place, 0) + 1
        mine.setdefault(index, []).append(value)

    for part in range(4):
        with broker.client() as client:
            for number in range(part * 60, part * 60 + 60):
                step(client, number)
                if rng.random() < 0.1:
                    roll(broker)
            for index in (0, 1):
                # Committed records after an open transaction are not readable yet; all readable records are committed.
                assert set(committed_values(client, index=index)) <= committed[index], seed
        rng.choice(endings)(broker)
    for producer, mine in zip(producers, open_values, strict=True):
        if mine:
            assert producer.end(commit=False) is ErrorCode.NONE
    with broker.client() as client:
        for index in (0, 1):
            assert latest(client, committed=True, index=index) == latest(client, committed=False, index=index)
            values = committed_values(client, index=index)
            assert (len(values), set(values)) == (len(committed[index]), committed[index]), seed
