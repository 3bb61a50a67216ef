"""The pytest plugin in a user's test suites, each run by pytest in its own process."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

DOCS = Path(__file__).resolve().parents[4] / "docs"
PAGE, QUEUES = DOCS / "testing.md", DOCS / "queues.md"
SEND = """
from time import time_ns

from ottla.protocol.client import Client
from ottla.protocol.messages.k00_produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.records.record import SimpleRecord, build_batch

def send(broker, topic, *values):
    with Client("127.0.0.1", broker.port) as client:
        for value in values:
            batch = build_batch([SimpleRecord(None, value, time_ns() // 1_000_000)])
            data = TopicProduceData(topic, partition_data=[PartitionProduceData(0, batch)])
            client.call(ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[data]), version=9)
"""


@pytest.fixture
def suite(pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makepyfile(sending=SEND)
    pytester.makeini("[pytest]\nfilterwarnings = error\nasyncio_default_fixture_loop_scope = function\n")
    return pytester


def run(suite: pytest.Pytester, source: str, *options: str) -> pytest.RunResult:
    suite.makepyfile(source)
    return suite.runpytest_subprocess("-p", "no:cacheprovider", *options)


def test_fixtures_give_a_broker_a_topic_faults_and_a_clock(suite: pytest.Pytester) -> None:
    result = run(
        suite,
        """
        import pytest
        from sending import send

        @pytest.mark.ottla(settings={"num.partitions": "3"}, faults=["drop-ack:api=Heartbeat"])
        def test_orders(ottla_broker, ottla_topic, ottla_topics, ottla_faults, ottla_clock, ottla_bootstrap):
            assert ottla_bootstrap == f"127.0.0.1:{ottla_broker.port}"
            assert ottla_topics.names() == [ottla_topic] == ["test_orders"]
            assert ottla_broker.settings["num.partitions"] == "3"
            assert [rule.action.value for rule in ottla_faults.rules] == ["drop-ack"]
            ottla_clock.advance(60)
            send(ottla_broker, ottla_topic, b"a", b"b")
            ottla_broker.assert_exactly_once(expected=[b"a", b"b"])
        """,
    )
    result.assert_outcomes(passed=1)


def test_failed_test_keeps_its_data_directory_and_prints_it(suite: pytest.Pytester) -> None:
    result = run(
        suite,
        """
        from sending import send

        def test_twice(ottla_broker, ottla_topic):
            send(ottla_broker, ottla_topic, b"a", b"a")
            ottla_broker.assert_exactly_once()

        def test_once(ottla_broker, ottla_topic):
            send(ottla_broker, ottla_topic, b"a")
            ottla_broker.assert_exactly_once()
        """,
    )
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*NotExactlyOnce: not exactly once: 1 duplicate*"])
    kept = [line for line in result.outlines if "the broker's data is kept in" in line]
    assert len(kept) == 1
    assert "ottla0" in kept[0]


def test_given_data_directory_is_kept_and_invalid_marker_arguments_are_rejected(suite: pytest.Pytester) -> None:
    result = run(
        suite,
        """
        import pytest

        def test_own_data(ottla_broker_factory):
            ottla_broker_factory(data_dir="mine")

        @pytest.mark.ottla(brokers=1, data_dir="my-cluster")
        def test_own_cluster_data(ottla_cluster):
            pass

        @pytest.mark.ottla({"num.partitions": "3"})
        def test_marker(ottla_broker):
            pass

        @pytest.mark.ottla(brokers=3)
        def test_name(ottla_broker):
            pass
        """,
    )
    result.assert_outcomes(passed=2, errors=2)
    result.stdout.fnmatch_lines(["*UsageError: @pytest.mark.ottla takes keyword arguments only*"])
    result.stdout.fnmatch_lines(["*UsageError: @pytest.mark.ottla: ottla_broker has no argument brokers; it has data_dir, settings, *"])
    assert (suite.path / "mine" / "meta.properties").exists()
    assert list((suite.path / "my-cluster").rglob("meta.properties"))


def test_several_brokers_and_a_session_broker_run_side_by_side(suite: pytest.Pytester) -> None:
    result = run(
        suite,
        """
        import os

        os.fsync = None  # theirs is nothing that has to outlive the machine

        def test_two(ottla_broker_factory, ottla_session_broker):
            ports = {ottla_broker_factory().port, ottla_broker_factory().port, ottla_session_broker.port}
            assert len(ports) == 3
            ottla_session_broker.topics.create("kept")

        def test_the_session_goes_on(ottla_session_broker):
            assert ottla_session_broker.topics.names() == ["kept"]
        """,
    )
    result.assert_outcomes(passed=2)


def test_seeded_broker_is_seeded_once_and_every_test_finds_the_seeded_state(suite: pytest.Pytester) -> None:
    result = run(
        suite,
        """
        import pytest

        seeded = []

        @pytest.fixture(scope="session")
        def ottla_seed():
            def seed(broker):
                seeded.append(broker)
                broker.topics.create("orders")
            return seed

        @pytest.fixture(scope="session")
        def ottla_seed_settings():
            return {"num.partitions": 3}

        @pytest.mark.parametrize("left", ["drop-ack:api=Produce", "disk-full", "paused", "killed", "last"])
        def test_orders(ottla_seeded_broker, left):
            assert len(seeded) == 1
            assert ottla_seeded_broker.settings["num.partitions"] == "3"
            assert ottla_seeded_broker.topics.names() == ["orders"]
            assert ottla_seeded_broker.faults.rules == []
            ottla_seeded_broker.topics.create("more")
            match left:
                case "paused":
                    ottla_seeded_broker.pause()
                case "killed":
                    ottla_seeded_broker.kill()
                case "last":
                    pass
                case rule:
                    ottla_seeded_broker.faults.add(rule)
        """,
    )
    result.assert_outcomes(passed=5)


def test_seeded_broker_without_a_seed_names_the_missing_fixture(suite: pytest.Pytester) -> None:
    result = run(suite, "def test_orders(ottla_seeded_broker): pass")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*ottla_seeded_broker needs a session fixture ottla_seed*"])


def test_fixtures_work_in_coroutines_of_pytest_asyncio(suite: pytest.Pytester) -> None:
    result = run(
        suite,
        """
        import asyncio, pytest
        from aiokafka import AIOKafkaProducer

        @pytest.mark.asyncio
        async def test_send(ottla_broker, ottla_topic):
            async with AIOKafkaProducer(bootstrap_servers=ottla_broker.bootstrap, enable_idempotence=True) as producer:
                await producer.send_and_wait(ottla_topic, b"a")
            ottla_broker.assert_exactly_once(expected=[b"a"])
        """,
    )
    result.assert_outcomes(passed=1)


def test_fixtures_work_in_coroutines_of_anyio(suite: pytest.Pytester) -> None:
    result = run(
        suite,
        """
        import pytest
        from aiokafka import AIOKafkaProducer

        @pytest.fixture
        def anyio_backend():
            return "asyncio"

        @pytest.mark.anyio
        async def test_send(ottla_broker, ottla_topic):
            async with AIOKafkaProducer(bootstrap_servers=ottla_broker.bootstrap) as producer:
                await producer.send_and_wait(ottla_topic, b"a")
            ottla_broker.assert_exactly_once(expected=[b"a"])
        """,
    )
    result.assert_outcomes(passed=1)


def test_the_plugin_does_not_import_the_broker_into_every_test_run(suite: pytest.Pytester) -> None:
    result = run(
        suite,
        """
        import sys

        def test_nobody_asked():
            assert not [name for name in sys.modules if name.startswith(("ottla.broker.app", "ottla.broker.storage", "ottla.protocol"))]
        """,
    )
    result.assert_outcomes(passed=1)


def test_cluster_fixture_survives_its_leader_and_keeps_its_data_if_the_test_fails(suite: pytest.Pytester) -> None:
    result = run(
        suite,
        """
        import pytest
        from sending import send

        @pytest.mark.ottla(brokers=3, settings={"min.insync.replicas": 2}, faults=["drop-ack:api=Heartbeat"])
        def test_failover(ottla_cluster):
            topic = ottla_cluster.topics.create("orders")
            send(ottla_cluster.brokers[ottla_cluster.leader_of(topic)], topic, b"a")
            ottla_cluster.kill(ottla_cluster.leader_of(topic))
            ottla_cluster.clock.advance(10)
            leader = ottla_cluster.wait_until_led(topic)
            ottla_cluster.wait_in_sync(topic)
            send(ottla_cluster.brokers[leader], topic, b"b")
            ottla_cluster.assert_exactly_once(expected=[b"a", b"b"])
            assert [len(broker.faults.rules) for broker in ottla_cluster.brokers.values()] == [1, 1, 1]

        @pytest.mark.ottla(brokers=1)
        def test_missing(ottla_cluster):
            ottla_cluster.topics.create("orders")
            ottla_cluster.assert_exactly_once(expected=[b"a"])
        """,
    )
    result.assert_outcomes(passed=1, failed=1)
    assert len([line for line in result.outlines if "the cluster's data is kept in" in line]) == 1


def test_documented_first_test_passes_and_fails_as_documented_without_idempotence(suite: pytest.Pytester) -> None:
    page = PAGE.read_text()
    example, *_ = re.findall(r"^```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    suite.makepyfile(test_with=example, test_without=example.replace("enable_idempotence=True", "enable_idempotence=False"))
    result = suite.runpytest_subprocess("-p", "no:cacheprovider")
    result.assert_outcomes(passed=1, failed=1)
    lines = re.findall(r"(not exactly once: .*|Without a producer id .*)", page)
    assert len(lines) == 2
    result.stdout.fnmatch_lines([f"*{line}" for line in lines])


def test_documented_queue_example_expires_a_stuck_workers_lock(suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(DOCS.parent))  # for tests.support
    (example,) = re.findall(r"^```python\n(def test_.*?)^```", QUEUES.read_text(), re.DOTALL | re.MULTILINE)
    suite.makepyfile(
        test_worker=f"""
from confluent_kafka import ShareConsumer
import pytest
from sending import send
from tests.support.share_calls import configure
from ottla.protocol.client import Client

@pytest.fixture(autouse=True)
def jobs(ottla_broker):
    ottla_broker.topics.create("jobs")
    send(ottla_broker, "jobs", b"job 7")
    with Client("127.0.0.1", ottla_broker.port) as client:
        configure(client, "workers", share__auto__offset__reset="earliest")

def worker(bootstrap):
    consumer = ShareConsumer({{"bootstrap.servers": bootstrap, "group.id": "workers", "share.acknowledgement.mode": "explicit"}})
    consumer.subscribe(["jobs"])
    return consumer

{example}
"""
    )
    suite.runpytest_subprocess("-p", "no:cacheprovider").assert_outcomes(passed=1)


def test_gateway_fixture_judges_over_the_wire(suite: pytest.Pytester) -> None:
    result = run(
        suite,
        """
        import pytest
        from sending import send
        from ottla.broker.testing.verdict import NotExactlyOnce

        @pytest.fixture
        def ottla_gateway_to(ottla_bootstrap):
            return ottla_bootstrap

        @pytest.mark.ottla(faults=["error:api=Heartbeat,code=COORDINATOR_NOT_AVAILABLE"])
        def test_orders(ottla_gateway, ottla_topic):
            assert [rule.action.value for rule in ottla_gateway.faults.rules] == ["error"]
            send(ottla_gateway, ottla_topic, b"a", b"b")
            assert [each.records[0][1] for each in ottla_gateway.history.sends] == [b"a", b"b"]
            ottla_gateway.assert_exactly_once(expected=[b"a", b"b"])
            send(ottla_gateway, ottla_topic, b"b")
            with pytest.raises(NotExactlyOnce, match="b is readable 2 times"):
                ottla_gateway.assert_exactly_once()
        """,
    )
    result.assert_outcomes(passed=1)


def test_gateway_fixture_without_a_cluster_names_the_missing_fixture(suite: pytest.Pytester) -> None:
    result = run(suite, "def test_it(ottla_gateway): pass")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*ottla_gateway needs a cluster*"])
