from __future__ import annotations

import pytest

from ottla.protocol.api_keys import ApiKey
from ottla.protocol.client import Client
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k18_api_versions import ApiVersionsRequest
from ottla.protocol.messages.k44_incremental_alter_configs import AlterableConfig, AlterConfigsResource, IncrementalAlterConfigsRequest
from ottla.protocol.messages.k71_get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from tests.support.running_broker import RunningBroker

ON = pytest.mark.broker_settings({"client.telemetry.enable": "true", "telemetry.max.bytes": "5000"})
ANN = b"ann of 16 bytes!"
TELEMETRY = {ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY}


def subscribe(client: Client, name: str, **configs: str) -> None:
    changes = [AlterableConfig(key.replace("_", "."), 0, value) for key, value in configs.items()]
    response = client.call(IncrementalAlterConfigsRequest([AlterConfigsResource(16, name, changes)]))
    assert [one.error_code for one in response.responses] == [ErrorCode.NONE]


def listed(client: Client) -> set[int]:
    return {api.api_key for api in client.call(ApiVersionsRequest("test", "1.0"), version=4).api_keys}


@ON
def test_a_client_gets_the_metrics_of_its_matching_subscriptions(broker: RunningBroker, client: Client) -> None:
    subscribe(client, "all", metrics="a,b", interval_ms="2000")
    subscribe(client, "mine", metrics="c", interval_ms="1000", match="client_software_name=test,client_source_address=127\\.0\\.0\\.1")
    subscribe(client, "others", metrics="*", match="client_id=nobody")
    assert listed(client) >= TELEMETRY
    response = client.call(GetTelemetrySubscriptionsRequest())
    assert response.client_instance_id != bytes(16)
    assert (response.error_code, response.requested_metrics, response.push_interval_ms) == (ErrorCode.NONE, ["a", "b", "c"], 1000)
    assert (response.accepted_compression_types, response.telemetry_max_bytes, response.delta_temporality) == ([4, 3, 1, 2], 5000, True)
    again = client.call(GetTelemetrySubscriptionsRequest(response.client_instance_id))
    assert (again.error_code, again.requested_metrics) == (ErrorCode.THROTTLING_QUOTA_EXCEEDED, [])
    with broker.client() as other:
        assert other.call(GetTelemetrySubscriptionsRequest(ANN)).requested_metrics == ["a", "b"], "whose software has another name"


@ON
def test_subscriptions_survive_a_restart(broker: RunningBroker, client: Client) -> None:
    subscribe(client, "kept", metrics="a", interval_ms="700")
    response = client.call(GetTelemetrySubscriptionsRequest(ANN))
    broker.restart()
    with broker.client() as after:
        assert after.call(GetTelemetrySubscriptionsRequest(ANN)) == response


def test_without_client_telemetry_enable_the_api_is_neither_listed_nor_served(broker: RunningBroker, client: Client) -> None:
    assert not listed(client) & TELEMETRY
    client.send(GetTelemetrySubscriptionsRequest(ANN), 0)
    with pytest.raises(ConnectionError):
        client.read_frame()
    assert broker.broker.services.telemetry is None
