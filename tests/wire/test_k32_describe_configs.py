from __future__ import annotations

import pytest

from ottla.protocol.client import Client
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k32_describe_configs import DescribeConfigsRequest, DescribeConfigsResource, DescribeConfigsResult
from tests.support.topic_calls import create

TOPIC, BROKER, LOGGER = 2, 4, 8


def ask(
    client: Client, resource: DescribeConfigsResource, version: int = 4, *, synonyms: bool = False, docs: bool = False
) -> DescribeConfigsResult:
    (result,) = client.call(DescribeConfigsRequest([resource], synonyms, docs), version=version).results
    return result  # type: ignore[no-any-return] # Client.call is typed by the request class


@pytest.mark.parametrize("version", range(1, 5))
def test_every_version_returns_value_and_source(client: Client, version: int) -> None:
    create(client, "t", configs={"retention.ms": "5"})
    result = ask(client, DescribeConfigsResource(TOPIC, "t", ["retention.ms"]), version)
    (config,) = result.configs
    assert (result.error_code, config.name, config.value, config.config_source, config.read_only) == (0, "retention.ms", "5", 1, False)
    assert config.config_type == (5 if version >= 3 else 0)
    assert config.synonyms == []
    assert not config.documentation


def test_synonyms_and_documentation_are_returned_on_request(client: Client) -> None:
    create(client, "t", configs={"max.message.bytes": "5000"})
    (config,) = ask(client, DescribeConfigsResource(TOPIC, "t", ["max.message.bytes"]), synonyms=True, docs=True).configs
    assert [(synonym.name, synonym.value, synonym.source) for synonym in config.synonyms] == [
        ("max.message.bytes", "5000", 1),
        ("message.max.bytes", "1048588", 5),
    ]
    assert config.documentation


def test_a_loggers_documentation_is_empty_unrequested_too(client: Client) -> None:
    (logger,) = ask(client, DescribeConfigsResource(LOGGER, "1", ["root"])).configs
    assert logger.documentation == ""


def test_this_brokers_settings_are_described(client: Client) -> None:
    configs = {config.name: config for config in ask(client, DescribeConfigsResource(BROKER, "1", None)).configs}
    assert (configs["offsets.topic.num.partitions"].value, configs["offsets.topic.num.partitions"].config_source) == ("4", 4)
    assert configs["num.partitions"].read_only


@pytest.mark.parametrize(
    ("kind", "name", "code"), [(TOPIC, "no", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), (BROKER, "2", ErrorCode.INVALID_REQUEST)]
)
def test_an_unknown_resource_has_an_error_and_no_configs(client: Client, kind: int, name: str, code: ErrorCode) -> None:
    result = ask(client, DescribeConfigsResource(kind, name, None))
    assert (result.error_code, result.configs, result.resource_type, result.resource_name) == (code, [], kind, name)
    assert result.error_message is not None


@pytest.mark.parametrize("place", [0, 1])
def test_an_unknown_type_rejects_the_whole_request(client: Client, place: int) -> None:
    create(client, "t")
    resources = [DescribeConfigsResource(TOPIC, "t", None)]
    resources.insert(place, DescribeConfigsResource(99, "x", None))
    results = client.call(DescribeConfigsRequest(resources)).results
    assert [(each.resource_type, each.error_code, each.configs) for each in results] == [
        (each.resource_type, ErrorCode.INVALID_REQUEST, []) for each in resources
    ]
