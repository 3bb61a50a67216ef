"""Quotas of Apache Kafka and of Ottla: the same tools print the same, and the same load is throttled for the same time."""

from __future__ import annotations

from collections.abc import Iterator
from time import time_ns

import pytest

from client_compat.kafka.reference import ReferenceBroker
from client_compat.kafka.tools import Tools
from client_compat.support.brokers import HOST
from ottla.protocol.client import Client
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k00_produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.messages.k01_fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.k03_metadata import MetadataRequest
from ottla.protocol.messages.k18_api_versions import ApiVersionsRequest
from ottla.protocol.messages.k19_create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.k49_alter_client_quotas import AlterClientQuotasRequest
from ottla.protocol.records.record import SimpleRecord, build_batch
from tests.support.apache_kafka import jars_or_skip
from tests.support.kafka_tools import Bootstrap, refused, run
from tests.support.quota_calls import Target, quota, set_quota
from tests.support.running_broker import RunningBroker


class Kafka:
    """The reference broker, with the interface that the tools need."""

    def __init__(self, broker: ReferenceBroker) -> None:
        self.bootstrap = f"{HOST}:{broker.port}"


@pytest.fixture(scope="module")
def tools() -> Tools:
    jars_or_skip()
    return Tools()


@pytest.fixture(scope="module")
def brokers(tools: Tools, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Bootstrap, Bootstrap]]:
    """Yield Kafka's broker and Ottla's."""
    directory = tmp_path_factory.mktemp("quotas")
    reference = ReferenceBroker(directory / "kafka")
    reference.format()
    with reference, RunningBroker(directory / "ottla") as ours:
        yield Kafka(reference), ours


ALICE = ("--entity-type", "users", "--entity-name", "alice")
ALICES = (*ALICE, "--entity-type", "clients", "--entity-default")
EVERY_CLIENT = ("--entity-type", "clients", "--entity-default")
ADDRESS = ("--entity-type", "ips", "--entity-name", "127.0.0.9")
STEPS = (
    ("--alter", *ALICE, "--add-config", "producer_byte_rate=1048576,consumer_byte_rate=2048"),
    ("--alter", *ALICES, "--add-config", "request_percentage=12.5"),
    ("--alter", *EVERY_CLIENT, "--add-config", "controller_mutation_rate=10"),
    ("--alter", *ADDRESS, "--add-config", "connection_creation_rate=7"),
    ("--describe", "--entity-type", "users", "--entity-type", "clients"),
    ("--describe", "--entity-type", "clients"),
    ("--describe", "--entity-type", "ips"),
    ("--alter", *ALICES, "--delete-config", "request_percentage"),
    ("--alter", *ALICES, "--add-config", "producer_byte_rate=5"),
    ("--describe", "--entity-type", "users", "--entity-type", "clients"),
)


def test_kafka_configs_sets_and_describes_the_same_quotas_as_at_kafka(tools: Tools, brokers: tuple[Bootstrap, Bootstrap]) -> None:
    for step in STEPS:
        kafkas, ours = (sorted(run(tools, broker, "kafka-configs", *step).splitlines()) for broker in brokers)
        assert kafkas == ours, step
    assert ours == ["Quota configs for user-principal 'alice', the default client-id are producer_byte_rate=5.0"]


def test_kafka_configs_rejects_the_same_quotas_as_at_kafka(tools: Tools, brokers: tuple[Bootstrap, Bootstrap]) -> None:
    for wrong in ("producer_byte_rate=0", "consumer_byte_rate=1.5"):
        kafkas, ours = (refused(tools, broker, "kafka-configs", "--alter", *ALICE, "--add-config", wrong) for broker in brokers)
        assert _reason(kafkas) == _reason(ours)
        assert "InvalidRequestException" in ours


def _reason(message: str) -> str:
    """Return the last exception in the output."""
    return [line for line in message.splitlines() if "Exception: " in line][-1]


