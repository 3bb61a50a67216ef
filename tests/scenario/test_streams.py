"""The short form of `make streams`: a Kafka Streams application over one clean stop of the broker and one kill."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from client_compat.streams.application import PROTOCOLS, STREAMS
from client_compat.streams.run import run

ROUNDS = 2
SEED = 4_031
REQUIRED = os.environ.get("CI") == "true"


@pytest.fixture(scope="module", autouse=True)
def _built() -> None:
    if missing := STREAMS.missing():
        assert not REQUIRED, f"in CI no toolchain may be missing: {missing}"
        pytest.skip(missing)
    STREAMS.ensure_built()


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_stream_application_counts_every_flight_once_over_a_clean_stop_and_a_kill_of_its_broker(tmp_path: Path, protocol: str) -> None:
    found = run(tmp_path, ROUNDS, SEED, protocol=protocol)
    assert [one.clean for one in found.rounds] == [True, False]
    assert found.application_starts == ROUNDS + 1
    assert all(one.good for one in found.rounds), found.rounds
    assert found.open == []
    assert found.audit_code == 0, found.audit
