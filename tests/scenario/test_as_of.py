"""A broker on a fork at an earlier point in time, used by real clients."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.broker.storage.fork import ForkRefused
from ottla.protocol.client import Client
from ottla.testing import AtOffset, InProcessBroker
from tests.support.group_calls import commit, fetch, find_coordinator
from tests.support.topic_calls import delete
from tests.support.txn_calls import init

SUPER_USER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}


@pytest.fixture(params=[{}, SUPER_USER], ids=["open", "super user"])
def broker(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[InProcessBroker]:
    with InProcessBroker(tmp_path / "data", request.param) as running:
        running.topics.create("t")
        yield running


def send(broker: InProcessBroker, *values: bytes) -> None:
    client = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 0})
    for value in values:
        client.produce("t", value, timestamp=broker.clock.now_ms())
        client.flush()  # a batch each


def moment(broker: InProcessBroker) -> int:
    """Return the current time of the broker; everything after the call gets a later timestamp."""
    now_ms = broker.clock.now_ms()
    broker.clock.advance(0.005)
    return now_ms


def read(broker: InProcessBroker, count: int) -> list[bytes]:
    """Read `count` records as a group member, and commit."""
    client = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "reader", "auto.offset.reset": "earliest"})
    client.subscribe(["t"])
    values = [record.value() for record in client.consume(count, 20)]
    client.commit(asynchronous=False)
    client.close()
    return values


def connected(broker: InProcessBroker) -> Client:
    return Client("127.0.0.1", broker.port)


def test_clients_of_an_as_of_copy_see_the_state_of_that_moment(broker: InProcessBroker, tmp_path: Path) -> None:
    empty = moment(broker)
    send(broker, b"a", b"b")
    with connected(broker) as client:
        find_coordinator(client)
        commit(client, 1)
        holder = init(client)
        holder.add(("t", 0))
        wanted = moment(broker)
        holder.end(commit=True)
        commit(client, 2)
        send(broker, b"c")
        broker.topics.create("u")
    with broker.as_of(wanted) as then, connected(then) as client:
        assert (then.topics.names(), then.topics.end_offset("t")) == (["t"], 2)
        assert read(then, 2) == [b"a", b"b"]
        assert fetch(client)[0] == 1
        holder.client = client
        assert holder.describe().transaction_state == "Ongoing"
        assert 0 <= then.clock.now_ms() - wanted < 60_000
    for at, end in ((AtOffset("t", 0, 1), 1), (datetime.fromtimestamp(empty / 1000, UTC), 0)):
        with broker.as_of(at) as then:
            assert then.topics.end_offset("t") == end
    with connected(broker) as client:
        assert fetch(client)[0] == 2
    assert (broker.topics.names(), broker.topics.end_offset("t")) == (["t", "u"], 4)  # with the transaction's marker
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_clients_of_an_as_of_copy_cannot_write(broker: InProcessBroker) -> None:
    send(broker, b"a")
    with broker.as_of(moment(broker)) as then:
        failed: list[int] = []
        client = Producer({"bootstrap.servers": then.bootstrap})
        client.produce("t", b"x", on_delivery=lambda error, _: failed.append(error.code()))
        client.flush()
        assert failed == [KafkaError.TOPIC_AUTHORIZATION_FAILED]
        client = Producer({"bootstrap.servers": then.bootstrap, "transactional.id": "tx"})
        with pytest.raises(KafkaException, match="TRANSACTIONAL_ID_AUTHORIZATION_FAILED"):
            client.init_transactions(20)
        admin = AdminClient({"bootstrap.servers": then.bootstrap})
        for futures in (admin.create_topics([NewTopic("u")]), admin.delete_topics(["t"])):
            with pytest.raises(KafkaException, match="AUTHORIZATION_FAILED"):
                next(iter(futures.values())).result(20)
        assert (then.topics.names(), then.topics.end_offset("t")) == (["t"], 1)


def test_killed_broker_can_be_read_as_of_an_earlier_moment(broker: InProcessBroker) -> None:
    send(broker, b"a")
    wanted = moment(broker)
    send(broker, b"b")
    broker.kill()
    with broker.as_of(wanted) as then:
        assert read(then, 1) == [b"a"]
        assert then.topics.end_offset("t") == 1


def test_topic_deleted_later_is_absent_from_an_as_of_copy(broker: InProcessBroker) -> None:
    send(broker, b"a")
    wanted = moment(broker)
    with connected(broker) as client:
        delete(client, "t")
    with broker.as_of(wanted) as then:
        assert (then.topics.names(), then.topics.end_offset("t")) == (["t"], 0)


def test_moment_before_the_nodes_creation_is_rejected_and_leaves_no_files(broker: InProcessBroker, tmp_path: Path) -> None:
    with pytest.raises(ForkRefused, match=r"moment \(1970-01-01T00:00:01.000Z\) was removed, or is older than the node"):
        broker.as_of(1_000)
    assert [path.name for path in tmp_path.iterdir()] == ["data"]
