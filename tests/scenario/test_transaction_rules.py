"""The rules of producer ids and transactions, one test each, against a running broker.

Decision tables are tested in tests/unit/broker/txns, versions of single requests in tests/wire, crashes in test_transaction_crashes.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from time import time_ns

import pytest

from ottla.broker.app import Broker
from ottla.broker.core.clock import VirtualClock
from ottla.broker.txns.txn_records import TxnRecord
from ottla.protocol.client import Client
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k10_find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.k22_init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.k26_end_txn import EndTxnRequest
from ottla.protocol.messages.k61_describe_producers import DescribeProducersRequest, TopicRequest
from ottla.protocol.messages.k66_list_transactions import ListTransactionsRequest
from tests.support.group_calls import wait_until
from tests.support.running_broker import RunningBroker
from tests.support.topic_calls import create, delete, produce
from tests.support.transactions import Transactional, committed_values, fetch, latest, produce_as
from tests.support.txn_calls import Holder, find_transaction_coordinator, init

T0, T1 = ("t", 0), ("t", 1)
TIMEOUT_MS, CHECK_MS = 60_000, 10_000
VERSIONS = pytest.mark.parametrize("version", [0, 2], ids=["V1", "V2"])


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[RunningBroker]:
    with RunningBroker(tmp_path / "data", clock=VirtualClock(time_ns() // 1_000_000)) as running:
        yield running


@pytest.fixture
def client(broker: RunningBroker) -> Iterator[Client]:
    with broker.client() as connected:
        create(connected, "t", 2)
        yield connected


def producer(broker: RunningBroker, version: int, transactional_id: str = "tx") -> Transactional:
    return Transactional(broker, transactional_id, version).init()


def begin(broker: RunningBroker, client: Client, version: int, *values: bytes) -> Transactional:
    """Make a producer with one open transaction on t-0."""
    opened = producer(broker, version)
    if version < 2:
        opened.add(T0)
    assert opened.produce(client, 0, *values).error_code == 0
    return opened


def holder(of: Transactional, client: Client) -> Holder:
    return Holder(client, of.transactional_id, of.producer_id, of.epoch)


def state(client: Client, transactional_id: str = "tx") -> str:
    name: str = Holder(client, transactional_id, 0, 0).describe().transaction_state
    return name


# --- 3.2, 3.3: ids and epochs -------------------------------------------------------------------------------------------------------


def test_a_producer_id_is_never_given_twice_over_kills(broker: RunningBroker, client: Client) -> None:
    given = [init(client, name).producer_id for name in "ab"]
    broker.restart(kill=True)
    with broker.client() as again:
        given += [init(again, name).producer_id for name in "cd"]
        given.append(again.call(InitProducerIdRequest(None, TIMEOUT_MS)).producer_id)
    assert len(set(given)) == 5


@VERSIONS
def test_init_producer_id_fences_the_old_producer_in_every_api(broker: RunningBroker, client: Client, version: int) -> None:
    client.call(FindCoordinatorRequest("g"), version=3)
    zombie = begin(broker, client, version)
    producer(broker, version)
    assert zombie.produce(client, 1).error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert holder(zombie, client).add(T1) == [ErrorCode.PRODUCER_FENCED]
    assert holder(zombie, client).end(commit=True, version=5 if version else 4).error_code == ErrorCode.PRODUCER_FENCED
    assert zombie.commit_offset(client, 1) == ErrorCode.INVALID_PRODUCER_EPOCH


@VERSIONS
def test_init_producer_id_aborts_an_open_transaction_and_first_answers_concurrent_transactions(
    broker: RunningBroker, client: Client, version: int
) -> None:
    zombie = begin(broker, client, version, b"half")
    first = client.call(InitProducerIdRequest("tx", TIMEOUT_MS))
    assert (first.error_code, first.producer_id) == (ErrorCode.CONCURRENT_TRANSACTIONS, -1)
    assert state(client) == "CompleteAbort"
    second = client.call(InitProducerIdRequest("tx", TIMEOUT_MS))
    assert (second.error_code, second.producer_id, second.producer_epoch) == (0, zombie.producer_id, zombie.epoch + 2)
    assert committed_values(client) == []


def test_retried_init_producer_id_gets_the_same_epoch_until_a_restart(broker: RunningBroker, client: Client) -> None:
    held = init(client)
    bump = InitProducerIdRequest("tx", TIMEOUT_MS, held.producer_id, held.epoch)
    assert [client.call(bump).producer_epoch for _ in range(2)] == [held.epoch + 1] * 2
    broker.restart(kill=True)
    with broker.client() as again:
        assert again.call(bump).error_code == ErrorCode.PRODUCER_FENCED, "the epoch before is not persisted, as in Kafka"


def test_init_producer_id_updates_the_transaction_timeout(broker: RunningBroker, client: Client) -> None:
    init(client)
    assert init(client, timeout_ms=5_000).describe().transaction_timeout_ms == 5_000


# --- 4.3, 3.5: partitions and offsets of a transaction ------------------------------------------------------------------------------


def test_transaction_version_1_rejects_writes_to_partitions_that_were_not_added(broker: RunningBroker, client: Client) -> None:
    opened = begin(broker, client, 0)
    assert opened.produce(client, 0, index=1).error_code == ErrorCode.TRANSACTION_ABORTABLE


def test_transaction_version_2_adds_written_partitions_implicitly(broker: RunningBroker, client: Client) -> None:
    opened = begin(broker, client, 2)
    assert opened.produce(client, 0, index=1).error_code == 0
    (topic,) = holder(opened, client).describe().topics
    assert (topic.topic, topic.partitions) == ("t", [0, 1])


def test_transaction_start_time_is_that_of_its_first_partition(broker: RunningBroker, client: Client) -> None:
    opened = init(client)
    broker.clock.advance(1)
    opened.add(T0)
    started = broker.clock.now_ms()
    broker.clock.advance(1)
    opened.add(T1)
    assert opened.describe().transaction_start_time_ms == started


# --- 4.6, 4.7: the end --------------------------------------------------------------------------------------------------------------


@VERSIONS
@pytest.mark.parametrize("commit", [True, False])
def test_end_txn_is_visible_on_every_partition_and_to_readers_at_once(
    broker: RunningBroker, client: Client, version: int, commit: bool
) -> None:
    opened = producer(broker, version)
    if version < 2:
        opened.add(T0, T1)
    for index in (0, 1):
        opened.produce(client, 0, b"x", index=index)
        assert latest(client, committed=True, index=index) == 0
    assert opened.end(commit=commit) is ErrorCode.NONE
    for index in (0, 1):
        assert latest(client, committed=True, index=index) == 2
        assert committed_values(client, index=index) == ([b"x"] if commit else [])


@VERSIONS
def test_retried_commit_gets_the_same_response_even_after_a_restart(broker: RunningBroker, client: Client, version: int) -> None:
    opened = holder(begin(broker, client, version, b"x"), client)
    request = 5 if version else 4
    first, second = opened.end(commit=True, version=request), opened.end(commit=True, version=request)
    assert (first, second.error_code) == (second, 0)
    broker.restart(kill=True)
    with broker.client() as again:
        third = again.call(EndTxnRequest("tx", opened.producer_id, opened.epoch, True), version=request)
        assert third == first
        assert committed_values(again) == [b"x"]


@VERSIONS
def test_retry_of_a_commit_as_an_abort_is_rejected(broker: RunningBroker, client: Client, version: int) -> None:
    opened = holder(begin(broker, client, version), client)
    request = 5 if version else 4
    opened.end(commit=True, version=request)
    assert opened.end(commit=False, version=request).error_code == ErrorCode.INVALID_TXN_STATE


def test_late_commit_ends_the_next_transaction_in_version_1(broker: RunningBroker, client: Client) -> None:
    """Kafka does the same: the request does not name its transaction, which is why there is version 2."""
    opened = begin(broker, client, 0, b"first")
    opened.end(commit=True)
    opened.add(T0)
    opened.produce(client, 1, b"second")
    assert holder(opened, client).end(commit=True, version=4).error_code == 0
    assert committed_values(client) == [b"first", b"second"]


def test_late_commit_is_fenced_and_keeps_the_next_transaction_open_in_version_2(broker: RunningBroker, client: Client) -> None:
    opened = begin(broker, client, 2, b"first")
    late = holder(opened, client)
    opened.end(commit=True)
    opened.produce(client, 0, b"second")
    assert late.end(commit=True, version=5).error_code == ErrorCode.PRODUCER_FENCED
    assert committed_values(client) == [b"first"]
    assert state(client) == "Ongoing"


def test_batch_after_its_transactions_end_is_fenced_in_version_2(broker: RunningBroker, client: Client) -> None:
    opened = begin(broker, client, 2)
    late = opened.batch(1)
    opened.end(commit=True)
    assert produce_as(client, "tx", late).error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert latest(client, committed=True) == 2


def test_transaction_version_2_allows_abort_without_a_transaction(broker: RunningBroker, client: Client) -> None:
    opened = init(client)
    answer = opened.end(commit=False, version=5)
    assert (answer.error_code, answer.producer_epoch) == (0, opened.epoch + 1)
    assert opened.end(commit=True, version=4).error_code == ErrorCode.PRODUCER_FENCED


def test_exhausted_producer_epochs_rotate_to_a_new_producer_id(broker: RunningBroker, client: Client) -> None:
    old = init(client)

    def age(running: Broker) -> None:
        """Set the producer epoch to the value that it has after 32,766 transactions."""
        service = running.services.txns
        (shard,) = [shard for shard in service.shards.serving() if "tx" in shard.machine.transactions]
        shard.append([TxnRecord("tx", shard.machine.transactions["tx"]._replace(producer_epoch=32_766))])

    broker.call(age)
    last = Transactional(broker, "tx", 2, old.producer_id, 32_766)
    assert last.produce(client, 0, b"x").error_code == 0
    assert last.end(commit=True) is ErrorCode.NONE
    assert (last.producer_id > old.producer_id, last.epoch) == (True, 0)
    assert last.produce(client, 0, b"y").error_code == 0
    assert last.end(commit=True) is ErrorCode.NONE
    assert committed_values(client) == [b"x", b"y"]


# --- 4.8: markers -------------------------------------------------------------------------------------------------------------------


@VERSIONS
def test_marker_has_the_epoch_of_its_transaction_version(broker: RunningBroker, client: Client, version: int) -> None:
    opened = begin(broker, client, version)
    written_with = opened.epoch
    opened.end(commit=True)
    request = DescribeProducersRequest([TopicRequest("t", [0])])
    (entry,) = client.call(request).topics[0].partitions[0].active_producers
    assert entry.producer_epoch == written_with + (1 if version else 0)
    assert (entry.current_txn_start_offset, entry.coordinator_epoch) == (-1, 0)


def test_topic_deleted_during_a_transaction_does_not_block_its_end(broker: RunningBroker, client: Client) -> None:
    create(client, "gone")
    opened = begin(broker, client, 2)
    opened.produce(client, 0, topic="gone")
    delete(client, "gone")
    assert opened.end(commit=True) is ErrorCode.NONE
    assert state(client) == "CompleteCommit"


# --- 4.9: time and restarts ---------------------------------------------------------------------------------------------------------


@VERSIONS
def test_dead_producers_transaction_is_aborted_after_its_timeout(broker: RunningBroker, client: Client, version: int) -> None:
    begin(broker, client, version, b"half")
    produce(client, "t", b"plain")
    assert fetch(client).last_stable_offset == 0
    broker.clock.advance((TIMEOUT_MS + CHECK_MS) / 1000)
    assert committed_values(client) == [b"plain"]
    assert state(client) == "CompleteAbort"


def test_a_transaction_survives_a_kill_and_is_committed_afterwards(broker: RunningBroker, client: Client) -> None:
    opened = begin(broker, client, 2, b"before")
    broker.restart(kill=True)
    with broker.client() as again:
        assert opened.produce(again, 1, b"after").error_code == 0
        assert opened.end(commit=True) is ErrorCode.NONE
        assert committed_values(again) == [b"before", b"after"]


def test_unused_transactional_id_expires_and_gets_a_new_producer_id(broker: RunningBroker, client: Client) -> None:
    before = init(client)
    broker.clock.advance(timedelta(days=7, hours=1))
    with broker.client() as again:  # the old connection has exceeded its idle time

        def is_forgotten() -> bool:
            broker.clock.advance(0.001)  # the expiry task checks one partition a millisecond
            return again.call(ListTransactionsRequest()).transaction_states == []

        wait_until(is_forgotten, "the id is forgotten")
        after = init(again)
    assert (after.producer_id != before.producer_id, after.epoch) == (True, 0)


# --- malicious or many clients ------------------------------------------------------------------------------------------------------


def test_transactional_ids_of_30_kb_work(broker: RunningBroker, client: Client) -> None:
    long = [letter * 30_000 for letter in "ab"]
    for name in long:
        opened = init(client, name)
        opened.add(T0)
        assert opened.end(commit=True).error_code == 0
    assert {each.transactional_id for each in client.call(ListTransactionsRequest()).transaction_states} == set(long)


def test_a_thousand_transactions_at_once_all_commit(broker: RunningBroker, client: Client) -> None:
    find_transaction_coordinator(client)
    opened = [init(client, f"tx-{i}") for i in range(1_000)]
    for each in opened:
        assert each.add(T0) == [0]
    assert len(client.call(ListTransactionsRequest(["Ongoing"])).transaction_states) == 1_000
    for each in opened:
        assert each.end(commit=True, version=5).error_code == 0
    assert len(client.call(ListTransactionsRequest(["CompleteCommit"])).transaction_states) == 1_000
    assert latest(client, committed=True) == 1_000
