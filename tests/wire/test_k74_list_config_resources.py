from __future__ import annotations

import pytest

from ottla.protocol.client import Client
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k44_incremental_alter_configs import AlterableConfig, AlterConfigsResource, IncrementalAlterConfigsRequest
from ottla.protocol.messages.k74_list_config_resources import ListConfigResourcesRequest
from tests.support.topic_calls import create

TOPIC, BROKER, LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32


def listed(client: Client, *kinds: int, version: int = 1) -> list[tuple[str, int]]:
    response = client.call(ListConfigResourcesRequest(list(kinds)), version=version)
    assert response.error_code == 0
    return [(one.resource_name, one.resource_type) for one in response.config_resources]


def test_an_empty_list_of_types_requests_all(client: Client) -> None:
    create(client, "t")
    assert listed(client) == [("1", LOGGER), ("1", BROKER), ("t", TOPIC)]


def test_a_group_is_listed_as_long_as_it_has_settings(client: Client) -> None:
    for operation, names in ((0, [("g", GROUP)]), (1, [])):
        change = AlterableConfig("consumer.session.timeout.ms", operation, "50000" if operation == 0 else None)
        client.call(IncrementalAlterConfigsRequest([AlterConfigsResource(GROUP, "g", [change])]))
        assert listed(client, GROUP) == names


def test_the_oldest_version_lists_client_metrics_only(client: Client) -> None:
    create(client, "t")
    assert listed(client, version=0) == []


@pytest.mark.parametrize("kind", [0, 1, 77, -1])
def test_a_type_without_settings_is_rejected(client: Client, kind: int) -> None:
    assert client.call(ListConfigResourcesRequest([TOPIC, kind])).error_code == ErrorCode.UNSUPPORTED_VERSION
