"""The gateway's benchmark with small loads, in front of an Ottla broker."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from client_compat.bench import gateway
from client_compat.bench.loads import latency, throughput
from client_compat.bench.model import Results
from client_compat.support.brokers import HOST
from ottla.protocol.client import Client
from ottla.protocol.messages.k03_metadata import MetadataRequest

SCALE = 100


def test_every_gateway_case_has_figures_with_and_without_it_and_added_latency_is_the_difference(tmp_path: Path) -> None:
    with gateway.sites("ottla", tmp_path, with_toxiproxy=False) as found:
        results, cases = gateway.measure(found, 1, SCALE, lambda _: None)
    assert results.failures == {}
    assert results.peers == [gateway.NONE, gateway.GATEWAY]
    assert all(results.median(case, figure, gateway.GATEWAY) is not None for case in cases for figure in case.figures)
    paced = results.values[cases[0].name]
    ((direct,), (through,)) = (paced[latency.P50][name] for name in results.peers)
    assert direct is not None
    assert through is not None
    assert paced[gateway.ADDED[latency.P50]][gateway.GATEWAY] == [through - direct]


def test_broker_advertises_toxiproxys_address_only_on_its_second_listener(tmp_path: Path) -> None:
    broker, behind = gateway.broker_with("ottla", 12_345, tmp_path)
    with broker:
        named = []
        for port in (broker.port, behind):
            with Client(HOST, port) as client:
                named += [each.port for each in client.call(MetadataRequest([])).brokers]
    assert named == [broker.port, 12_345]


def test_toxiproxy_is_configured_with_one_proxy_before_the_broker(tmp_path: Path) -> None:
    process = gateway.toxiproxy(1_234, 5_678, tmp_path)
    (proxy,) = json.loads(Path(process.argv[process.argv.index("-config") + 1]).read_text())
    assert (proxy["listen"], proxy["upstream"], process.port) == (f"{HOST}:5678", f"{HOST}:1234", 5_678)


@pytest.mark.parametrize(
    ("through", "missed"),
    [
        ((1.1, 80.0, 40.0), []),
        ((1.2, 80.0, 40.0), ["added p50"]),
        ((1.1, 79.0, 40.0), ["100 B, produce", "100 B, consume", "1 KB, produce", "1 KB, consume"]),
        ((1.1, 80.0, 41.0), ["memory"]),
    ],
)
def test_missed_goals_are_named(through: tuple[float, float, float], missed: list[str]) -> None:
    results, cases = Results(1, [gateway.NONE, gateway.GATEWAY, gateway.TOXIPROXY]), gateway.cases(1)
    latencies, *throughputs, idle = cases
    p50, rate, memory = through
    for peer, values in {
        gateway.NONE: (1.0, 100.0, 0.0),
        gateway.GATEWAY: (p50, rate, memory),
        gateway.TOXIPROXY: (1.1, 100.0, 20.0),
    }.items():
        results.add(latencies, peer, {latency.P50: values[0], latency.P99: values[0]})
        for case in throughputs:
            results.add(case, peer, {throughput.PRODUCED: values[1], throughput.CONSUMED: values[1]})
        results.add(idle, peer, {gateway.MEMORY: values[2]})
    gateway.subtract(results, latencies)
    assert [text.partition(":")[0] for text in gateway.missed(results, cases)] == missed