WINDOW_MS = 1_000


def wait_until_obeyed(broker: Bootstrap, *quotas: tuple[Target, dict[str, float | None]]) -> None:
    """Set quotas, and wait until one of them throttles a client: Kafka's brokers apply quotas some time after the response."""
    entries = [quota(target, **values) for target, values in quotas]
    with client_of(broker, "setter") as client:
        probe = quota((("client-id", "probe"),), request_percentage=1e-6)
        for each in client.call(AlterClientQuotasRequest([*entries, probe])).entries:
            assert each.error_code == 0, each.error_message
    with client_of(broker, "probe") as client:
        while client.call(ApiVersionsRequest("x", "1"), 3).throttle_time_ms == 0:
            pass
    with client_of(broker, "setter") as client:
        set_quota(client, (("client-id", "probe"),), request_percentage=None)


def client_of(broker: Bootstrap, client_id: str) -> Client:
    host, port = broker.bootstrap.split(":")
    return Client(host, int(port), client_id=client_id)


def new_topic(broker: Bootstrap, name: str) -> None:
    """Create a topic, and wait until it has a leader."""
    with client_of(broker, "setter") as client:
        (made,) = client.call(CreateTopicsRequest([CreatableTopic(name, 1, 1)])).topics
        assert made.error_code == 0
        while client.call(produce_of(name, 10), 9).responses[0].partition_responses[0].error_code:
            pass


def produce_of(topic: str, size: int) -> ProduceRequest:
    batch = build_batch([SimpleRecord(None, bytes(size), time_ns() // 1_000_000)])
    data = TopicProduceData(topic, partition_data=[PartitionProduceData(0, batch)])
    return ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[data])


def throttled(broker: Bootstrap) -> list[int]:
    """Return the first throttle times of a producer, a consumer, a client that sends requests, and one that creates topics."""

    def target(name: str) -> Target:
        return (("client-id", name),)

    new_topic(broker, "used")
    with client_of(broker, "setter") as client:
        client.call(produce_of("used", 50_000), 9)
    wait_until_obeyed(
        broker,
        (target("sends"), {"producer_byte_rate": 1_000.0}),
        (target("reads"), {"consumer_byte_rate": 2_000.0}),
        (target("asks"), {"request_percentage": 1e-6}),
        (target("makes"), {"controller_mutation_rate": 2.0}),
    )
    waits = []
    with client_of(broker, "sends") as client:
        waits.append(client.call(produce_of("used", 30_000), 9).throttle_time_ms)
    with client_of(broker, "reads") as client:
        topics = [FetchTopic("used", partitions=[FetchPartition(0, fetch_offset=0, partition_max_bytes=1 << 20)])]
        read = client.call(FetchRequest(max_bytes=1 << 20, session_epoch=-1, topics=topics), 11)
        assert (read.responses, read.session_id, read.error_code) == ([], 0, 0)
        waits.append(read.throttle_time_ms)
    with client_of(broker, "asks") as client:
        waits.append(client.call(MetadataRequest([]), 9).throttle_time_ms)
    with client_of(broker, "makes") as client:
        waits.append(client.call(CreateTopicsRequest([CreatableTopic("many", 30, 1)]), 5).throttle_time_ms)
    with client_of(broker, "makes") as client:
        refused = client.call(CreateTopicsRequest([CreatableTopic("more", 1, 1)]), 7)
        assert refused.topics[0].error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
        assert refused.topics[0].error_message is None
        waits.append(refused.throttle_time_ms)
    return waits


def test_same_load_is_throttled_as_long_as_at_kafka(brokers: tuple[Bootstrap, Bootstrap]) -> None:
    kafkas, ours = map(throttled, brokers)
    assert kafkas[:3] == ours[:3]
    assert min(ours) > 0
    assert kafkas[3:] == pytest.approx(ours[3:], abs=2 * WINDOW_MS), "time passes between taking and answering"
