"""In a cluster a broker settles what is its own of a change of settings, and the controller the rest."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest

from ottla.broker.cluster.image import ResourceType
from ottla.broker.configs.config_op import OpType
from ottla.protocol.codec import Request
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages import k33_alter_configs as alter
from ottla.protocol.messages import k44_incremental_alter_configs as incremental
from tests.support.cluster_members import MemberInMemory, enveloped, inside

TOPIC, BROKER, LOGGER = ResourceType.TOPIC, ResourceType.BROKER, ResourceType.BROKER_LOGGER
LOGGER_NAME = "kafka.log.LogManager"
OWN_LOGGER = logging.getLogger("ottla.broker.storage.log_dir")


def change(kind: int, name: str, key: str, value: str | None) -> incremental.AlterConfigsResource:
    return incremental.AlterConfigsResource(kind, name, [incremental.AlterableConfig(key, OpType.SET, value)])


def agrees(request: Request) -> Any:
    """A controller that lets everything through but topics whose names begin with "no"."""
    inner = inside(request)
    messages = incremental if inner.header.api_key == incremental.IncrementalAlterConfigsRequest.API_KEY else alter
    answers = [
        messages.AlterConfigsResourceResponse(
            ErrorCode.POLICY_VIOLATION if each.resource_name.startswith("no") else 0,
            "not that one" if each.resource_name.startswith("no") else None,
            each.resource_type,
            each.resource_name,
        )
        for each in inner.body.resources
    ]
    response = incremental.IncrementalAlterConfigsResponse if messages is incremental else alter.AlterConfigsResponse
    return enveloped(inner, response(responses=answers))


@pytest.fixture
async def cluster() -> AsyncIterator[MemberInMemory]:
    cluster = MemberInMemory()
    await cluster.begin(agrees)
    yield cluster
    await cluster.end()


def told(response: Any) -> list[tuple[str, int]]:
    return [(each.resource_name, each.error_code) for each in response.responses]


async def test_each_resource_is_settled_where_it_belongs_and_answered_in_its_place(cluster: MemberInMemory) -> None:
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
    assert told(response) == [
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
    (asked,) = cluster.controller.asked
    assert [(each.resource_type, each.resource_name) for each in inside(asked).body.resources] == [
        (TOPIC, "t"),
        (TOPIC, "no"),
        (BROKER, own),
    ]
    assert OWN_LOGGER.level == logging.ERROR


async def test_a_request_about_loggers_alone_asks_no_controller(cluster: MemberInMemory) -> None:
    own = str(cluster.broker.settings.node_id)
    request = incremental.IncrementalAlterConfigsRequest([change(LOGGER, own, LOGGER_NAME, "ERROR")], validate_only=True)
    assert told(await cluster.member.ask(request, 1)) == [(own, 0)]
    assert cluster.controller.asked == []
    assert OWN_LOGGER.level != logging.ERROR


async def test_a_resource_named_twice_is_refused_before_the_controller_hears_of_it(cluster: MemberInMemory) -> None:
    twice = [change(TOPIC, "t", "retention.ms", "5"), change(TOPIC, "u", "retention.ms", "5"), change(TOPIC, "t", "retention.ms", "6")]
    response = await cluster.member.ask(incremental.IncrementalAlterConfigsRequest(twice), 1)
    assert told(response) == [("t", ErrorCode.INVALID_REQUEST), ("u", 0), ("t", ErrorCode.INVALID_REQUEST)]
    assert [each.resource_name for each in inside(cluster.controller.asked[0]).body.resources] == ["u"]


async def test_alter_configs_is_split_as_well_and_knows_no_loggers(cluster: MemberInMemory) -> None:
    own = str(cluster.broker.settings.node_id)
    resources = [
        alter.AlterConfigsResource(TOPIC, "t", [alter.AlterableConfig("retention.ms", "5")]),
        alter.AlterConfigsResource(LOGGER, own, [alter.AlterableConfig(LOGGER_NAME, "ERROR")]),
    ]
    response = await cluster.member.ask(alter.AlterConfigsRequest(resources), 2)
    assert told(response) == [("t", 0), (own, ErrorCode.INVALID_REQUEST)]
    assert inside(cluster.controller.asked[0]).body.resources == resources[:1]


async def test_what_the_controller_says_nothing_of_is_an_unknown_server_error(cluster: MemberInMemory) -> None:
    cluster.controller.answer = lambda request: enveloped(inside(request), incremental.IncrementalAlterConfigsResponse())
    response = await cluster.member.ask(incremental.IncrementalAlterConfigsRequest([change(TOPIC, "t", "retention.ms", "5")]), 1)
    assert told(response) == [("t", ErrorCode.UNKNOWN_SERVER_ERROR)]
