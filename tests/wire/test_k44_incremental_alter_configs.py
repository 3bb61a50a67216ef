from __future__ import annotations

import pytest

from ottla.protocol.client import Client
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k00_produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.messages.k32_describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from ottla.protocol.messages.k44_incremental_alter_configs import AlterableConfig, AlterConfigsResource, IncrementalAlterConfigsRequest
from ottla.protocol.records.record import SimpleRecord, build_batch
from tests.support.consumer_calls import beat, describe, join
from tests.support.group_calls import find_coordinator, wait_until
from tests.support.running_broker import RunningBroker
from tests.support.topic_calls import create

TOPIC, BROKER, LOGGER, GROUP = 2, 4, 8, 32
SET, DELETE, APPEND = 0, 1, 2


def alter(client: Client, kind: int, name: str, *configs: AlterableConfig, version: int = 1) -> int:
    request = IncrementalAlterConfigsRequest([AlterConfigsResource(kind, name, list(configs))])
    (response,) = client.call(request, version=version).responses
    assert (response.resource_type, response.resource_name) == (kind, name)
    code: int = response.error_code
    return code


def value(client: Client, kind: int, name: str, key: str) -> tuple[str | None, int]:
    (result,) = client.call(DescribeConfigsRequest([DescribeConfigsResource(kind, name, [key])])).results
    (config,) = result.configs
    return config.value, config.config_source


def produce_code(client: Client, topic: str, size: int) -> int:
    batch = build_batch([SimpleRecord(None, bytes(size), 1_700_000_000_000)])
    data = TopicProduceData(topic, partition_data=[PartitionProduceData(0, batch)])
    response = client.call(ProduceRequest(acks=-1, timeout_ms=1_000, topic_data=[data]), version=9)
    code: int = response.responses[0].partition_responses[0].error_code
    return code


@pytest.mark.parametrize("version", range(2))
def test_every_version_changes_only_what_it_names(client: Client, version: int) -> None:
    create(client, "t", configs={"retention.ms": "5"})
    assert alter(client, TOPIC, "t", AlterableConfig("cleanup.policy", APPEND, "compact"), version=version) == 0
    assert value(client, TOPIC, "t", "cleanup.policy") == ("delete,compact", 1)
    assert value(client, TOPIC, "t", "retention.ms") == ("5", 1)


def test_an_open_log_uses_the_new_setting_at_once(client: Client) -> None:
    create(client, "t")
    assert produce_code(client, "t", 500) == 0
    assert alter(client, TOPIC, "t", AlterableConfig("max.message.bytes", SET, "100")) == 0
    assert produce_code(client, "t", 500) == ErrorCode.MESSAGE_TOO_LARGE
    assert alter(client, TOPIC, "t", AlterableConfig("max.message.bytes", DELETE, None)) == 0
    assert produce_code(client, "t", 500) == 0


def test_a_broker_setting_changes_every_topic_without_an_override_at_once(client: Client) -> None:
    create(client, "t")
    create(client, "own", configs={"max.message.bytes": "10000"})
    assert alter(client, BROKER, "", AlterableConfig("message.max.bytes", SET, "100")) == 0
    assert produce_code(client, "t", 500) == ErrorCode.MESSAGE_TOO_LARGE
    assert produce_code(client, "own", 500) == 0


def test_a_groups_heartbeat_interval_changes_at_once(client: Client) -> None:
    create(client, "t")
    find_coordinator(client)
    assert join(client, "m").heartbeat_interval_ms == 5_000
    assert alter(client, GROUP, "g", AlterableConfig("consumer.heartbeat.interval.ms", SET, "9000")) == 0
    assert beat(client, "m", 2).heartbeat_interval_ms == 9_000
    assert join(client, "m", group_id="other").heartbeat_interval_ms == 5_000


@pytest.mark.parametrize(
    ("kind", "name", "setting"),
    [(GROUP, "g", "consumer.assignment.interval.ms"), (BROKER, "", "group.consumer.assignment.interval.ms")],
)
def test_a_groups_assignment_interval_takes_effect_at_once(client: Client, kind: int, name: str, setting: str) -> None:
    create(client, "t")
    find_coordinator(client)
    join(client, "m")
    assert join(client, "n").member_epoch == 2
    assert alter(client, kind, name, AlterableConfig(setting, SET, "0")) == 0
    assert join(client, "o").member_epoch == 4


@pytest.mark.broker_settings({"group.consumer.min.session.timeout.ms": "200", "group.consumer.min.heartbeat.interval.ms": "1"})
def test_a_member_is_removed_after_its_groups_own_session_timeout(client: Client) -> None:
    create(client, "t")
    find_coordinator(client)
    own = [AlterableConfig("consumer.session.timeout.ms", SET, "200"), AlterableConfig("consumer.heartbeat.interval.ms", SET, "50")]
    assert alter(client, GROUP, "g", *own) == 0
    join(client, "m")
    join(client, "m", group_id="other")
    wait_until(lambda: describe(client).group_state == "Empty", "the member is out")
    assert describe(client, "other").group_state == "Stable"


@pytest.mark.parametrize("kill", [False, True])
def test_changes_survive_a_restart(broker: RunningBroker, kill: bool) -> None:
    with broker.client() as client:
        create(client, "t")
        assert alter(client, TOPIC, "t", AlterableConfig("retention.ms", SET, "7")) == 0
        assert alter(client, BROKER, "1", AlterableConfig("message.max.bytes", SET, "100")) == 0
    broker.restart(kill=kill)
    with broker.client() as client:
        assert value(client, TOPIC, "t", "retention.ms") == ("7", 1)
        assert value(client, BROKER, "1", "message.max.bytes") == ("100", 2)
        assert produce_code(client, "t", 500) == ErrorCode.MESSAGE_TOO_LARGE


def test_a_loggers_level_changes_at_once_and_can_be_reset(client: Client) -> None:
    before = value(client, LOGGER, "1", "kafka.server.ReplicaManager")
    assert alter(client, LOGGER, "1", AlterableConfig("kafka.server.ReplicaManager", SET, "TRACE")) == 0
    assert value(client, LOGGER, "1", "kafka.server.ReplicaManager") == ("TRACE", 6)
    assert alter(client, LOGGER, "1", AlterableConfig("kafka.server.ReplicaManager", DELETE, None)) == 0
    assert value(client, LOGGER, "1", "kafka.server.ReplicaManager") == before


def test_a_validate_only_level_is_not_set(client: Client) -> None:
    before = value(client, LOGGER, "1", "kafka.server.KafkaApis")
    resource = AlterConfigsResource(LOGGER, "1", [AlterableConfig("kafka.server.KafkaApis", SET, "TRACE")])
    (answer,) = client.call(IncrementalAlterConfigsRequest([resource], validate_only=True)).responses
    assert answer.error_code == 0
    assert value(client, LOGGER, "1", "kafka.server.KafkaApis") == before
