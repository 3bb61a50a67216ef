"""A standalone node decides as a cluster's controller does, for one broker."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.broker.cluster.metadata_records import FeatureLevelRecord, MetadataRecord
from ottla.broker.controller.state import ControllerState
from ottla.broker.core.effects import Effects
from tests.support.running_broker import RunningBroker


@pytest.mark.parametrize("validate_only", [False, True])
def test_a_decision_sees_one_broker_and_applies_unless_validate_only(tmp_path: Path, validate_only: bool) -> None:
    def decide(state: ControllerState) -> Effects[MetadataRecord, list[int]]:
        assert state.catalog.topic("t") is not None
        assert state.is_active(1)
        return Effects([FeatureLevelRecord("transaction.version", 1)], sorted(state.image.brokers))

    with RunningBroker(tmp_path / "data") as running:
        running.topics.create("t")
        services = running.broker.services
        assert running.call_async(services.active.run(decide, validate_only=validate_only)) == [1]
        assert services.topics.image.features["transaction.version"] == (2 if validate_only else 1)
        assert services.topics.image.brokers == {}, "nothing of it is kept"
