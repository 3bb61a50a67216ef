from __future__ import annotations

from datetime import timedelta
from time import time_ns

import pytest

from ottla.broker.core.clock import Clock
from ottla.broker.core.rejected import Rejected
from ottla.broker.faults.rules import FaultSyntax
from ottla.broker.testing import InProcessBroker
from ottla.protocol.client import Client
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k03_metadata import MetadataRequest
from ottla.protocol.messages.k26_end_txn import EndTxnRequest
from tests.support.topic_calls import produce
from tests.support.txn_calls import init


def test_existing_topic_is_rejected() -> None:
    with InProcessBroker() as broker:
        broker.topics.create("t", configs={"cleanup.policy": "compact"})
        with pytest.raises(Rejected) as refused:
            broker.topics.create("t")
        assert refused.value.code is ErrorCode.TOPIC_ALREADY_EXISTS


def test_fault_rules_can_be_added_before_the_start_and_as_fields() -> None:
    broker = InProcessBroker()
    broker.faults.add("refuse-connection", times=1)
    with broker:
        with Client("127.0.0.1", broker.port) as refused, pytest.raises(ConnectionError):
            refused.call(MetadataRequest(), version=9)
        broker.faults.assert_consumed()
        with pytest.raises(FaultSyntax):
            broker.faults.add("drop-ack", api="Nothing")
        broker.faults.remove("refuse-connection-1")
        assert broker.faults.rules == []


def test_timed_out_wait_names_its_condition_and_the_rules_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    with InProcessBroker(faults=["hold-response:api=Produce,name=h"]) as broker:
        monkeypatch.setattr("ottla.broker.testing.broker_thread.TIMEOUT_S", 0.05)  # its start may take longer
        with pytest.raises(TimeoutError, match=r"waiting for 2 held; the rules: hold-response:api=PRODUCE,name=h: 0 of 0 hit"):
            broker.faults.wait_until_held(2)
        with pytest.raises(TimeoutError, match="waiting for h hit 1 times"):
            broker.faults.wait_until_hit("h")
        monkeypatch.undo()


def test_topic_configs_can_be_numbers_and_releasing_an_unknown_rule_raises() -> None:
    with InProcessBroker() as broker:
        broker.topics.create("t", configs={"retention.ms": 1000})
        assert broker.call(lambda running: running.services.partitions.get("t", 0).log.config.retention_ms) == 1000
        with pytest.raises(KeyError, match="there is no fault 'hold-1'"):
            broker.faults.release("hold-1")


def test_advancing_the_clock_times_a_transaction_out_at_once() -> None:
    with InProcessBroker() as broker, Client("127.0.0.1", broker.port) as client:
        broker.topics.create("t")
        holder = init(client, timeout_ms=60_000)
        assert holder.add(("t", 0)) == [ErrorCode.NONE]
        broker.clock.advance(timedelta(seconds=59))
        assert broker.call(lambda running: running.services.txns.get("tx").state.name) == "ONGOING"
        broker.clock.advance(11)
        assert broker.call(lambda running: running.services.txns.get("tx").state.name) == "COMPLETE_ABORT"
        refused = client.call(EndTxnRequest("tx", holder.producer_id, holder.epoch, True), version=4)
        assert refused.error_code == ErrorCode.PRODUCER_FENCED


def test_advancing_the_clock_expires_idle_producers() -> None:
    with InProcessBroker(settings={"producer.id.expiration.ms": "3600000"}) as broker, Client("127.0.0.1", broker.port) as client:
        broker.topics.create("t")
        produce(client, "t", b"x", producer_id=7, base_sequence=0)

        def known() -> bool:
            return broker.call(lambda running: running.services.partitions.get("t", 0).log.producer_state.get(7) is not None)

        assert known()
        broker.clock.advance(timedelta(hours=2))
        assert not known()


def test_advancing_the_clock_deletes_expired_segments() -> None:
    with InProcessBroker() as broker:
        broker.topics.create("t", configs={"retention.ms": "3600000", "segment.ms": "60000", "message.timestamp.type": "LogAppendTime"})
        with Client("127.0.0.1", broker.port) as client:
            produce(client, "t", b"old")
            broker.clock.advance(timedelta(hours=3))
        with Client("127.0.0.1", broker.port) as client:
            produce(client, "t", b"new")
        broker.clock.advance(timedelta(minutes=10))
        assert broker.call(lambda running: running.services.partitions.get("t", 0).log.log_start_offset) == 1


def test_brokers_time_is_readable_and_only_a_movable_clock_can_be_advanced() -> None:
    with InProcessBroker() as broker:
        broker.clock.advance(3600)
        assert broker.clock.now_ms() >= time_ns() // 1_000_000 + 3_599_000
    with InProcessBroker(clock=Clock()) as fixed, pytest.raises(TypeError, match="Clock cannot be advanced"):
        fixed.clock.advance(1)
