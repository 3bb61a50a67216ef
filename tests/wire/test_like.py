"""A broker that is like another release of Apache Kafka, over a socket: it offers what the release's table says, as far as Ottla implements
it."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ottla.broker.api.api_table import APIS
from ottla.broker.api.served_api import ListenerType
from ottla.broker.cli.serve import EXIT_USAGE, main
from ottla.broker.cluster.features import SUPPORTED
from ottla.broker.core.acl import STANDARD_AUTHORIZER
from ottla.broker.core.settings_load import SettingsError
from ottla.broker.process import StartError
from ottla.broker.releases.table import releases, table_of
from ottla.broker.testing.in_process import InProcessBroker
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.client import Client
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k00_produce import PartitionProduceData, PartitionProduceResponse, ProduceRequest, TopicProduceData
from ottla.protocol.messages.k01_fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.k02_list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.protocol.messages.k03_metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.k08_offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from ottla.protocol.messages.k10_find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.k15_describe_groups import DescribeGroupsRequest
from ottla.protocol.messages.k16_list_groups import ListGroupsRequest
from ottla.protocol.messages.k18_api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.protocol.messages.k19_create_topics import CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from ottla.protocol.messages.k20_delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.protocol.messages.k32_describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from ottla.protocol.messages.k35_describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from ottla.protocol.messages.k43_elect_leaders import ElectLeadersRequest
from ottla.protocol.messages.k44_incremental_alter_configs import AlterableConfig, AlterConfigsResource, IncrementalAlterConfigsRequest
from ottla.protocol.messages.k45_alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.protocol.messages.k50_describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from ottla.protocol.messages.k51_alter_user_scram_credentials import AlterUserScramCredentialsRequest, ScramCredentialUpsertion
from ottla.protocol.messages.k57_update_features import FeatureUpdateKey, UpdateFeaturesRequest
from ottla.protocol.messages.k68_consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.protocol.messages.k71_get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from ottla.protocol.messages.k72_push_telemetry import PushTelemetryRequest
from ottla.protocol.records.compression import Codec
from ottla.protocol.records.crc32c import crc32c
from ottla.protocol.records.record import SimpleRecord, build_batch
from ottla.protocol.schema import Message
from tests.support import consumer_calls, share_group_calls, streams_group_calls
from tests.support.group_calls import find_coordinator, wait_until

TOPIC, BROKER, LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32


@contextmanager
def asking(broker: InProcessBroker) -> Iterator[Client]:
    with Client("127.0.0.1", broker.port) as client:
        yield client


def offered(broker: InProcessBroker) -> ApiVersionsResponse:
    with asking(broker) as client:
        request = ApiVersionsRequest(client_software_name="test", client_software_version="1")
        answer: ApiVersionsResponse = client.call(request, client.highest_version(ApiVersionsRequest))
        return answer


def settings_of(broker: InProcessBroker, kind: int, name: str) -> dict[str, str | None]:
    with asking(broker) as client:
        (result,) = client.call(DescribeConfigsRequest(resources=[DescribeConfigsResource(kind, name, None)])).results
    return {entry.name: entry.value for entry in result.configs}


def produced(client: Client, batch: bytes) -> PartitionProduceResponse:
    request = ProduceRequest(None, -1, 10_000, [TopicProduceData("limited", partition_data=[PartitionProduceData(0, batch)])])
    found: PartitionProduceResponse = client.call(request, 9).responses[0].partition_responses[0]
    return found


@pytest.mark.parametrize("release", releases())
def test_offered_versions_are_those_common_to_the_release_and_ottla(release: str) -> None:
    table, implemented = table_of(release), {api.key.camel_case: api for api in APIS if ListenerType.BROKER in api.listeners}
    with InProcessBroker(like=release) as broker:
        answer = offered(broker)
    versions = {ApiKey(api.api_key).camel_case: (api.min_version, api.max_version) for api in answer.api_keys}
    assert versions == {
        name: (max(first, own.advertised_min), min(last, own.max_version))
        for name, (first, last) in table.apis.items()
        if (own := implemented.get(name)) is not None and first <= own.max_version and not own.needs_telemetry
    }
    features = {name: (min(high, SUPPORTED[name][1]), level) for name, (_, high, level) in table.features.items() if name in SUPPORTED}
    assert {each.name: each.max_version for each in answer.supported_features} == {name: high for name, (high, _) in features.items()}
    enabled = {name: min(high, level) for name, (high, level) in features.items() if level}
    assert {each.name: each.max_version_level for each in answer.finalized_features} == enabled


@pytest.mark.parametrize(
    ("request_", "version"),
    [(FetchRequest(), 17), (ConsumerGroupHeartbeatRequest("group"), 0)],
    ids=["a later version", "a later API"],
)
def test_a_request_that_the_release_does_not_know_closes_the_connection(request_: Message, version: int) -> None:
    with InProcessBroker(like="3.6") as broker, asking(broker) as client:
        client.send(request_, version)
        with pytest.raises(ConnectionError):
            client.read_frame()


def test_a_newer_api_versions_request_is_answered_with_the_releases_range() -> None:
    with InProcessBroker(like="2.8") as broker, asking(broker) as client:
        client.send(ApiVersionsRequest(client_software_name="test", client_software_version="1"), 4)
        frame = client.read_frame()
    error, count, key, first, last = (
        int.from_bytes(frame[at : at + size], "big") for at, size in ((4, 2), (6, 4), (10, 2), (12, 2), (14, 2))
    )
    assert (error, count, key, first, last) == (ErrorCode.UNSUPPORTED_VERSION, 1, ApiKey.API_VERSIONS, 0, 3)


def test_settings_and_defaults_are_the_releases() -> None:
    with InProcessBroker(like="3.9") as broker:
        settings = settings_of(broker, BROKER, "1")
    assert settings["num.recovery.threads.per.data.dir"] == "1"
    assert settings["log.message.timestamp.after.max.ms"] == "9223372036854775807"
    assert settings["group.coordinator.rebalance.protocols"] == "classic"
    assert "share.coordinator.write.timeout.ms" not in settings


def test_list_configs_are_normalised_since_4_2() -> None:
    topic = CreatableTopic("twice", 1, 1, configs=[CreatableTopicConfig("cleanup.policy", "compact,compact")])
    subscription = AlterConfigsResource(CLIENT_METRICS, "m", [AlterableConfig("metrics", 0, "a,,b")])
    with InProcessBroker(like="3.9") as broker, asking(broker) as client:
        assert client.call(CreateTopicsRequest(topics=[topic])).topics[0].error_code == ErrorCode.NONE
        assert settings_of(broker, TOPIC, "twice")["cleanup.policy"] == "compact"
        answer = client.call(IncrementalAlterConfigsRequest([subscription], validate_only=False))
    assert answer.responses[0].error_code == ErrorCode.INVALID_CONFIG


def test_a_broker_setting_that_the_release_does_not_know_is_stored_without_effect() -> None:
    change = AlterConfigsResource(BROKER, "1", [AlterableConfig("group.coordinator.cached.buffer.max.bytes", 0, "any text")])
    with InProcessBroker(like="3.9") as broker, asking(broker) as client:
        assert client.call(IncrementalAlterConfigsRequest([change], validate_only=False)).responses[0].error_code == ErrorCode.NONE
        assert settings_of(broker, BROKER, "1")["group.coordinator.cached.buffer.max.bytes"] is None, "hidden, as it may be a password"
    with InProcessBroker(like="4.3") as broker, asking(broker) as client:
        answer = client.call(IncrementalAlterConfigsRequest([change], validate_only=False))
    assert answer.responses[0].error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(("release", "described"), [("4.0", {}), ("4.1", {"interval.ms": "300000", "match": "", "metrics": ""})])
def test_client_metrics_are_described_with_their_defaults_since_4_1(release: str, described: dict[str, str]) -> None:
    with InProcessBroker(like=release) as broker:
        assert settings_of(broker, CLIENT_METRICS, "none") == described


@pytest.mark.parametrize(("release", "code"), [("3.9", ErrorCode.THROTTLING_QUOTA_EXCEEDED), ("4.0", ErrorCode.NONE)])
def test_a_metrics_subscription_may_be_asked_for_at_once_after_an_error_since_4_0(release: str, code: ErrorCode) -> None:
    with InProcessBroker(settings={"client.telemetry.enable": "true"}, like=release) as broker, asking(broker) as client:
        first = client.call(GetTelemetrySubscriptionsRequest())
        wrong = PushTelemetryRequest(first.client_instance_id, first.subscription_id + 1)
        assert client.call(wrong).error_code == ErrorCode.UNKNOWN_SUBSCRIPTION_ID
        assert client.call(GetTelemetrySubscriptionsRequest(first.client_instance_id)).error_code == code


@pytest.mark.parametrize(("release", "code"), [("3.7", ErrorCode.NONE), ("3.8", ErrorCode.INVALID_RECORD)])
def test_pushed_metrics_are_decompressed_since_3_8(release: str, code: ErrorCode) -> None:
    with InProcessBroker(settings={"client.telemetry.enable": "true"}, like=release) as broker, asking(broker) as client:
        first = client.call(GetTelemetrySubscriptionsRequest())
        pushed = PushTelemetryRequest(first.client_instance_id, first.subscription_id, False, Codec.GZIP, b"no gzip")
        assert client.call(pushed).error_code == code


@pytest.mark.parametrize(
    ("release", "version", "timestamp", "found"),
    [
        ("3.9", 1, -3, (ErrorCode.UNSUPPORTED_VERSION, -1, -1)),
        ("3.8", 1, -3, (ErrorCode.NONE, 7, 1)),
        ("3.8", 1, -4, (ErrorCode.NONE, -1, 0)),
        ("3.4", 1, -4, (ErrorCode.NONE, 5, 0)),
        ("3.8", 8, -9, (ErrorCode.NONE, 5, 0)),
    ],
)
def test_special_timestamps_are_checked_since_3_9(release: str, version: int, timestamp: int, found: tuple[ErrorCode, int, int]) -> None:
    with InProcessBroker(like=release) as broker, asking(broker) as client:
        client.call(CreateTopicsRequest(topics=[CreatableTopic("limited", 1, 1)]))
        for at in (5, 7):
            assert produced(client, build_batch([SimpleRecord(None, b"v", at)])).error_code == ErrorCode.NONE
        topic = ListOffsetsTopic("limited", [ListOffsetsPartition(0, -1, timestamp)])
        (answer,) = client.call(ListOffsetsRequest(-1, 0, [topic], 5_000), version).topics[0].partitions
    assert (answer.error_code, answer.timestamp, answer.offset) == found


@pytest.mark.parametrize(("release", "listed"), [("3.7", ["Empty"]), ("3.8", ["EMPTY", "Empty"])])
def test_the_case_of_a_state_filter_is_ignored_since_3_8(release: str, listed: list[str]) -> None:
    with InProcessBroker(like=release) as broker, asking(broker) as client:
        client.call(FindCoordinatorRequest(coordinator_keys=["g"]), 4)
        client.call(CreateTopicsRequest(topics=[CreatableTopic("t", 1, 1)]))
        topic = OffsetCommitRequestTopic("t", partitions=[OffsetCommitRequestPartition(0, 1)])
        client.call(OffsetCommitRequest("g", topics=[topic]), 8)
        found = [state for state in ("EMPTY", "Empty") if client.call(ListGroupsRequest([state]), 4).groups]
    assert found == listed


@pytest.mark.parametrize(("release", "code"), [("3.8", ErrorCode.TOPIC_AUTHORIZATION_FAILED), ("3.9", ErrorCode.INVALID_REQUEST)])
def test_metadata_topic_cannot_be_created_by_clients(release: str, code: ErrorCode) -> None:
    with InProcessBroker(like=release) as broker, asking(broker) as client:
        (answer,) = client.call(CreateTopicsRequest(topics=[CreatableTopic("__cluster_metadata", 1, 1)])).topics
    assert answer.error_code == code


@pytest.mark.parametrize(
    ("release", "codes"),
    [
        ("3.1", [ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_REQUEST, ErrorCode.NONE]),
        ("3.2", [ErrorCode.INVALID_CONFIG, ErrorCode.INVALID_CONFIG, ErrorCode.INVALID_REQUEST]),
    ],
)
def test_mistakes_in_log_levels_are_reported_as_before_3_2(release: str, codes: list[ErrorCode]) -> None:
    mistakes = (("1", "no.such.logger", "DEBUG"), ("1", "kafka.authorizer.logger", "LOUD"), ("", "kafka.authorizer.logger", "WARN"))
    resources = [AlterConfigsResource(LOGGER, broker, [AlterableConfig(logger, 0, level)]) for broker, logger, level in mistakes]
    with InProcessBroker(like=release) as broker, asking(broker) as client:
        answered = [client.call(IncrementalAlterConfigsRequest([resource])).responses[0].error_code for resource in resources]
    assert answered == codes


@pytest.mark.parametrize(("release", "code"), [("3.6", ErrorCode.INVALID_REQUEST), ("3.7", ErrorCode.NONE)])
def test_client_metrics_have_settings_since_3_7(release: str, code: ErrorCode) -> None:
    change = AlterConfigsResource(CLIENT_METRICS, "m", [AlterableConfig("metrics", 0, "a")])
    with InProcessBroker(like=release) as broker, asking(broker) as client:
        assert client.call(IncrementalAlterConfigsRequest([change])).responses[0].error_code == code
        (described,) = client.call(DescribeConfigsRequest(resources=[DescribeConfigsResource(CLIENT_METRICS, "m", None)])).results
        assert described.error_code == code


@pytest.mark.parametrize(("release", "code"), [("3.5", ErrorCode.INVALID_TIMESTAMP), ("3.6", ErrorCode.NONE)])
def test_a_batch_may_say_that_its_time_is_the_append_time_since_3_6(release: str, code: ErrorCode) -> None:
    batch = bytearray(build_batch([SimpleRecord(None, b"v", int(time.time() * 1000))]))
    batch[22] |= 8  # LogAppendTime, in the lower byte of the attributes
    batch[17:21] = crc32c(bytes(batch[21:])).to_bytes(4, "big")
    with InProcessBroker(like=release) as broker, asking(broker) as client:
        client.call(CreateTopicsRequest(topics=[CreatableTopic("limited", 1, 1)]))
        assert produced(client, bytes(batch)).error_code == code


@pytest.mark.parametrize(("release", "described"), [("3.6", ["asked", "other"]), ("3.7", ["asked"])])
def test_log_directories_describe_only_the_named_topics_since_3_7(release: str, described: list[str]) -> None:
    with InProcessBroker(like=release) as broker, asking(broker) as client:
        client.call(CreateTopicsRequest(topics=[CreatableTopic(name, 1, 1) for name in ("asked", "other")]))
        (directory,) = client.call(DescribeLogDirsRequest([DescribableLogDirTopic("asked", [0])])).results
    assert sorted(topic.name for topic in directory.topics) == described


@pytest.mark.parametrize(("release", "results", "error"), [("3.9", [0, 95], 0), ("4.0", [], 95)])
def test_features_are_updated_together_since_4_0(release: str, results: list[int], error: int) -> None:
    updates = [FeatureUpdateKey("metadata.version", table_of(release).features["metadata.version"][2]), FeatureUpdateKey("no.such", 1)]
    with InProcessBroker(like=release) as broker, asking(broker) as client:
        answer = client.call(UpdateFeaturesRequest(feature_updates=updates, validate_only=True), 1)
    assert (answer.error_code, [each.error_code for each in answer.results]) == (error, results)


@pytest.mark.parametrize(("release", "operations"), [("3.9", 328), ("4.0", 3400)])
def test_groups_have_operations_of_their_settings_since_4_0(release: str, operations: int) -> None:
    with InProcessBroker(like=release) as broker, asking(broker) as client:
        find_coordinator(client)
        client.call(OffsetCommitRequest("g", topics=[]), 8)
        (group,) = client.call(DescribeGroupsRequest(["g"], include_authorized_operations=True), 5).groups
    assert group.authorized_operations == operations


@pytest.mark.parametrize(("release", "code"), [("3.9", ErrorCode.ILLEGAL_GENERATION), ("4.0", ErrorCode.GROUP_ID_NOT_FOUND)])
def test_offset_commit_of_a_member_of_an_unknown_group_gets_the_releases_error(release: str, code: ErrorCode) -> None:
    with InProcessBroker(like=release) as broker, asking(broker) as client:
        find_coordinator(client)
        client.call(CreateTopicsRequest(topics=[CreatableTopic("t", 1, 1)]))
        topic = OffsetCommitRequestTopic("t", partitions=[OffsetCommitRequestPartition(0, 1)])
        answer = client.call(OffsetCommitRequest("unknown", 1, "m", topics=[topic]), 9)
    assert answer.topics[0].partitions[0].error_code == code


@pytest.mark.parametrize("release", ["4.0", "4.1", "4.2", "4.3", "4.4"])
def test_a_group_has_the_settings_of_the_release(release: str) -> None:
    with InProcessBroker(like=release) as broker:
        assert settings_of(broker, GROUP, "g").keys() == table_of(release).group_settings.keys()


@pytest.mark.parametrize(("release", "epochs"), [("4.2", (1, 1, 1, (2, 0))), ("4.3", (2, 1, 1, (2, 1)))])
def test_epochs_of_groups_begin_at_one_since_4_3(release: str, epochs: tuple[int, int, int, tuple[int, int]]) -> None:
    with InProcessBroker(like=release) as broker, asking(broker) as client:
        streams_group_calls.prepare(client)
        by_name = consumer_calls.join(client, "m").member_epoch
        by_regex = consumer_calls.join(
            client, "m", group_id="by-regex", subscribed_topic_names=None, subscribed_topic_regex="t.*"
        ).member_epoch
        delayed = streams_group_calls.beat(client, group_id="streams").member_epoch
        group = streams_group_calls.described(client, "streams")
    assert (by_name, by_regex, delayed, (group.group_epoch, group.assignment_epoch)) == epochs


@pytest.mark.parametrize(("release", "expression", "left"), [("4.1", "u.*", None), ("4.2", "u.*", []), ("4.0", "", None), ("4.1", "", [])])
def test_a_changed_expression_ends_the_former_subscription(release: str, expression: str, left: list[int] | None) -> None:
    with InProcessBroker(like=release) as broker, asking(broker) as client:
        streams_group_calls.prepare(client)
        epoch = consumer_calls.join(client, "m", subscribed_topic_names=None, subscribed_topic_regex="t.*").member_epoch
        wait_until(lambda: consumer_calls.beat(client, "m", epoch).member_epoch > epoch, "the expression is resolved")
        answer = consumer_calls.beat(client, "m", epoch + 1, subscribed_topic_regex=expression)
    assert (None if answer.assignment is None else answer.assignment.topic_partitions) == left


@pytest.mark.parametrize(("release", "code"), [("4.2", ErrorCode.STALE_MEMBER_EPOCH), ("4.3", ErrorCode.NONE)])
def test_a_member_may_commit_with_its_former_epoch_since_4_3(release: str, code: ErrorCode) -> None:
    settings = {} if release == "4.2" else {"group.consumer.assignment.interval.ms": "0"}
    with InProcessBroker(settings=settings, like=release) as broker, asking(broker) as client:
        streams_group_calls.prepare(client, partitions=1)
        epoch = consumer_calls.join(client, "a").member_epoch
        consumer_calls.join(client, "b")
        assert consumer_calls.beat(client, "a", epoch).member_epoch == epoch + 1
        topic = OffsetCommitRequestTopic("t", partitions=[OffsetCommitRequestPartition(0, 1)])
        answer = client.call(OffsetCommitRequest("g", epoch, "a", topics=[topic]), 9)
    assert answer.topics[0].partitions[0].error_code == code


@pytest.mark.parametrize(("release", "settings", "bumps"), [("4.2", {}, 1), ("4.3", share_group_calls.AT_ONCE, 0)])
def test_a_share_groups_epoch_is_bumped_again_for_a_leavers_partitions_before_4_3(
    release: str, settings: dict[str, str], bumps: int
) -> None:
    with InProcessBroker(settings=settings, like=release) as broker, asking(broker) as client:
        share_group_calls.prepare(client)
        share_group_calls.settle(client)
        share_group_calls.beat(client, "b")
        share_group_calls.leave(client, "b")
        left = share_group_calls.described(client).group_epoch
        assert share_group_calls.settle(client) == left + bumps


@pytest.mark.parametrize(("release", "code"), [("4.3", ErrorCode.INVALID_REQUEST), ("4.4", ErrorCode.CLUSTER_AUTHORIZATION_FAILED)])
def test_unauthorized_change_of_another_brokers_configs_gets_the_releases_error(release: str, code: ErrorCode) -> None:
    change = AlterConfigsResource(BROKER, "7", [AlterableConfig("log.cleaner.threads", 0, "1")])
    with InProcessBroker(settings={"authorizer.class.name": STANDARD_AUTHORIZER}, like=release) as broker, asking(broker) as client:
        (answer,) = client.call(IncrementalAlterConfigsRequest([change])).responses
    assert answer.error_code == code


@pytest.mark.parametrize(("release", "code"), [("4.3", ErrorCode.INVALID_CONFIG), ("4.4", ErrorCode.INVALID_RECORD)])
def test_a_topic_of_4_4_limits_its_decompressed_records(release: str, code: ErrorCode) -> None:
    topic = CreatableTopic("limited", 1, 1, configs=[CreatableTopicConfig("max.decompressed.message.bytes", "100")])
    with InProcessBroker(like=release) as broker, asking(broker) as client:
        created = client.call(CreateTopicsRequest(topics=[topic])).topics[0].error_code
        if created != ErrorCode.NONE:
            assert (created, settings_of(broker, BROKER, "1").get("max.decompressed.message.bytes")) == (code, None)
            return
        assert settings_of(broker, TOPIC, "limited").keys() == table_of(release).topic_settings.keys()
        batches = [build_batch([SimpleRecord(None, b"v" * size, 1)], codec=Codec.GZIP) for size in (50, 100)]
        answers = [produced(client, batch).error_code for batch in batches]
        assert answers == [ErrorCode.NONE, code]


@pytest.mark.parametrize(("release", "code"), [("3.9", ErrorCode.NONE), ("4.0", ErrorCode.INVALID_CONFIG)])
def test_a_topic_has_the_settings_of_the_release(release: str, code: ErrorCode) -> None:
    topic = CreatableTopic("old", 1, 1, configs=[CreatableTopicConfig("message.format.version", "3.0")])
    with InProcessBroker(like=release) as broker, asking(broker) as client:
        assert client.call(CreateTopicsRequest(topics=[topic])).topics[0].error_code == code
        if code == ErrorCode.NONE:
            found = settings_of(broker, TOPIC, "old")
            assert found.keys() == table_of(release).topic_settings.keys()
            assert (found["message.format.version"], found["message.downconversion.enable"]) == ("3.0", "true")


@pytest.mark.parametrize(("release", "code"), [("3.9", ErrorCode.INVALID_REQUEST), ("4.0", ErrorCode.NONE)])
def test_groups_have_settings_since_4_0(release: str, code: ErrorCode) -> None:
    change = AlterConfigsResource(GROUP, "g", [AlterableConfig("consumer.session.timeout.ms", 0, "50000")])
    with InProcessBroker(like=release) as broker, asking(broker) as client:
        assert client.call(IncrementalAlterConfigsRequest([change])).responses[0].error_code == code
        (described,) = client.call(DescribeConfigsRequest(resources=[DescribeConfigsResource(GROUP, "g", None)])).results
        assert described.error_code == code


@pytest.mark.parametrize(("release", "aborted"), [("2.8", None), ("3.0", [])])
def test_an_unknown_partition_has_a_list_of_aborted_transactions_since_3_0(release: str, aborted: list[object] | None) -> None:
    request = FetchRequest(topics=[FetchTopic("nowhere", partitions=[FetchPartition(0)])])
    with InProcessBroker(like=release) as broker, asking(broker) as client:
        assert client.call(request, 12).responses[0].partitions[0].aborted_transactions == aborted


@pytest.mark.parametrize(
    ("release", "version", "code"),
    [
        ("3.9", 9, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        ("3.9", 10, ErrorCode.NONE),
        ("4.0", 9, ErrorCode.NONE),
    ],
)
def test_a_topic_with_zstd_is_read_by_clients_that_know_it_before_4_0(release: str, version: int, code: ErrorCode) -> None:
    topics = [CreatableTopic("limited", 1, 1, configs=[CreatableTopicConfig("compression.type", "zstd")]), CreatableTopic("plain", 1, 1)]
    asked = FetchRequest(topics=[FetchTopic(topic.name, partitions=[FetchPartition(0)]) for topic in topics])
    with InProcessBroker(like=release) as broker, asking(broker) as client:
        client.call(CreateTopicsRequest(topics=topics))
        assert produced(client, build_batch([SimpleRecord(None, b"v", 1)])).error_code == ErrorCode.NONE
        found, other = (topic.partitions[0] for topic in client.call(asked, version).responses)
        assert (found.error_code, bool(found.records), found.high_watermark) == (code, not code, -1 if code else 1)
        assert other.error_code == ErrorCode.NONE


WITH_ZOOKEEPER, WITH_KRAFT = "3.2", "3.3"


@pytest.mark.parametrize(
    ("release", "code", "hidden"),
    [(WITH_ZOOKEEPER, ErrorCode.INVALID_REQUEST, True), (WITH_KRAFT, ErrorCode.INVALID_CONFIG, False)],
)
def test_topics_are_created_and_deleted_as_with_zookeeper(release: str, code: ErrorCode, hidden: bool) -> None:
    without_value = CreatableTopic("t", 1, 1, configs=[CreatableTopicConfig("retention.ms", None)])
    with InProcessBroker(like=release) as broker, asking(broker) as client:
        assert client.call(CreateTopicsRequest(topics=[without_value])).topics[0].error_code == code
        spaced = CreatableTopic("t", 1, 1, configs=[CreatableTopicConfig("retention.ms", " 5 ")])
        (tried,) = client.call(CreateTopicsRequest(topics=[spaced], validate_only=True)).topics
        (created,) = client.call(CreateTopicsRequest(topics=[CreatableTopic("t", 1, 1)])).topics
        (deleted,) = client.call(DeleteTopicsRequest(topics=[DeleteTopicState("t")])).responses
    assert created.topic_id != bytes(16)
    assert [topic.topic_id == bytes(16) for topic in (tried, deleted)] == [hidden, hidden]
    assert next(entry.value for entry in tried.configs if entry.name == "retention.ms") == ("5" if hidden else " 5 ")


@pytest.mark.parametrize(
    ("release", "code", "collision"),
    [
        (WITH_ZOOKEEPER, ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.INVALID_TOPIC_EXCEPTION),
        (WITH_KRAFT, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_a_topic_that_metadata_creates_is_answered_as_with_zookeeper(release: str, code: ErrorCode, collision: ErrorCode) -> None:
    with InProcessBroker(like=release) as broker, asking(broker) as client:
        client.call(CreateTopicsRequest(topics=[CreatableTopic("a.b", 1, 1)]))
        topics = [MetadataRequestTopic(name="new"), MetadataRequestTopic(name="a_b")]
        codes = {topic.name: topic.error_code for topic in client.call(MetadataRequest(topics, True)).topics}
    assert codes == {"new": code, "a_b": collision}


@pytest.mark.parametrize(
    ("release", "codes"),
    [
        (WITH_ZOOKEEPER, [ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_CONFIG, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]),
        (WITH_KRAFT, [ErrorCode.INVALID_CONFIG, ErrorCode.INVALID_CONFIG, ErrorCode.INVALID_CONFIG]),
    ],
)
def test_mistakes_in_settings_are_reported_as_with_zookeeper(release: str, codes: list[ErrorCode]) -> None:
    mistakes = [("t", "retention.ms", "soon"), ("t", "no.such", "1"), ("nowhere", "retention.ms", "soon")]
    with InProcessBroker(like=release) as broker, asking(broker) as client:
        client.call(CreateTopicsRequest(topics=[CreatableTopic("t", 1, 1)]))
        answers = [
            client.call(IncrementalAlterConfigsRequest([AlterConfigsResource(TOPIC, topic, [AlterableConfig(name, 0, value)])]))
            for topic, name, value in mistakes
        ]
    assert [answer.responses[0].error_code for answer in answers] == codes


@pytest.mark.parametrize(("release", "named"), [(WITH_ZOOKEEPER, []), (WITH_KRAFT, ["t"])])
def test_an_election_of_all_names_topics_that_need_none_as_with_kraft(release: str, named: list[str]) -> None:
    with InProcessBroker(like=release) as broker, asking(broker) as client:
        client.call(CreateTopicsRequest(topics=[CreatableTopic("t", 1, 1)]))
        results = client.call(ElectLeadersRequest(topic_partitions=None)).replica_election_results
    assert [result.topic for result in results] == named


@pytest.mark.parametrize(
    ("release", "moved", "called_off"),
    [
        (WITH_ZOOKEEPER, ErrorCode.INVALID_REPLICA_ASSIGNMENT, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS),
        (WITH_KRAFT, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_reassignments_of_unknown_partitions_are_rejected_as_with_zookeeper(release: str, moved: ErrorCode, called_off: ErrorCode) -> None:
    wanted = [ReassignablePartition(0, [99]), ReassignablePartition(1, None)]
    with InProcessBroker(like=release) as broker, asking(broker) as client:
        answer = client.call(AlterPartitionReassignmentsRequest(topics=[ReassignableTopic("nowhere", wanted)]))
    assert [each.error_code for each in answer.responses[0].partitions] == [moved, called_off]


@pytest.mark.parametrize(("release", "code"), [(WITH_ZOOKEEPER, ErrorCode.INVALID_REQUEST), (WITH_KRAFT, ErrorCode.INVALID_UPDATE_VERSION)])
def test_an_unknown_feature_is_rejected_as_with_zookeeper(release: str, code: ErrorCode) -> None:
    with InProcessBroker(like=release) as broker, asking(broker) as client:
        answer = client.call(UpdateFeaturesRequest(feature_updates=[FeatureUpdateKey("no.such", 1)]), 0)
    assert answer.results[0].error_code == code


@pytest.mark.parametrize(
    ("release", "two", "same"),
    [
        (WITH_ZOOKEEPER, ErrorCode.NONE, ErrorCode.DUPLICATE_RESOURCE),
        ("3.5", ErrorCode.DUPLICATE_RESOURCE, ErrorCode.DUPLICATE_RESOURCE),
    ],
)
def test_two_mechanisms_of_a_user_change_at_once_as_with_zookeeper(release: str, two: ErrorCode, same: ErrorCode) -> None:
    first, second = (ScramCredentialUpsertion("alice", mechanism, 4096, b"salt", b"p" * 32 * mechanism) for mechanism in (1, 2))
    with InProcessBroker(like=release) as broker, asking(broker) as client:
        codes = [
            client.call(AlterUserScramCredentialsRequest(upsertions=upsertions)).results[0].error_code
            for upsertions in ([first, second], [first, first], [first, second, first])
        ]
        (found,) = client.call(DescribeUserScramCredentialsRequest([UserName("alice")])).results
    assert codes == [two, same, same]
    assert len(found.credential_infos) == (2 if two is ErrorCode.NONE else 0)


@pytest.mark.parametrize("nodes", [[], [9]], ids=["none", "an unknown one"])
def test_a_partition_needs_a_broker_in_every_release(nodes: list[int]) -> None:
    topic = CreatableTopic("t", -1, -1, [CreatableReplicaAssignment(0, nodes)])
    with InProcessBroker(like=WITH_ZOOKEEPER) as broker, asking(broker) as client:
        answer = client.call(CreateTopicsRequest(topics=[topic]))
    assert answer.topics[0].error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_a_directory_keeps_its_levels_in_a_later_release(tmp_path: Path) -> None:
    for release in ("3.7", "3.9", None, "3.7"):
        with InProcessBroker(tmp_path, like=release) as broker:
            levels = {each.name: each.max_version_level for each in offered(broker).finalized_features}
            assert levels["metadata.version"] == 19, "as written by the first of them"


def test_a_directory_above_the_release_is_refused_with_the_reason(tmp_path: Path) -> None:
    with InProcessBroker(tmp_path):
        pass
    refusal = r"metadata\.version is at level 33, and Apache Kafka 3\.7 supports at most 19; .*be like a later release"
    with pytest.raises(StartError, match=refusal), InProcessBroker(tmp_path, like="3.7"):
        pass


@pytest.mark.parametrize(
    ("settings", "problem"),
    [({"transaction.version": "2"}, "does not have this feature"), ({"process.roles": "broker"}, "only a standalone node")],
)
def test_settings_that_contradict_the_release_are_refused(settings: dict[str, str], problem: str) -> None:
    more = {"node.id": "1", "controller.listener.names": "C", "controller.quorum.bootstrap.servers": "127.0.0.1:1"}
    with pytest.raises(SettingsError, match=problem), InProcessBroker(settings=settings | more, like="3.7"):
        pass


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--brokers", "3", "--like", "3.7"], "--like is for a standalone node"),
        (["--like", "1.0"], "known releases: 2.8"),
        (["--like", "4.5"], "known releases: 2.8.* 4.4"),
    ],
)
def test_serve_says_which_release_it_cannot_imitate(
    options: list[str], problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*options, "--data-dir", str(tmp_path / "data"), "--port", "0"]) == EXIT_USAGE
    assert re.search(problem, capsys.readouterr().err)
