"""A controller-only node: its APIs, and its metadata over restarts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from ottla.broker.cluster.features import METADATA_VERSION
from ottla.broker.net.node_client import NodeClient
from ottla.broker.process import StartError
from ottla.broker.runtime.nodes.link import LinkBroken, Node
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k18_api_versions import ApiVersionsRequest
from ottla.protocol.messages.k19_create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.k43_elect_leaders import ElectLeadersRequest, TopicPartitions
from ottla.protocol.messages.k44_incremental_alter_configs import AlterableConfig as Change
from ottla.protocol.messages.k44_incremental_alter_configs import AlterConfigsResource as Resource
from ottla.protocol.messages.k44_incremental_alter_configs import IncrementalAlterConfigsRequest
from ottla.protocol.messages.k57_update_features import FeatureUpdateKey, UpdateFeaturesRequest
from ottla.protocol.messages.k58_envelope import EnvelopeRequest
from ottla.protocol.messages.k60_describe_cluster import DescribeClusterRequest
from ottla.protocol.principal import principal_bytes
from tests.support.coroutine_tests import played_by
from tests.support.owned_cluster import CONTROLLER, DIRECTORY, OwnedCluster, in_an_owned_cluster, run_owned


def alone(body: Callable[[OwnedCluster], Awaitable[None]]) -> None:
    """Run the test with a controller and no brokers."""
    in_an_owned_cluster(body, size=0)


@played_by(run_owned, 0, {"max.connections": "1"})
async def test_a_controller_listener_has_the_usual_limits(cluster: OwnedCluster) -> None:
    node = Node(CONTROLLER, "c3000", 9093)
    held = NodeClient(node, cluster.network, clock=cluster.clock, timers=cluster.timers, random=cluster.random, client_id="held")
    await cluster.done(held.call(ApiVersionsRequest("test", "1"), timeout_ms=10_000, version=None))
    with pytest.raises(LinkBroken, match="closed the connection"):
        await cluster.ask_controller(ApiVersionsRequest("test", "1"))
    held.close()


@played_by(alone)
async def test_a_new_controller_starts_with_the_formatted_features(cluster: OwnedCluster) -> None:
    image = cluster.controller_host.image
    assert image.features[METADATA_VERSION] == 33
    assert image.features["eligible.leader.replicas.version"] == 1
    assert image.configs[4, ""] == {"min.insync.replicas": "1"}


@played_by(alone)
async def test_metadata_survives_a_power_loss_in_a_new_epoch(cluster: OwnedCluster) -> None:
    answer = await cluster.ask_controller(IncrementalAlterConfigsRequest([Resource(4, "", [Change("log.retention.ms", 0, "1000")])]))
    assert answer.responses[0].error_code == ErrorCode.NONE
    configs, epoch = cluster.controller_host.image.configs, cluster.controller_host.running.role.voter.epoch
    cluster.controller_host.crash(power_loss=True)
    await cluster.done(cluster.controller_host.start())
    assert (cluster.controller_host.image.configs, cluster.controller_host.running.role.voter.epoch) == (configs, epoch + 1)
    assert configs[4, ""] == {"log.retention.ms": "1000", "min.insync.replicas": "1"}


@played_by(alone)
async def test_a_controller_answers_api_versions_and_describe_cluster(cluster: OwnedCluster) -> None:
    response = await cluster.ask_controller(ApiVersionsRequest("test", "1"))
    finalized = {feature.name: feature.max_version_level for feature in response.finalized_features}
    assert (finalized[METADATA_VERSION], finalized["kraft.version"]) == (33, 1)
    controllers = await cluster.ask_controller(DescribeClusterRequest(endpoint_type=2))
    assert (controllers.controller_id, controllers.endpoint_type) == (CONTROLLER, 2)
    assert [(at.broker_id, at.host, at.port) for at in controllers.brokers] == [(CONTROLLER, "c3000", 9093)]
    assert (await cluster.ask_controller(DescribeClusterRequest())).error_code == ErrorCode.MISMATCHED_ENDPOINT_TYPE
    assert (await cluster.ask_controller(DescribeClusterRequest(endpoint_type=3))).error_code == ErrorCode.UNSUPPORTED_ENDPOINT_TYPE


@pytest.mark.parametrize(
    ("request_data", "address", "error"),
    [
        (b"\0\x13\0\x07\0\0\0\1\0\1x\0", b"\1\2\3", ErrorCode.INVALID_REQUEST),  # no address
        (b"\0\x13\0\x63\0\0\0\1\0\1x\0", bytes(4), ErrorCode.UNSUPPORTED_VERSION),  # CreateTopics 99
        (b"\0\x3a\0\0\0\0\0\1\0\1x\0\1\0\1\0", bytes(4), ErrorCode.INVALID_REQUEST),  # another envelope
        (b"\0\x5e\0\1\0\0\0\1\0\1x\0\0\0\0\x09\0", bytes(4), ErrorCode.UNSUPPORTED_VERSION),  # UnregisterController 1
        (b"\0\x13", bytes(4), ErrorCode.UNSUPPORTED_VERSION),  # cut short
    ],
)
@played_by(alone)
async def test_an_envelope_with_a_disallowed_request_is_refused(
    cluster: OwnedCluster, request_data: bytes, address: bytes, error: ErrorCode
) -> None:
    answer = await cluster.ask_controller(EnvelopeRequest(request_data, principal_bytes("User", "ANONYMOUS"), address))
    assert (answer.error_code, answer.response_data) == (error, None)


@played_by(alone)
async def test_an_unformatted_directory_is_refused_and_not_changed(cluster: OwnedCluster) -> None:
    await cluster.done(cluster.controller_host.stop())
    files = cluster.controller_host.files
    files.remove(DIRECTORY / "meta.properties")
    before = sorted(entry.name for entry in files.scan(DIRECTORY))
    with pytest.raises(StartError, match="not formatted"):
        await cluster.done(cluster.controller_host.start())
    cluster.controller_host.node = None
    assert sorted(entry.name for entry in files.scan(DIRECTORY) if entry.name != ".lock") == [n for n in before if n != ".lock"]


@played_by(in_an_owned_cluster, size=1)
async def test_a_new_topic_is_described_with_cluster_wide_defaults(cluster: OwnedCluster) -> None:
    async def retention(topic: str) -> str:
        (made,) = (await cluster.ask_controller(CreateTopicsRequest([CreatableTopic(topic, 1, 1)]))).topics
        assert made.error_code == ErrorCode.NONE
        return next(config.value for config in made.configs if config.name == "retention.ms")

    assert await retention("before") == "604800000"
    await cluster.ask_controller(IncrementalAlterConfigsRequest([Resource(4, "", [Change("log.retention.ms", 0, " 1000")])]))
    assert await retention("after") == " 1000", "as it was written"
    await cluster.done(cluster.controller_host.stop())
    await cluster.done(cluster.controller_host.start())
    assert await retention("after-a-start") == " 1000"


@played_by(alone)
async def test_a_clean_stop_leaves_the_marker(cluster: OwnedCluster) -> None:
    await cluster.done(cluster.controller_host.stop())
    assert cluster.controller_host.files.exists(DIRECTORY / ".kafka_cleanshutdown")


@played_by(alone)
async def test_a_top_level_error_is_returned_for_each_partition(cluster: OwnedCluster) -> None:
    elections = await cluster.ask_controller(ElectLeadersRequest(7, [TopicPartitions("t", [0, 1])]))
    assert elections.error_code == ErrorCode.INVALID_REQUEST
    (topic,) = elections.replica_election_results
    assert [(each.partition_id, each.error_code) for each in topic.partition_result] == [
        (0, ErrorCode.INVALID_REQUEST),
        (1, ErrorCode.INVALID_REQUEST),
    ]


@played_by(alone)
async def test_unsupported_levels_are_refused_with_kafkas_message(cluster: OwnedCluster) -> None:
    answer = await cluster.ask_controller(UpdateFeaturesRequest(feature_updates=[FeatureUpdateKey("metadata.version", 99)]))
    assert answer.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert answer.error_message.startswith("The update failed for all features since the following feature had an error: Invalid")


@played_by(alone)
async def test_allow_downgrade_of_version_0_does_not_downgrade(cluster: OwnedCluster) -> None:
    lower = FeatureUpdateKey("transaction.version", 1, allow_downgrade=True)
    answer = await cluster.ask_controller(UpdateFeaturesRequest(feature_updates=[lower]), 0)
    assert answer.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert cluster.controller_host.image.features["transaction.version"] == 2
