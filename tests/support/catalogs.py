"""A catalog (look-ups in the metadata image) without a log, for tests of the controller's decisions: it applies the records that a decision
returns."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TypeVar

from ottla.broker.cluster.catalog import Catalog
from ottla.broker.cluster.features import METADATA_LEVEL, METADATA_VERSION
from ottla.broker.cluster.metadata_records import FeatureLevelRecord, MetadataRecord
from ottla.broker.cluster.record_frames import decode_record, encode_record
from ottla.broker.cluster.record_versions import version_of
from ottla.broker.configs.topic_config import check_topic_configs
from ottla.broker.controller.alter_configs import AlterResource, errors_of_brokers, form_errors
from ottla.broker.controller.cluster_configs import alter_cluster_configs
from ottla.broker.controller.create_topics import CreatedTopic, NewTopic, create_topics
from ottla.broker.controller.placement import Placement
from ottla.broker.controller.state import ControllerState
from ottla.broker.core.effects import Effects
from ottla.broker.core.rejected import Rejected
from ottla.broker.core.settings import BrokerSettings
from ottla.protocol.error_codes import ErrorCode

T = TypeVar("T")
NODE = 1


class LiveCatalog:
    """A catalog (look-ups in the metadata image) without a log. `run` applies the records that a decision returns; `replayed` is a second
    catalog made from the bytes of all records so far."""

    def __init__(self) -> None:
        self.settings = BrokerSettings()
        self.catalog = Catalog()
        self.log: list[bytes] = []
        self._ids = 0

    def new_id(self) -> bytes:
        self._ids += 1
        return self._ids.to_bytes(16, "little")

    def run(self, effects: Effects[MetadataRecord, T]) -> T:
        self.log += [encode_record(record, version_of(record, METADATA_LEVEL)) for record in effects.records]
        self.catalog.apply(effects.records)
        return effects.response

    def create(self, *topics: NewTopic, placement: Placement | None = None) -> list[CreatedTopic]:
        check: Callable[..., None] = lambda overrides: check_topic_configs(overrides, self.settings)  # noqa: E731 - one use, in place
        return self.run(create_topics(self.catalog, topics, placement or Placement.on_one(NODE), check, self.new_id))

    def alter(self, *resources: AlterResource) -> list[Rejected | None]:
        """Change settings as a combined node (broker and controller) does; return each resource's error or None."""
        if METADATA_VERSION not in self.catalog.features:
            self.run(Effects([FeatureLevelRecord(METADATA_VERSION, METADATA_LEVEL)], None))
        state = ControllerState("cluster", self.settings, Random(0), [NODE], catalog=self.catalog)
        settled = {**errors_of_brokers(self.catalog, resources, self.settings), **form_errors(resources)}
        rest = [index for index in range(len(resources)) if index not in settled]
        answers = self.run(alter_cluster_configs(state, [resources[index] for index in rest], forwarded=True))
        answered: dict[int, Rejected | None] = {**settled, **dict(zip(rest, answers, strict=True))}
        return [answered[index] for index in range(len(resources))]

    def replayed(self) -> Catalog:
        catalog = Catalog()
        catalog.apply(decode_record(value)[0] for value in self.log)
        return catalog


def code_of(error: Rejected | None) -> ErrorCode:
    """Return the error's code, NONE without an error."""
    return ErrorCode.NONE if error is None else error.code


def state_of(catalog: Catalog) -> object:
    """Return all of a catalog's state, to compare two catalogs."""
    topics = catalog.topics()
    return (
        [
            (topic.name, topic.topic_id, dict(sorted(topic.partitions.items())), catalog.topic_by_id(topic.topic_id) is topic)
            for topic in topics
        ],
        {(kind, name): dict(catalog.configs(kind, name)) for kind in (2, 4) for name in catalog.configured_resources(kind)},
        catalog.next_producer_id,
        catalog.features,
        [catalog.colliding(topic.name.replace(".", "_") + "_") for topic in topics],
    )
