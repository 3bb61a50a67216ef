from __future__ import annotations

from ottla.broker.testing import InProcessBroker
from ottla.broker.testing.counters import Counters
from ottla.protocol.client import Client
from tests.support.topic_calls import create, delete, produce


def did(broker: InProcessBroker, before: Counters) -> Counters:
    return broker.counters() - before


def test_counters_report_requests_records_and_bytes_between_two_readings(ottla_broker: InProcessBroker) -> None:
    host, port = ottla_broker.bootstrap.split(":")
    with Client(host, int(port)) as client:
        create(client, "t")
        produce(client, "t", b"before")
        before = ottla_broker.counters()
        for _ in range(3):
            produce(client, "t", b"a", b"b")
        done = did(ottla_broker, before)
    assert done.requests == {"Produce": 3}, "whether or not the fast path handled them"
    assert done.requests["Fetch"] == 0
    assert done.messages_in == {"t": 6}
    assert done.bytes_in["t"] > 100
    assert done.connections == 0
    with Client(host, int(port)):
        ottla_broker.call_until(lambda broker: broker.connections_made == before.connections + 1)
        assert did(ottla_broker, before).connections == 1


def test_recreated_topics_counters_start_at_0(ottla_broker: InProcessBroker) -> None:
    host, port = ottla_broker.bootstrap.split(":")
    with Client(host, int(port)) as client:
        create(client, "t")
        produce(client, "t", b"a", b"b", b"c")
        before = ottla_broker.counters()
        delete(client, "t")
        create(client, "t")
        produce(client, "t", b"a")
    assert did(ottla_broker, before).messages_in == {"t": 1}


def test_restarted_brokers_counters_start_at_0(ottla_broker: InProcessBroker) -> None:
    ottla_broker.topics.create("t")
    host, port = ottla_broker.bootstrap.split(":")
    with Client(host, int(port)) as client:
        produce(client, "t", b"a")
    ottla_broker.restart()
    assert ottla_broker.counters().requests == {}
    assert ottla_broker.counters().messages_in["t"] == 0
