"""Two real clients push their metrics by themselves (KIP-714), and the admin port returns them."""

from __future__ import annotations

import json
import subprocess
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from client_compat.kafka.jars import default_version
from client_compat.kafka.tools import Tools
from ottla.broker.admin.server import admin_port
from ottla.broker.core.clock import MovableClock
from ottla.broker.testing import InProcessBroker
from ottla.protocol.client import Client
from ottla.protocol.messages.k44_incremental_alter_configs import AlterableConfig, AlterConfigsResource, IncrementalAlterConfigsRequest
from tests.support.apache_kafka import jars_or_skip

CLIENT_METRICS = 16
TIMEOUT_S = 30.0


def names(pushed: dict[str, Any]) -> set[str]:
    """Return the names of the metrics in one push."""
    return {
        metric["name"]
        for resource in pushed["otlp"].get("resourceMetrics", [])
        for scope in resource["scopeMetrics"]
        for metric in scope["metrics"]
    }


def until(port: int, is_there: Callable[[dict[str, Any]], bool], meanwhile: Callable[[], object] = lambda: None) -> dict[str, Any]:
    """Return a client's push as soon as one satisfies the condition."""
    deadline = time.monotonic() + TIMEOUT_S
    clients: list[dict[str, Any]] = []
    while time.monotonic() < deadline:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/telemetry", timeout=20) as answer:
            clients = json.load(answer)["clients"]
        found = [pushed for pushed in clients if is_there(pushed)]
        if found:
            return found[0]
        meanwhile()
    raise AssertionError(f"not among {clients}")


def test_java_and_librdkafka_push_the_subscribed_metrics(tmp_path: Path) -> None:
    jars_or_skip()
    clock = MovableClock()
    with InProcessBroker(tmp_path / "data", {"client.telemetry.enable": "true"}, clock=clock) as running:
        serving = admin_port(running.broker, running.script, clock, 0, token="t", open_local=True)
        port = running.call_async(serving.__aenter__())
        changes = [AlterableConfig("interval.ms", 0, "100"), AlterableConfig("metrics", 0, "org.apache.kafka.producer.")]
        with Client("127.0.0.1", running.port) as client:
            client.call(IncrementalAlterConfigsRequest([AlterConfigsResource(CLIENT_METRICS, "producers", changes)]))
        command = Tools().command("kafka-console-producer", "--bootstrap-server", running.bootstrap, "--topic", "t")
        with subprocess.Popen(command, stdin=subprocess.PIPE, text=True) as java:
            assert java.stdin is not None
            java.stdin.write("a\n")
            java.stdin.flush()
            rdkafka = Producer({"bootstrap.servers": running.bootstrap, "client.id": "rdkafka"})
            rdkafka.produce("t", b"b")
            pushed = until(port, lambda pushed: pushed["client_id"] == "rdkafka" and bool(names(pushed)), lambda: rdkafka.poll(0.01))
            assert pushed["software_name"] == "confluent-kafka-python"
            assert "org.apache.kafka.producer.connection.creation.total" in names(pushed)
            pushed = until(port, lambda pushed: pushed["software_name"] == "apache-kafka-java" and bool(names(pushed)))
            assert (pushed["client_id"], pushed["software_version"]) == ("console-producer", default_version())
            assert "org.apache.kafka.producer.connection.creation.total" in names(pushed)
            assert (pushed["compression"], pushed["requested_metrics"]) == ("zstd", ["org.apache.kafka.producer."])
            java.stdin.close()
            assert java.wait(TIMEOUT_S) == 0
        until(port, lambda pushed: pushed["software_name"] == "apache-kafka-java" and pushed["terminating"])
        running.call_async(serving.__aexit__(None, None, None))
