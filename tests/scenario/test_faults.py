"""Scripted faults on a running broker, and on a gateway before a broker, as a client on a socket sees them."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from ottla.broker.faults.engine import Exchange
from ottla.broker.faults.rules import FaultSyntax
from ottla.protocol.client import Client
from ottla.protocol.codec import decode_response
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k00_produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.messages.k01_fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from ottla.protocol.messages.k03_metadata import MetadataRequest
from ottla.protocol.messages.k26_end_txn import EndTxnRequest
from ottla.protocol.records.batch import crc_ok, read_header
from ottla.protocol.records.record import SimpleRecord, build_batch
from tests.support.fault_carriers import FaultyBroker, GatewayBeforeBroker
from tests.support.running_broker import HOST
from tests.support.topic_calls import create, produce
from tests.support.transactions import Transactional, committed_values, latest, produce_as
from tests.support.txn_calls import init

NOT_LEADER = ErrorCode.NOT_LEADER_OR_FOLLOWER
TIMEOUT_S = 20


@pytest.fixture(params=[FaultyBroker, GatewayBeforeBroker])
def broker(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[FaultyBroker]:
    with request.param(tmp_path / "data") as running:
        yield running


only_of_a_broker = pytest.mark.parametrize("broker", [FaultyBroker], indirect=True)
"""For rules and ends that need the inside of a broker."""


@pytest.fixture
def client(broker: FaultyBroker) -> Iterator[Client]:
    with broker.client() as connected:
        create(connected, "t", 2)
        yield connected


def end_offset(broker: FaultyBroker, topic: str = "t", index: int = 0) -> int:
    return broker.call(lambda running: running.services.partitions.get(topic, index).log.log_end_offset)


def script(broker: FaultyBroker, *rules: str) -> None:
    for rule in rules:
        broker.faults.add(rule)


def in_thread(work: Callable[[], Any]) -> Callable[[], Any]:
    """Run `work` on a thread; call the result to wait for its return value or exception."""
    found: list[Any] = []

    def run() -> None:
        try:
            found.append(work())
        except ConnectionError as error:
            found.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()

    def result() -> Any:
        thread.join(20)
        return found[0]

    return result


def test_a_dropped_request_is_never_handled(broker: FaultyBroker, client: Client) -> None:
    script(broker, "drop-request:api=Produce,times=1")
    with pytest.raises(ConnectionError):
        produce(client, "t", b"x")
    assert end_offset(broker) == 0
    with broker.client() as again:
        assert produce(again, "t", b"x") == 0
    broker.faults.assert_consumed()


def test_a_dropped_ack_keeps_the_append_and_the_retry_gets_its_offset(broker: FaultyBroker, client: Client) -> None:
    producer_id = 1000
    script(broker, "drop-ack:api=Produce,topic=t,times=1")
    with pytest.raises(ConnectionError):
        produce(client, "t", b"x", producer_id=producer_id, base_sequence=0)
    assert end_offset(broker) == 1
    with broker.client() as again:
        assert produce(again, "t", b"x", producer_id=producer_id, base_sequence=0) == 0
    assert end_offset(broker) == 1


def test_dropped_ack_closes_the_connection_even_with_acks_0(broker: FaultyBroker, client: Client) -> None:
    script(broker, "drop-ack:api=Produce,times=1")
    with broker.client() as careless:
        request = produce_request(b"x")
        request.acks = 0
        careless.send(request, 9)
        with pytest.raises(ConnectionError):
            careless.read_frame()
    assert end_offset(broker) == 1


def test_a_cut_response_ends_in_its_middle(broker: FaultyBroker, client: Client) -> None:
    script(broker, "cut-response:api=Metadata,bytes=7")
    with broker.client() as cut:
        cut.send(MetadataRequest(), 9)
        with pytest.raises(ConnectionError):
            cut.read_frame()
    broker.faults.reset()
    assert client.call(MetadataRequest(), version=9).brokers


def test_swallowed_response_blocks_only_its_connection(broker: FaultyBroker) -> None:
    script(broker, "swallow:api=Produce,times=1")
    connection: list[socket.socket] = []

    def keep(connected: socket.socket) -> socket.socket:
        connection.append(connected)
        return connected

    with Client(HOST, broker.client_port, wrap=keep) as client:
        create(client, "t", 2)
        waiting = in_thread(lambda: produce(client, "t", b"x"))
        broker.call_until(lambda running: running.services.partitions.get("t", 0).log.log_end_offset == 1)
        with broker.client() as other:
            assert produce(other, "t", b"y") == 1
        connection[0].shutdown(socket.SHUT_RDWR)
        assert isinstance(waiting(), ConnectionError)


def test_a_delayed_request_is_handled_by_the_brokers_clock(broker: FaultyBroker, client: Client) -> None:
    script(broker, "delay-request:api=Produce,ms=60000,times=1")
    waiting = in_thread(lambda: produce(client, "t", b"x"))
    broker.faults.wait_until_hit("delay-request-1")
    assert end_offset(broker) == 0
    broker.clock.advance(60)
    assert waiting() == 0


def test_a_held_request_holds_what_its_connection_sends_behind_it(broker: FaultyBroker, client: Client) -> None:
    script(broker, "hold-request:api=Produce,times=1,name=h")
    batches = [build_batch([SimpleRecord(None, value, 1)]) for value in (b"first", b"second")]
    requests = [ProduceRequest(acks=-1, topic_data=[TopicProduceData("t", partition_data=[PartitionProduceData(0, b)])]) for b in batches]
    for request in requests:
        client.send(request, 9)
    broker.faults.wait_until_held()
    with broker.client() as other:
        assert produce(other, "t", b"overtakes") == 0
    assert end_offset(broker) == 1
    assert broker.faults.release("h") == 1
    offsets = [decode_response(0, 9, client.read_frame())[1].responses[0].partition_responses[0].base_offset for _ in requests]
    assert offsets == [1, 2]


def produce_request(value: bytes) -> ProduceRequest:
    data = PartitionProduceData(0, build_batch([SimpleRecord(None, value, 1)]))
    return ProduceRequest(acks=-1, topic_data=[TopicProduceData("t", partition_data=[data])])


def test_requests_behind_a_delayed_one_keep_their_order_after_the_rule_is_removed(broker: FaultyBroker, client: Client) -> None:
    script(broker, "delay-request:api=Produce,ms=60000,times=1,name=d")
    client.send(produce_request(b"first"), 9)
    broker.faults.wait_until_hit("d")
    broker.faults.remove("d")
    with broker.client() as other:
        client.send(produce_request(b"second"), 9)
        assert produce(other, "t", b"overtakes") == 0
    broker.clock.advance(60)
    offsets = [decode_response(0, 9, client.read_frame())[1].responses[0].partition_responses[0].base_offset for _ in range(2)]
    assert offsets == [1, 2]
    broker.call_until(lambda _: not broker.script.active)


@only_of_a_broker
def test_stop_drops_held_requests_and_all_requests_behind_them(broker: FaultyBroker, client: Client) -> None:
    script(broker, "hold-request:api=Produce,times=1,name=h")
    for value in (b"held", b"behind", b"further behind"):
        client.send(produce_request(value), 9)
    broker.faults.wait_until_held()
    broker.wait_until_buffered()
    broker.restart()
    assert end_offset(broker) == 0


def test_held_request_is_handled_on_release_even_after_its_client_disconnected(broker: FaultyBroker, client: Client) -> None:
    script(broker, "hold-request:api=Produce,times=1,name=h")
    with broker.client() as gone:
        request = ProduceRequest(acks=-1, topic_data=[TopicProduceData("t", partition_data=[PartitionProduceData(0, b"")])])
        request.topic_data[0].partition_data[0].records = build_batch([SimpleRecord(None, b"late", 1)])
        gone.send(request, 9)
        broker.faults.wait_until_held()
    broker.wait_for_clients(1)
    assert end_offset(broker) == 0
    broker.faults.release("h")
    broker.call_until(lambda running: running.services.partitions.get("t", 0).log.log_end_offset == 1)


def test_request_is_handled_before_its_response_is_held(broker: FaultyBroker, client: Client) -> None:
    script(broker, "hold-response:api=Produce,times=1")
    waiting = in_thread(lambda: produce(client, "t", b"x"))
    broker.faults.wait_until_held()
    assert end_offset(broker) == 1
    broker.faults.release()
    assert waiting() == 0


@pytest.mark.parametrize("remove", [lambda broker: broker.faults.remove("h"), lambda broker: broker.faults.reset()])
def test_a_removed_rule_holds_no_response_of_a_request_that_it_has_matched(
    broker: FaultyBroker, client: Client, remove: Callable[[FaultyBroker], object]
) -> None:
    script(broker, "hold-response:api=Produce,name=h", "delay-request:api=Produce,ms=60000,name=d")
    waiting = in_thread(lambda: produce(client, "t", b"x"))
    broker.faults.wait_until_hit("d")
    remove(broker)
    broker.clock.advance(60)
    assert waiting() == 0
    assert broker.script.held == []


def test_late_request_closes_its_connection_at_once_and_is_handled_on_release(broker: FaultyBroker, client: Client) -> None:
    script(broker, "late-request:api=Produce,times=1,name=late")
    with pytest.raises(ConnectionError):
        produce(client, "t", b"late")
    with broker.client() as again:
        assert produce(again, "t", b"in time") == 0
        broker.faults.release("late")
        broker.call_until(lambda running: running.services.partitions.get("t", 0).log.log_end_offset == 2)


def test_a_duplicate_is_handled_twice_and_answered_once(broker: FaultyBroker, client: Client) -> None:
    script(broker, "duplicate:api=Produce,times=2")
    assert produce(client, "t", b"plain") == 0
    assert end_offset(broker) == 2
    batch = build_batch([SimpleRecord(None, b"idempotent", 1)], producer_id=7, producer_epoch=0, base_sequence=0)
    assert produce_as(client, None, batch).base_offset == 2
    assert end_offset(broker) == 3


def test_requests_behind_a_held_dropped_ack_are_dropped_unhandled(broker: FaultyBroker, client: Client) -> None:
    script(broker, "hold-response:api=Produce,times=1", "drop-ack:api=Produce,times=1")
    for value in (b"first", b"second"):
        client.send(produce_request(value), 9)
    broker.faults.wait_until_held()
    broker.faults.release()
    with pytest.raises(ConnectionError):
        client.read_frame()
    assert end_offset(broker) == 1


@pytest.mark.parametrize("action", ["hold-response", "delay"])
def test_requests_behind_a_held_or_delayed_response_wait_until_it_is_sent(broker: FaultyBroker, client: Client, action: str) -> None:
    script(broker, f"{action}:api=Produce,times=1,name=w{',ms=60000' if action == 'delay' else ''}")
    for value in (b"first", b"second"):
        client.send(produce_request(value), 9)
    broker.faults.wait_until_hit("w")
    broker.wait_until_buffered()
    with broker.client() as other:
        assert produce(other, "t", b"overtakes") == 1
    broker.faults.remove("w")
    broker.clock.advance(60)
    offsets = [decode_response(0, 9, client.read_frame())[1].responses[0].partition_responses[0].base_offset for _ in range(2)]
    assert offsets == [0, 2]


def test_requests_behind_a_swallowed_response_are_never_handled(broker: FaultyBroker, client: Client) -> None:
    script(broker, "swallow:api=Produce,times=1,name=w")
    for value in (b"first", b"second"):
        client.send(produce_request(value), 9)
    broker.faults.wait_until_hit("w")
    broker.wait_until_buffered()
    with broker.client() as other:
        assert produce(other, "t", b"overtakes") == 1
    client.close()
    broker.wait_for_clients(0)
    assert end_offset(broker) == 2


def test_an_error_is_answered_instead_of_handling(broker: FaultyBroker, client: Client) -> None:
    script(broker, "error:api=Produce,topic=t,partition=1,code=NOT_LEADER_OR_FOLLOWER,times=1")
    batch = build_batch([SimpleRecord(None, b"x", 1)])
    assert produce_as(client, None, batch, index=1).error_code == NOT_LEADER
    assert end_offset(broker, index=1) == 0
    assert produce_as(client, None, batch, index=1).error_code == ErrorCode.NONE


def test_an_error_after_keeps_the_append_and_spares_the_other_partitions(broker: FaultyBroker, client: Client) -> None:
    script(broker, "error-after:api=Produce,topic=t,partition=1,code=NOT_ENOUGH_REPLICAS_AFTER_APPEND,times=1")
    batch = build_batch([SimpleRecord(None, b"x", 1)])
    data = [TopicProduceData("t", partition_data=[PartitionProduceData(0, batch), PartitionProduceData(1, batch)])]
    answers = client.call(ProduceRequest(acks=-1, topic_data=data), version=9).responses[0].partition_responses
    assert [answer.error_code for answer in answers] == [ErrorCode.NONE, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND]
    assert (end_offset(broker), end_offset(broker, index=1)) == (1, 1)


def test_throttled_client_gets_the_throttle_time(broker: FaultyBroker, client: Client) -> None:
    script(broker, "throttle:api=Metadata,ms=1234,times=1")
    assert client.call(MetadataRequest(), version=9).throttle_time_ms == 1234
    assert client.call(MetadataRequest(), version=9).throttle_time_ms == 0


@only_of_a_broker
def test_expired_producer_may_continue_at_any_sequence(broker: FaultyBroker, client: Client) -> None:
    produce(client, "t", b"x", producer_id=1000, base_sequence=0)
    script(broker, "expire-producer:api=Produce,topic=t,times=1")
    assert produce(client, "t", b"y", producer_id=1000, base_sequence=77) == 1


def test_connections_are_refused(broker: FaultyBroker, client: Client) -> None:
    script(broker, "refuse-connection:times=1")
    with broker.client() as refused, pytest.raises(ConnectionError):
        refused.call(MetadataRequest(), version=9)
    with broker.client() as taken:
        assert taken.call(MetadataRequest(), version=9).brokers


@only_of_a_broker
def test_full_disk_rejects_the_append_and_the_next_append_succeeds(broker: FaultyBroker, client: Client) -> None:
    batch = build_batch([SimpleRecord(None, b"x", 1)])
    script(broker, "disk-full:topic=t,partition=0,times=1")
    assert produce_as(client, None, batch).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert produce_as(client, None, batch, index=1).error_code == ErrorCode.NONE
    answer = produce_as(client, None, batch)
    assert (answer.error_code, answer.base_offset) == (ErrorCode.NONE, 0)


@only_of_a_broker
@pytest.mark.parametrize("step", ["prepared", "marker", "marked"])
def test_the_coordinator_stops_at_a_step_until_it_is_released(broker: FaultyBroker, client: Client, step: str) -> None:
    producer = Transactional(broker).init()
    assert producer.produce(client, 0, b"x").error_code == ErrorCode.NONE
    script(broker, f"pause:step={step},transactional_id=tx")
    assert producer.end(commit=True) is ErrorCode.NONE
    broker.faults.wait_until_held()
    assert latest(client, committed=True) == (2 if step == "marked" else 0)
    assert producer.add(("t", 0)) is ErrorCode.CONCURRENT_TRANSACTIONS
    broker.faults.reset()
    broker.call_until(lambda running: running.services.txns.get("tx").state.name == "COMPLETE_COMMIT")
    assert committed_values(client) == [b"x"]


@only_of_a_broker
def test_transaction_markers_can_be_held_for_a_single_partition(broker: FaultyBroker, client: Client) -> None:
    producer = Transactional(broker).init()
    for index in (0, 1):
        assert producer.produce(client, 0, b"x", index=index).error_code == ErrorCode.NONE
    script(broker, "pause:step=marker,topic=t,partition=1")
    producer.end(commit=True)
    broker.faults.wait_until_held()
    assert (latest(client, committed=True), latest(client, committed=True, index=1)) == (2, 0)
    broker.faults.reset()
    broker.call_until(lambda running: running.services.txns.get("tx").state.name == "COMPLETE_COMMIT")
    assert latest(client, committed=True, index=1) == 2


@only_of_a_broker
def test_a_crash_at_a_step_is_recovered_by_the_next_start(broker: FaultyBroker, client: Client) -> None:
    holder = init(client)
    assert holder.add(("t", 0)) == [ErrorCode.NONE]
    batch = build_batch(
        [SimpleRecord(None, b"x", 1)], producer_id=holder.producer_id, producer_epoch=holder.epoch, base_sequence=0, transactional=True
    )
    assert produce_as(client, "tx", batch, version=9).error_code == ErrorCode.NONE
    script(broker, "crash:step=prepared,times=1")
    with pytest.raises(ConnectionError):
        client.call(EndTxnRequest("tx", holder.producer_id, holder.epoch, True), version=4)
    broker.end_loop()
    broker.faults.reset()
    broker.start()
    broker.call_until(lambda running: running.services.txns.get("tx").state.name == "COMPLETE_COMMIT")
    with broker.client() as again:
        assert committed_values(again) == [b"x"]


def test_observer_receives_the_outcome_that_the_client_saw(broker: FaultyBroker, client: Client) -> None:
    seen: list[Exchange] = []
    broker.observe(seen.append)
    produce(client, "t", b"x")
    script(broker, "drop-ack:api=Produce,times=1,name=lost")
    with pytest.raises(ConnectionError):
        produce(client, "t", b"y")
    first, second = (each for each in seen if each.subject.api.name == "PRODUCE")
    assert first.response.responses[0].partition_responses[0].base_offset == 0
    assert second.response.responses[0].partition_responses[0].base_offset == 1
    assert (first.seen, second.seen, second.faults) == (True, False, ("lost",))
    assert second.subject.partitions == [("t", 0)]


@pytest.mark.parametrize("rule", ["hold-response:api=Produce,times=1", "delay:api=Produce,ms=60000,times=1"])
def test_observer_does_not_report_a_held_response_as_seen_by_the_client(broker: FaultyBroker, client: Client, rule: str) -> None:
    seen: list[Exchange] = []
    broker.observe(seen.append)
    script(broker, rule)
    client.send(produce_request(b"held"), 9)
    with broker.client() as other:
        broker.call_until(lambda running: running.services.partitions.get("t", 0).log.log_end_offset == 1)
        produce(other, "t", b"beside")
    outcomes = [(each.seen, each.late) for each in seen if each.subject.api.name == "PRODUCE"]
    assert outcomes == [(False, True), (True, False)]


@only_of_a_broker
@pytest.mark.parametrize("kill", [False, True])
def test_held_transaction_is_completed_by_the_next_broker_after_a_stop_or_kill(broker: FaultyBroker, client: Client, kill: bool) -> None:
    producer = Transactional(broker).init()
    assert producer.produce(client, 0, b"x").error_code == ErrorCode.NONE
    script(broker, "pause:step=prepared,times=1", "late-request:api=Produce,times=1")
    assert producer.end(commit=True) is ErrorCode.NONE
    with broker.client() as late, pytest.raises(ConnectionError):
        produce(late, "t", b"late", partition=1)
    assert len(broker.faults.wait_until_held(2)) == 2
    broker.restart(kill=kill)
    assert broker.faults.release() == 0
    broker.call_until(lambda running: running.services.txns.get("tx").state.name == "COMPLETE_COMMIT")
    with broker.client() as again:
        assert committed_values(again) == [b"x"]


@only_of_a_broker
def test_released_steps_continue_while_their_rule_stays_loaded(broker: FaultyBroker, client: Client) -> None:
    producer = Transactional(broker).init()
    for index in (0, 1):
        assert producer.produce(client, 0, b"x", index=index).error_code == ErrorCode.NONE
    script(broker, "pause:step=prepared", "pause:step=marker", "pause:step=marked")
    producer.end(commit=True)
    for count in (1, 2, 1):
        assert len(broker.faults.wait_until_held(count)) == count
        assert broker.faults.release() == count
    assert broker.call(lambda running: running.services.txns.get("tx").state.name) == "COMPLETE_COMMIT"
    assert [rule.hits for rule in broker.faults.rules] == [1, 2, 1]


def test_stop_does_not_wait_for_held_requests(broker: FaultyBroker, client: Client) -> None:
    script(broker, "hold-request:api=Produce", "swallow:api=Metadata")
    waiting = in_thread(lambda: produce(client, "t", b"x"))
    broker.faults.wait_until_held()
    with broker.client() as swallowed:
        swallowed.send(MetadataRequest(), 9)
        broker.faults.wait_until_hit("swallow-2")
        broker.stop()
    assert isinstance(waiting(), ConnectionError)


NEEDS_A_BROKER = ["crash:step=marked", "pause:step=marked", "disk-full:topic=t", "expire-producer"]


@pytest.mark.parametrize("broker", [GatewayBeforeBroker], indirect=True)
@pytest.mark.parametrize("rule", NEEDS_A_BROKER)
def test_gateway_rejects_rules_that_only_a_broker_supports(broker: FaultyBroker, rule: str) -> None:
    with pytest.raises(FaultSyntax, match=f"{rule.partition(':')[0]}: only a broker "):
        broker.faults.add(rule)
    assert broker.faults.rules == []


def fetch(client: Client, version: int = 11) -> PartitionData:
    partition = FetchPartition(partition_max_bytes=100_000)
    return client.call(FetchRequest(topics=[FetchTopic("t", partitions=[partition])]), version).responses[0].partitions[0]


def test_corrupt_rule_flips_one_bit_in_a_fetched_batch_once(broker: FaultyBroker, client: Client) -> None:
    script(broker, "corrupt:topic=t,times=1")
    assert not fetch(client).records
    assert broker.faults.rules[0].hits == 0
    produce(client, "t", b"x")
    first, second = fetch(client).records, fetch(client).records
    assert [crc_ok(records, read_header(records)) for records in (first, second)] == [False, True]
    assert sum((one ^ other).bit_count() for one, other in zip(first, second, strict=True)) == 1
    broker.faults.assert_consumed()


def test_rewound_consumer_rereads_its_last_records_as_after_a_lost_commit(broker: FaultyBroker, client: Client) -> None:
    def read(until: int) -> list[int]:
        """Return the offsets that a consumer reads from its group's committed offset on, and commit the end."""
        consumer = Consumer({"bootstrap.servers": f"{HOST}:{broker.client_port}", "group.id": "g", "auto.offset.reset": "earliest"})
        consumer.assign([TopicPartition("t", 0)])
        offsets: list[int] = []
        while not offsets or offsets[-1] < until - 1:
            message = consumer.poll(TIMEOUT_S)
            assert message is not None
            assert message.error() is None
            offsets.append(message.offset())
        consumer.commit(offsets=[TopicPartition("t", 0, until)], asynchronous=False)
        consumer.close()
        return offsets

    script(broker, "redeliver:group=other", "redeliver:topic=u", "redeliver:group=g,topic=t,partition=0,records=3,times=1,name=again")
    for value in (b"0", b"1", b"2", b"3", b"4"):
        produce(client, "t", value)
    assert read(5) == [0, 1, 2, 3, 4]
    assert broker.faults.rules[2].hits == 0
    produce(client, "t", b"5")
    assert read(6) == [2, 3, 4, 5]
    produce(client, "t", b"6")
    assert read(7) == [6]
    assert [rule.hits for rule in broker.faults.rules] == [0, 0, 1]


