from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest

from ottla.broker.cluster.image import ResourceType
from ottla.broker.configs.config_op import OpType
from ottla.broker.core.acl import STANDARD_AUTHORIZER
from ottla.protocol.codec import Request
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages import k33_alter_configs as alter
from ottla.protocol.messages import k44_incremental_alter_configs as incremental
from ottla.protocol.messages.alter_configs_resource_response import AlterConfigsResourceResponse
from tests.support.cluster_members import ClusterBrokerInMemory, forwarded_request, in_envelope
from tests.support.coroutine_tests import played_by
from tests.support.owned_cluster import CONTROLLER, OwnedCluster, run_owned

TOPIC, BROKER, LOGGER = ResourceType.TOPIC, ResourceType.BROKER, ResourceType.BROKER_LOGGER
LOGGER_NAME = "kafka.log.LogManager"
OWN_LOGGER = logging.getLogger("ottla.broker.storage.log_dir")


def change(kind: int, name: str, key: str, value: str | None) -> incremental.AlterConfigsResource:
    return incremental.AlterConfigsResource(kind, name, [incremental.AlterableConfig(key, OpType.SET, value)])


def agrees(request: Request) -> Any:
    """Respond like a controller that rejects the changes of topics whose names begin with "no", and accepts all others."""
    inner = forwarded_request(request)
    messages = incremental if inner.header.api_key == incremental.IncrementalAlterConfigsRequest.API_KEY else alter
    answers = [
        AlterConfigsResourceResponse(
            ErrorCode.POLICY_VIOLATION if each.resource_name.startswith("no") else 0,
            "not that one" if each.resource_name.startswith("no") else None,
            each.resource_type,
            each.resource_name,
        )
        for each in inner.body.resources
    ]
    response = incremental.IncrementalAlterConfigsResponse if messages is incremental else alter.AlterConfigsResponse
    return in_envelope(inner, response(responses=answers))


@pytest.fixture
async def cluster() -> AsyncIterator[ClusterBrokerInMemory]:
    cluster = ClusterBrokerInMemory()
    await cluster.begin(agrees)
    yield cluster
    await cluster.end()


def errors_of(response: Any) -> list[tuple[str, int]]:
    return [(each.resource_name, each.error_code) for each in response.responses]


async def test_each_resource_is_decided_by_its_node_and_answered_in_its_position(cluster: ClusterBrokerInMemory) -> None:
    own = str(cluster.broker.settings.node_id)
    resources = [
        change(TOPIC, "t", "retention.ms", "5"),
        change(LOGGER, own, LOGGER_NAME, "ERROR"),
        change(TOPIC, "no", "retention.ms", "5"),
        change(BROKER, "7", "max.connections", "5"),
        change(BROKER, own, "max.connections", "5"),
        change(BROKER, own + "0", "max.connections", "5"),
        change(BROKER, "", "num.partitions", "5"),
        change(1, "x", "y", "z"),
        change(TOPIC, "null", "retention.ms", None),
    ]
    response = await cluster.member.ask(incremental.IncrementalAlterConfigsRequest(resources), 1)
    refused = ErrorCode.INVALID_REQUEST
    assert errors_of(response) == [
        ("t", 0),
        (own, 0),
        ("no", ErrorCode.POLICY_VIOLATION),
        ("7", refused),
        (own, 0),
        (own + "0", refused),
        ("", refused),
        ("x", refused),
        ("null", refused),
    ]
    assert response.responses[2].error_message == "not that one"
    (envelope,) = cluster.controller.requests
    assert [(each.resource_type, each.resource_name) for each in forwarded_request(envelope).body.resources] == [
        (TOPIC, "t"),
        (TOPIC, "no"),
        (BROKER, own),
    ]
    assert OWN_LOGGER.level == logging.ERROR


async def test_a_request_with_only_loggers_is_not_forwarded(cluster: ClusterBrokerInMemory) -> None:
    own = str(cluster.broker.settings.node_id)
    request = incremental.IncrementalAlterConfigsRequest([change(LOGGER, own, LOGGER_NAME, "ERROR")], validate_only=True)
    assert errors_of(await cluster.member.ask(request, 1)) == [(own, 0)]
    assert cluster.controller.requests == []
    assert OWN_LOGGER.level != logging.ERROR


async def test_a_resource_named_twice_is_rejected_without_the_controller(cluster: ClusterBrokerInMemory) -> None:
    twice = [change(TOPIC, "t", "retention.ms", "5"), change(TOPIC, "u", "retention.ms", "5"), change(TOPIC, "t", "retention.ms", "6")]
    response = await cluster.member.ask(incremental.IncrementalAlterConfigsRequest(twice), 1)
    assert errors_of(response) == [("t", ErrorCode.INVALID_REQUEST), ("u", 0), ("t", ErrorCode.INVALID_REQUEST)]
    assert [each.resource_name for each in forwarded_request(cluster.controller.requests[0]).body.resources] == ["u"]


