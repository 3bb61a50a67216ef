from __future__ import annotations

from collections.abc import Iterator

import pytest

from ottla.broker.testing.cluster import InProcessCluster


@pytest.fixture
def cluster() -> Iterator[InProcessCluster]:
    with InProcessCluster(1) as running:
        yield running


def test_wait_for_a_condition_that_never_holds_names_the_condition(cluster: InProcessCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.broker.testing.broker_thread.TIMEOUT_S", 0.05)
    with pytest.raises(TimeoutError, match="waiting until it rains"):
        cluster.wait_until(lambda: False, "it rains")
    monkeypatch.undo()
    with pytest.raises(KeyError):
        cluster.leader_of("none")
