"""The whole of the bench against this broker alone, in small: each load runs and gives the figures that its case declares."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest

from client_compat.bench.loads import pipeline, throughput, transactions
from client_compat.bench.model import OURS, Case, Figure, LoadFailed, Results, Site, Values
from client_compat.bench.peers.all import PEERS
from client_compat.bench.run import FAILURES, lent, measure


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    directory = tmp_path_factory.mktemp("bench")
    with lent(PEERS[OURS], directory / OURS) as broker:
        broker.start()
        yield Site(PEERS[OURS], broker, None, partial(lent, PEERS[OURS], directory / "fresh"))


def test_throughput_through_librdkafka(site: Site) -> None:
    values = throughput.through_librdkafka(site, record_bytes=10, partitions=2, records=1_000)
    assert values[throughput.PRODUCED] > 0
    assert values[throughput.CONSUMED] > 0
    assert set(values) == {throughput.PRODUCED, throughput.CONSUMED, throughput.PRODUCE_CPU, throughput.CONSUME_CPU}


def test_one_record_batches(site: Site) -> None:
    values = pipeline.one_record_batches(site, record_bytes=10, records=200, through_client=100)
    assert values[pipeline.REQUESTS] > 0
    assert values[pipeline.THROUGH_CLIENT] > 0


def test_transactions(site: Site) -> None:
    assert transactions.transactions(site, partitions=2, record_bytes=10, count=3, records_each=4)[transactions.COMMITS] > 0


def test_a_load_that_fails_is_a_result_with_its_reason(site: Site) -> None:
    def refuse(_site: Site) -> Values:
        raise LoadFailed("no such thing")

    results = Results(1, [OURS])
    case = Case("c", "s", (Figure("f", "u"),), refuse)
    measure(case, site, results)
    assert results.failures == {"c": {OURS: ["LoadFailed: no such thing"]}}
    assert results.of(case, case.figures[0], OURS) == [None]
    assert LoadFailed in FAILURES
