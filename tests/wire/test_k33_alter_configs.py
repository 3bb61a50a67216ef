from __future__ import annotations

import pytest

from ottla.protocol.client import Client
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k32_describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from ottla.protocol.messages.k33_alter_configs import AlterableConfig, AlterConfigsRequest, AlterConfigsResource
from tests.support.topic_calls import create

TOPIC = 2


def overrides(client: Client, topic: str) -> dict[str, str | None]:
    (result,) = client.call(DescribeConfigsRequest([DescribeConfigsResource(TOPIC, topic, None)])).results
    return {config.name: config.value for config in result.configs if config.config_source == 1}


@pytest.mark.parametrize("version", range(3))
def test_every_version_replaces_all_overrides(client: Client, version: int) -> None:
    create(client, "t", configs={"retention.ms": "5"})
    request = AlterConfigsRequest([AlterConfigsResource(TOPIC, "t", [AlterableConfig("flush.ms", "9")])])
    (response,) = client.call(request, version=version).responses
    assert (response.error_code, response.resource_type, response.resource_name) == (0, TOPIC, "t")
    assert overrides(client, "t") == {"flush.ms": "9"}


def test_validate_only_changes_nothing(client: Client) -> None:
    create(client, "t", configs={"retention.ms": "5"})
    resource = AlterConfigsResource(TOPIC, "t", [AlterableConfig("flush.ms", "9")])
    (response,) = client.call(AlterConfigsRequest([resource], validate_only=True)).responses
    assert response.error_code == 0
    assert overrides(client, "t") == {"retention.ms": "5"}


def test_a_resource_with_an_error_keeps_its_settings_and_others_change(client: Client) -> None:
    create(client, "bad", configs={"retention.ms": "5"})
    create(client, "good")
    resources = [AlterConfigsResource(TOPIC, name, [AlterableConfig("flush.ms", value)]) for name, value in [("bad", "x"), ("good", "9")]]
    bad, good = client.call(AlterConfigsRequest(resources)).responses
    assert (bad.error_code, good.error_code) == (ErrorCode.INVALID_CONFIG, 0)
    assert bad.error_message
    assert (overrides(client, "bad"), overrides(client, "good")) == ({"retention.ms": "5"}, {"flush.ms": "9"})
