"""The short form of `make compat`: every client of every language does the quick scenarios on this broker."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from client_compat.matrix.brokers import OURS
from client_compat.matrix.clients import CLIENTS
from client_compat.matrix.outcomes import Outcome, failures
from client_compat.matrix.pool import Pool
from client_compat.matrix.run import Job, Matrix, SharedBrokers
from client_compat.matrix.scenarios import REGISTRY

QUICK = [scenario for scenario in REGISTRY.values() if scenario.quick]
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


@pytest.mark.parametrize("client", list(CLIENTS))
def test_every_quick_scenario_of_a_client_passes_or_is_beyond_its_api(client: str, pool: Pool, matrix: Matrix) -> None:
    kind = CLIENTS[client]
    if missing := kind.language.missing():
        assert not REQUIRED, f"in CI no toolchain may be missing: {missing}"
        pytest.skip(missing)
    cells = [cell for scenario in QUICK for cell in matrix.run_job(Job(client, scenario, (OURS,)))]
    if all(cell.outcome is Outcome.SKIPPED for cell in cells):
        assert kind.optional or not REQUIRED, cells[0].reason
        pytest.skip(cells[0].reason)
    assert [f"{cell.scenario}: {cell.reason}" for cell in failures(cells)] == []
    assert sum(cell.outcome is Outcome.PASS for cell in cells) >= len(QUICK) // 3, "the client can do less than a third"
