"""Fixtures: a separate broker for each wire test that requests one, and a client of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.protocol.client import Client
from tests.support.group_calls import find_coordinator
from tests.support.running_broker import RunningBroker


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "broker_settings(settings): settings, by Kafka's names, of the `broker`")
    config.addinivalue_line("markers", "broker_like(release): the release of Apache Kafka that the `broker` is like")


@pytest.fixture
def broker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RunningBroker]:
    """A broker with an empty data directory."""
    settings, like = (request.node.get_closest_marker(name) for name in ("broker_settings", "broker_like"))
    with RunningBroker(tmp_path / "data", settings.args[0] if settings else None, like=like.args[0] if like else None) as broker:
        yield broker


@pytest.fixture
def client(broker: RunningBroker) -> Iterator[Client]:
    """A connection to the fixture `broker`."""
    with broker.client() as client:
        yield client


@pytest.fixture
def coordinator(client: Client) -> None:
    """Let the broker create `__consumer_offsets` and its group coordinator, which the first FindCoordinator does."""
    find_coordinator(client)