def test_stale_metadata_rule_repeats_an_earlier_response_until_its_time_is_over(broker: FaultyBroker, client: Client) -> None:
    def topics() -> list[str]:
        return sorted(topic.name for topic in client.call(MetadataRequest(None), version=9).topics)

    script(broker, "stale-metadata:ms=60000")
    assert topics() == ["t"]
    create(client, "new")
    assert topics() == ["t"]
    assert broker.faults.rules[0].hits == 1
    assert sorted(topic.name for topic in client.call(MetadataRequest(None), version=8).topics) == ["new", "t"]
    broker.clock.advance(60)
    assert topics() == ["new", "t"]


def test_slow_rule_delays_a_request_by_its_size(broker: FaultyBroker, client: Client) -> None:
    request = produce_request(b"v" * 10_000)
    script(broker, "slow:api=Produce,bytes=1000,name=s")
    waiting = in_thread(lambda: client.call(request, 9))
    broker.faults.wait_until_hit("s")
    broker.clock.advance(9)
    assert end_offset(broker) == 0
    broker.clock.advance(2)
    broker.call_until(lambda running: running.services.partitions.get("t", 0).log.log_end_offset == 1)
    with broker.client() as other:
        other.call(MetadataRequest([]), 9)
    while broker.script.waiting:
        broker.clock.advance(1)
    assert waiting().responses[0].partition_responses[0].base_offset == 0