async def test_alter_configs_is_split_and_rejects_loggers(cluster: ClusterBrokerInMemory) -> None:
    own = str(cluster.broker.settings.node_id)
    resources = [
        alter.AlterConfigsResource(TOPIC, "t", [alter.AlterableConfig("retention.ms", "5")]),
        alter.AlterConfigsResource(LOGGER, own, [alter.AlterableConfig(LOGGER_NAME, "ERROR")]),
    ]
    response = await cluster.member.ask(alter.AlterConfigsRequest(resources), 2)
    assert errors_of(response) == [("t", 0), (own, ErrorCode.INVALID_REQUEST)]
    assert forwarded_request(cluster.controller.requests[0]).body.resources == resources[:1]


async def test_a_resource_that_the_controller_does_not_answer_is_an_unknown_server_error(cluster: ClusterBrokerInMemory) -> None:
    cluster.controller.answer = lambda request: in_envelope(forwarded_request(request), incremental.IncrementalAlterConfigsResponse())
    response = await cluster.member.ask(incremental.IncrementalAlterConfigsRequest([change(TOPIC, "t", "retention.ms", "5")]), 1)
    assert errors_of(response) == [("t", ErrorCode.UNKNOWN_SERVER_ERROR)]


def at_the_controller(super_users: str, *changes: tuple[incremental.AlterConfigsResource, tuple[ErrorCode, str | None]]) -> dict[str, str]:
    """Send each change to the controller by itself, compare its response, and return the settings of all brokers."""
    found: dict[str, str] = {}

    async def body(cluster: OwnedCluster) -> None:
        for resource, expected in changes:
            answer = await cluster.ask_controller(incremental.IncrementalAlterConfigsRequest([resource]))
            assert [(each.error_code, each.error_message) for each in answer.responses] == [expected], resource
        found.update(cluster.controller_host.image.configs[BROKER, ""])

    guarded = {"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": super_users}
    run_owned(body, 0, guarded)
    return found


DOUBLED = incremental.AlterConfigsResource(
    BROKER, "", [incremental.AlterableConfig("log.retention.ms", OpType.SET, value) for value in ("5", "6")]
)
NULL = change(BROKER, "", "log.retention.bytes", None)
OF_A_NEW_CLUSTER = {"min.insync.replicas": "1"}
AGREED = (ErrorCode.NONE, None)
DENIED = (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization failed.")


def test_a_controller_authorizes_a_duplicate_key_and_a_null_value_like_any_change() -> None:
    unknown = (ErrorCode.UNSUPPORTED_VERSION, "Unknown resource type 99.")  # which Kafka returns before it authorizes
    level = change(LOGGER, str(CONTROLLER), LOGGER_NAME, "ERROR")
    denied = (DOUBLED, DENIED), (NULL, DENIED), (level, DENIED)
    assert at_the_controller("", *denied, (change(99, "x", "y", None), unknown)) == OF_A_NEW_CLUSTER
    assert OWN_LOGGER.level != logging.ERROR


def test_a_controller_applies_the_last_duplicate_key_and_deletes_a_null_value() -> None:
    first = change(BROKER, "", "log.retention.bytes", "7")
    configs = at_the_controller("User:ANONYMOUS", (first, AGREED), (DOUBLED, AGREED), (NULL, AGREED))
    assert configs == {**OF_A_NEW_CLUSTER, "log.retention.ms": "6"}


@played_by(run_owned, 0)
async def test_a_controller_answers_a_resource_that_is_named_twice_once(cluster: OwnedCluster) -> None:
    twice = [change(BROKER, "", "log.retention.ms", value) for value in ("5", "6")]
    answer = await cluster.ask_controller(incremental.IncrementalAlterConfigsRequest(twice))
    assert errors_of(answer) == [("", ErrorCode.INVALID_REQUEST)]


def test_a_controller_changes_the_levels_of_its_own_loggers() -> None:
    other = (ErrorCode.INVALID_REQUEST, f"Unexpected node id. Expected {CONTROLLER}, but received 1")
    levels = (change(LOGGER, "1", LOGGER_NAME, "ERROR"), other), (change(LOGGER, str(CONTROLLER), LOGGER_NAME, "ERROR"), AGREED)
    before = OWN_LOGGER.level
    try:
        at_the_controller("User:ANONYMOUS", *levels)
        assert OWN_LOGGER.level == logging.ERROR
    finally:
        OWN_LOGGER.setLevel(before)
