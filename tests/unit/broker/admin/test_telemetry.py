from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest
from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData

from ottla.broker.admin.server import admin_port
from ottla.broker.core import limits
from ottla.broker.core.clock import MovableClock
from ottla.broker.testing import InProcessBroker
from ottla.protocol.client import Client
from ottla.protocol.messages.k71_get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from ottla.protocol.messages.k72_push_telemetry import PushTelemetryRequest
from ottla.protocol.records.compression import Codec, compress
from ottla.protocol.uuids import encode_uuid

ANN, BOB, EVE = b"ann of 16 bytes!", b"bob of 16 bytes!", b"eve of 16 bytes!"


def otlp(name: str, value: float) -> bytes:
    data = MetricsData()
    metric = data.resource_metrics.add().scope_metrics.add().metrics.add(name=name)
    metric.gauge.data_points.add(as_double=value)
    return data.SerializeToString()


@contextmanager
def admin(settings: Mapping[str, str]) -> Iterator[tuple[InProcessBroker, int]]:
    clock = MovableClock()
    with InProcessBroker(settings=settings, clock=clock) as running:
        serving = admin_port(running.broker, running.script, clock, 0, token="t", open_local=True)
        yield running, running.call_async(serving.__aenter__())
        running.call_async(serving.__aexit__(None, None, None))


def ask(port: int, path: str) -> Any:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=20) as answer:
        return json.load(answer)


def push(client: Client, instance_id: bytes, codec: Codec, data: bytes) -> int:
    subscription_id = client.call(GetTelemetrySubscriptionsRequest(instance_id)).subscription_id
    return int(client.call(PushTelemetryRequest(instance_id, subscription_id, False, codec, compress(codec, data))).error_code)


def test_last_pushed_metrics_of_clients_are_returned_newest_first(monkeypatch: pytest.MonkeyPatch) -> None:
    with admin({"client.telemetry.enable": "true"}) as (broker, port), Client("127.0.0.1", broker.port, client_id="app") as client:
        assert ask(port, "/telemetry") == {"instances": 0, "clients": []}
        assert push(client, ANN, Codec.LZ4, otlp("a.metric", 1.5)) == 0
        assert push(client, BOB, Codec.NONE, b"no OTLP") == 0
        assert push(client, EVE, Codec.GZIP, otlp("another", float("nan"))) == 0
        eve, bob, ann = ask(port, "/telemetry")["clients"]
        assert eve["otlp"]["resourceMetrics"][0]["scopeMetrics"][0]["metrics"][0]["gauge"]["dataPoints"] == [{"asDouble": "NaN"}]
        assert (bob["otlp"], bob["not_decoded"].partition(":")[0]) == (None, "is no MetricsData of OTLP")
        shown = {"client_instance_id": encode_uuid(ANN), "client_id": "app", "address": "127.0.0.1", "known": True, "compression": "lz4"}
        assert {key: ann[key] for key in shown} == shown
        assert ann["otlp"]["resourceMetrics"][0]["scopeMetrics"][0]["metrics"][0]["name"] == "a.metric"
        assert ask(port, f"/telemetry/{encode_uuid(ANN)}") == ann
        monkeypatch.setattr(limits, "TELEMETRY_RESPONSE_BYTES", eve["size_bytes"])
        eve, _, ann = ask(port, "/telemetry")["clients"]
        assert (eve["not_decoded"], ann["otlp"]) == (None, None)
        assert ann["not_decoded"] == f"left out because the response is full: request /telemetry/{encode_uuid(ANN)}"
        assert push(client, b"mat of 16 bytes!", Codec.ZSTD, b"\x0a\x00" * 100_001) == 0
        monkeypatch.setattr(limits, "TELEMETRY_RESPONSE_BYTES", limits.MIB)
        many, *_, ann = ask(port, "/telemetry")["clients"]
        assert (many["otlp"], many["not_decoded"]) == (None, "has more than 100000 messages and values")
        assert ann["not_decoded"].startswith("left out because the response is full")
        assert ask(port, f"/telemetry/{many['client_instance_id']}") == many
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=20) as answer:
            body = answer.read().decode()
        assert "kafka_server_client_metrics_instance_count 4.0" in body
        assert "kafka_server_client_metrics_plugin_export_total 4.0" in body
        with pytest.raises(urllib.error.HTTPError, match="404"):
            ask(port, f"/telemetry/{encode_uuid(bytes(16))}")


def test_telemetry_without_client_telemetry_enable_is_404_and_names_the_setting() -> None:
    with admin({}) as (_, port):
        with pytest.raises(urllib.error.HTTPError) as refused:
            ask(port, "/telemetry")
        assert refused.value.code == 404
        assert "client.telemetry.enable" in refused.value.read().decode()
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=20) as answer:
            assert "client_metrics" not in answer.read().decode()
