"""A standalone node as a cluster of one: it is the controller and the only broker.

A client's request to the controller is therefore decided by the same code (`broker/controller`) as in a larger cluster.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TypeVar

from ottla.broker.cluster.catalog import Catalog
from ottla.broker.cluster.features import SUPPORTED
from ottla.broker.cluster.image import EMPTY, BrokerRegistration
from ottla.broker.cluster.image_changes import difference
from ottla.broker.cluster.metadata_records import FeatureRange, MetadataRecord
from ottla.broker.cluster.topic_ids import ZERO_ID
from ottla.broker.controller.state import ControllerState
from ottla.broker.core.effects import Effects
from ottla.broker.core.settings import BrokerSettings
from ottla.broker.runtime.metadata.controller import Controller

T = TypeVar("T")


class LoneController:
    """The `ActiveController` of a standalone node. `settings` returns the settings in force."""

    def __init__(self, controller: Controller, catalog: Catalog, settings: Callable[[], BrokerSettings]) -> None:
        self._controller, self._catalog, self._settings = controller, catalog, settings

    async def run(self, decide: Callable[[ControllerState], Effects[MetadataRecord, T]], *, validate_only: bool = False) -> T:
        """Run a decision and return its response when its records are on disk and applied. Raises what `decide` raises."""
        return await self._controller.run(lambda: decide(self._state()), lambda answer, _: answer, validate_only=validate_only)

    def _state(self) -> ControllerState:
        settings, image = self._settings(), self._catalog.image
        features = {name: FeatureRange(name, low, high) for name, (low, high) in SUPPORTED.items()}
        me = BrokerRegistration(
            broker_id=settings.node_id,
            epoch=0,
            incarnation_id=ZERO_ID,
            listeners={},
            features=features,
            rack=settings.broker_rack,
            fenced=False,
            in_controlled_shutdown=False,
            is_migrating_zk_broker=False,
            directories=(),
            cordoned_directories=None,
        )
        catalog = Catalog()
        alone = image._replace(brokers={settings.node_id: me}, controllers={})
        catalog.publish(alone, difference(EMPTY, alone))
        return ControllerState("", settings, Random(0), [settings.node_id], catalog=catalog)  # no decision here uses randomness
