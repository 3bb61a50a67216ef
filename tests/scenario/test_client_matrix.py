"""The short form of `make compat`: every client of every language runs a few scenarios on this broker."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from client_compat.matrix.brokers import GATEWAY, KAFKA, KINDS, OLDER_RELEASES, OURS, running
from client_compat.matrix.clients import CLIENTS, JAVA
from client_compat.matrix.outcomes import Outcome, failures
from client_compat.matrix.pool import Pool
from client_compat.matrix.run import Job, Matrix, SharedBrokers
from client_compat.matrix.scenarios import REGISTRY
from client_compat.support.brokers import HOST
from ottla.broker.releases.table import table_of
from ottla.protocol.client import Client
from ottla.protocol.messages.k00_produce import ProduceRequest
from tests.support.apache_kafka import jars_or_skip

BRIEF = (
    "acks-all-sync",
    "produce-consume",
    "headers",
    "null-values",
    "zstd",
    "beginning-and-end-offsets",
    "auto-creation",
    "commit-and-resume",
    "transaction-abort",
)
"""One scenario of each area; `make compat` runs all."""
CLOSER = (
    "gzip",
    "snappy",
    "lz4",
    "group-join-and-leave",
    "static-member-returns",
    "group-over-a-restart",
    "transactions-in-turn",
    "transaction-fence",
    "consume-transform-produce",
)
"""The libraries that most programs use."""
CLOSELY_TESTED = ("aiokafka", "confluent-kafka", "kafka-python", "java")
SECURED_SCENARIOS = ("mutual-tls", "scram-sha-512", "wrong-password", "write-taken-away-and-given-back")
"""Scenarios for a broker that authenticates clients; `make compat-security` runs all, also on Apache Kafka."""
GATEWAY_SCENARIOS = (
    *("produce-consume", "commit-and-resume", "transaction-abort", "idempotence-with-lost-acks", "group-over-a-restart"),
    *("mutual-tls", "no-certificate", "scram-sha-512", "wrong-password", "renewed-while-producing"),
)
"""Scenarios at Apache Kafka and at Apache Kafka behind a gateway; `make compat ARGS="--broker gateway --broker kafka"` runs all."""
OLDER_RELEASE_SCENARIOS = (
    *("produce-consume", "acks-all-async", "headers", "zstd", "group-join-and-leave", "static-member-returns", "commit-and-resume"),
    *("idempotence-with-lost-acks", "five-in-flight", "transaction-commit", "transaction-abort", "transactions-in-turn"),
    *("transaction-fence", "open-transaction-hides", "consume-transform-produce", "kills-idempotent"),
)
"""Scenarios at a broker that is like an older release; `make compat ARGS="--broker ottla-3.3"` runs all."""
OLD_CLIENT_SCENARIOS = ("produce-consume", "commit-and-resume")
"""Scenarios of older libraries there; several have neither transactions nor static members."""
SLOW_CLIENTS = {"spark": ("produce-consume",)}
"""Clients with fewer scenarios: each request of Spark is a job of at least a second."""
REQUIRED = os.environ.get("CI") == "true"


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pool]:
    with Pool(tmp_path_factory.mktemp("programs")) as started:
        yield started


@pytest.fixture(scope="module")
def matrix(pool: Pool, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Matrix]:
    directory = tmp_path_factory.mktemp("matrix")
    with SharedBrokers(directory) as brokers:
        yield Matrix(directory, pool, brokers, ())


@pytest.mark.parametrize("client", [name for name, kind in CLIENTS.items() if not kind.is_old_release])
def test_client_passes_its_scenarios(client: str, pool: Pool, matrix: Matrix) -> None:
    kind = CLIENTS[client]
    if missing := kind.language.missing():
        assert not REQUIRED, f"in CI no toolchain may be missing: {missing}"
        pytest.skip(missing)
    names = SLOW_CLIENTS.get(client, BRIEF) + (CLOSER if client in CLOSELY_TESTED else ())
    names += tuple(name for name in SECURED_SCENARIOS if client in REGISTRY[name].clients)
    cells = [cell for name in names for cell in matrix.run_job(Job(client, REGISTRY[name], (OURS,)))]
    if all(cell.outcome is Outcome.SKIPPED for cell in cells):
        assert kind.optional or not REQUIRED, cells[0].reason
        pytest.skip(cells[0].reason)
    assert [f"{cell.scenario}: {cell.reason}" for cell in failures(cells)] == []
    assert sum(cell.outcome is Outcome.PASS for cell in cells) >= len(names) // 3, "the client can do less than a third"


@pytest.mark.parametrize("client", CLOSELY_TESTED)
def test_a_clients_transactions_hold_where_the_broker_finalizes_version_1(client: str, pool: Pool, matrix: Matrix) -> None:
    if missing := CLIENTS[client].language.missing():
        pytest.skip(missing)
    for name in ("transactions-in-turn", "transaction-fence", "consume-transform-produce"):
        (cell,) = matrix.run_job(Job(client, replace(REGISTRY[name], settings={"transaction.version": "1"}), (OURS,)))
        assert cell.outcome is Outcome.PASS, f"{name}: {cell.reason}"


@pytest.mark.parametrize("client", ["aiokafka", "confluent-kafka"])
def test_a_client_has_the_same_outcome_through_a_gateway(client: str, matrix: Matrix) -> None:
    jars_or_skip()
    jobs = [Job(client, REGISTRY[name], (GATEWAY, KAFKA)) for name in GATEWAY_SCENARIOS]
    cells = [cell for job in jobs for cell in matrix.run_job(job)]
    assert [f"{cell.scenario}: {cell.reason}" for cell in failures(cells)] == []
    assert sum(cell.broker == GATEWAY and cell.outcome is Outcome.PASS for cell in cells) >= len(GATEWAY_SCENARIOS) - 1


@pytest.mark.parametrize("broker", OLDER_RELEASES)
def test_broker_imitating_an_older_release_offers_no_newer_versions(broker: str, tmp_path: Path) -> None:
    with running(KINDS[broker], tmp_path / "broker") as started, Client(HOST, started.process.port) as client:
        assert client.highest_version(ProduceRequest) == table_of(OLDER_RELEASES[broker]).apis["Produce"][1]


@pytest.mark.parametrize(("broker", "client"), [(broker, client) for broker in OLDER_RELEASES for client in KINDS[broker].clients])
def test_a_client_has_the_same_outcome_at_a_broker_like_an_older_release(broker: str, client: str, matrix: Matrix) -> None:
    """The clients are those of the release's own age, and current libraries."""
    kind = CLIENTS[client]
    if missing := kind.language.missing():
        pytest.skip(missing)
    names = OLDER_RELEASE_SCENARIOS if kind.language is JAVA or not kind.is_old_release else OLD_CLIENT_SCENARIOS
    cells = [cell for name in names for cell in matrix.run_job(Job(client, REGISTRY[name], (broker,)))]
    bad = [cell for cell in cells if cell.outcome not in {Outcome.PASS, Outcome.UNSUPPORTED}]
    assert [f"{cell.scenario}: {cell.outcome} {cell.reason}" for cell in bad] == []
    lacking = [cell.reason for cell in cells if cell.outcome is Outcome.UNSUPPORTED]
    assert len(lacking) <= (0 if kind.language is JAVA or kind.is_old_release else 2), lacking
