"""The whole benchmark with small loads against Ottla alone: each load runs and returns the figures that its case declares."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from client_compat.bench.cases import CASES
from client_compat.bench.loads import connections, latency, life, many, pipeline, rewinds, throughput, transactions
from client_compat.bench.model import OURS, Ability, Benchmark, Figure, LoadFailed, Results, Site, Values
from client_compat.bench.peers.all import PEERS
from client_compat.bench.run import FAILURES, bench, lent, measure
from client_compat.support.brokers import BrokerFailed, BrokerProcess


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    directory = tmp_path_factory.mktemp("bench")
    with lent(PEERS[OURS].make, directory / OURS) as broker:
        broker.start()
        yield Site(PEERS[OURS], broker, None, lambda name: lent(PEERS[OURS].make, directory / name))


def test_throughput_and_cpu_are_measured_through_librdkafka(site: Site) -> None:
    values = throughput.through_librdkafka(site, record_bytes=10, partitions=2, records=1_000)
    assert values[throughput.PRODUCED] > 0
    assert values[throughput.CONSUMED] > 0
    assert set(values) == {throughput.PRODUCED, throughput.CONSUMED, throughput.PRODUCE_CPU, throughput.CONSUME_CPU}


def test_throughput_is_measured_through_tls(tmp_path: Path) -> None:
    peer = PEERS[OURS]
    assert peer.make_secured is not None
    with lent(peer.make_secured, tmp_path / OURS) as broker:
        broker.start()
        site = Site(peer, broker, None, lambda name: lent(peer.make, tmp_path / name))
        assert throughput.through_tls(site, record_bytes=10, partitions=1, records=1_000)[throughput.CONSUMED] > 0


def test_one_record_batches_are_measured(site: Site) -> None:
    values = pipeline.one_record_batches(site, record_bytes=10, records=200, through_client=100)
    assert values[pipeline.REQUESTS] > 0
    assert values[pipeline.THROUGH_CLIENT] > 0


def test_a_rewind_takes_less_time_than_filling_a_new_broker(site: Site) -> None:
    values = rewinds.by_size(site, topics=2, megabytes=3, rewinds=1)
    assert 0 < values[rewinds.REWOUND] < values[rewinds.SEEDED]
    assert set(values) == {rewinds.SEEDED, rewinds.MARKED, rewinds.REWOUND, rewinds.FORKED, rewinds.COPIED}


def test_transactions_are_measured(site: Site) -> None:
    assert transactions.transactions(site, partitions=2, record_bytes=10, count=3, records_each=4)[transactions.COMMITS] > 0


def test_latency_is_measured_with_one_request_in_flight_and_at_a_fixed_rate(site: Site) -> None:
    alone, paced = latency.one_in_flight(site, requests=50), latency.paced(site, rate=500, seconds=1)
    for values in (alone, paced):
        assert 0 < values[latency.P50] <= values[latency.P99] <= values[latency.P999]


def test_end_to_end_latency_sees_every_record(site: Site) -> None:
    values = latency.end_to_end(site, rate=200, seconds=1)
    assert 0 < values[latency.P50] <= values[latency.P999]


def test_idle_and_busy_connections_are_measured(site: Site) -> None:
    assert connections.idle(site, count=20, requests=10)[connections.OPENED] > 0
    assert connections.busy(site, count=8, requests_each=5)[connections.RATE] > 0


def test_first_ack_memory_and_restart_with_partitions_are_measured(site: Site) -> None:
    values = life.first_steps(site, records=500)
    assert values[life.FIRST_ACK] > 0
    assert values[life.LOADED_MEMORY] > 1
    values = life.partitions(site, topics=2, partitions_each=3)
    assert values[life.CREATED] > 0
    assert values[life.RESTARTED] > 0


def test_request_costs_beside_idle_state_of_every_kind_are_measured(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(many, "REST_S", 0.05)
    monkeypatch.setattr(many, "SETTLE_S", 0.0)
    stored = {many.partitions: 1.0, many.producer_ids: 1.0}
    held = {many.connections: 1.0, many.groups: 0.02}  # who makes a group waits for its first rebalance
    values = many.beside(site, idle=many.Idle(stored, held), count=100, rounds=1, cycles=1)
    (case,) = [case for case in CASES if case.name == "many: all of these at once"]
    assert set(values) == {figure.name for figure in case.figures}
    assert all(values[many.rest_cpu(each)] >= 0 for each in many.PERCENTS)
    assert values[many.MEMORY] > 0


def test_failed_load_is_a_result_with_its_reason(site: Site) -> None:
    def refuse(_site: Site) -> Values:
        raise LoadFailed("no such thing")

    results = Results(1, [OURS])
    case = Benchmark("c", "s", (Figure("f", "u"),), refuse)
    measure(case, site, results)
    assert results.failures == {"c": {OURS: ["LoadFailed: no such thing"]}}
    assert results.of(case, case.figures[0], OURS) == [None]
    assert LoadFailed in FAILURES


def test_a_cluster_that_does_not_start_is_a_result_with_its_reason(tmp_path: Path) -> None:
    def refuse(_directory: Path) -> BrokerProcess:
        raise BrokerFailed("no clusters here")

    case = Benchmark("c", "s", (Figure("f", "u"),), lambda _site: {}, frozenset({Ability.CLUSTER}))
    results = bench([case], 2, [replace(PEERS[OURS], make_cluster=refuse)], tmp_path, java=False, note=lambda _text: None)
    assert results.failures == {"c": {OURS: ["no clusters here"] * 2}}
