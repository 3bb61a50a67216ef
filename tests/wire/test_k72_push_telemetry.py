from __future__ import annotations

import pytest

from ottla.protocol.client import Client
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k71_get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from ottla.protocol.messages.k72_push_telemetry import PushTelemetryRequest
from ottla.protocol.records.compression import Codec, compress
from tests.support.running_broker import RunningBroker

ANN = b"ann of 16 bytes!"


@pytest.mark.broker_settings({"client.telemetry.enable": "true", "telemetry.max.bytes": "5000"})
def test_a_pushed_payload_outlives_the_instance_which_is_removed_with_its_connection(broker: RunningBroker, client: Client) -> None:
    subscription_id = client.call(GetTelemetrySubscriptionsRequest(ANN)).subscription_id
    packed = compress(Codec.ZSTD, b"otlp")
    assert client.call(PushTelemetryRequest(ANN, subscription_id, False, Codec.ZSTD, packed)).error_code == ErrorCode.NONE
    assert client.call(PushTelemetryRequest(ANN, subscription_id)).error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    too_much = PushTelemetryRequest(ANN, subscription_id, True, 0, bytes(5_001))
    assert client.call(too_much).error_code == ErrorCode.TELEMETRY_TOO_LARGE
    telemetry = broker.broker.services.telemetry
    assert telemetry is not None
    (kept,) = telemetry.payloads.newest_first()
    assert (kept.data, kept.pusher.client_id, kept.pusher.address, kept.terminating) == (packed, "test", "127.0.0.1", False)
    assert ANN in telemetry
    client.close()
    with broker.client() as other:
        answers = (other.call(GetTelemetrySubscriptionsRequest(ANN)).error_code for _ in range(10_000))
        assert next((code for code in answers if code != ErrorCode.THROTTLING_QUOTA_EXCEEDED), None) == ErrorCode.NONE
    assert len(telemetry.payloads) == 1
