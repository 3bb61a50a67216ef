"""Clients' requests about topics, settings, quotas, ACLs and producer ids as decisions of a standalone node."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from ottla.broker.cluster.catalog import Catalog
from ottla.broker.cluster.image import QuotaTarget, TopicImage
from ottla.broker.cluster.metadata_records import MetadataRecord
from ottla.broker.cluster.topic_ids import new_topic_id
from ottla.broker.cluster.topic_names import is_internal
from ottla.broker.configs.broker_config import BrokerConfigs
from ottla.broker.configs.topic_config import check_topic_configs, internal_topic_configs, internal_topic_partitions
from ottla.broker.controller.acls import Deleted, Filter, create_acls, delete_acls
from ottla.broker.controller.alter_configs import AlterResource, alter_configs
from ottla.broker.controller.client_quotas import alter_client_quotas
from ottla.broker.controller.create_topics import CreatedTopic, MorePartitions, NewTopic, create_partitions, create_topics
from ottla.broker.controller.delete_topics import DeletedTopic, TopicRef, delete_topics
from ottla.broker.controller.placement import Placement
from ottla.broker.controller.producer_ids import allocate_block
from ottla.broker.core.effects import Effects
from ottla.broker.core.rejected import Rejected
from ottla.broker.core.settings import BrokerSettings
from ottla.broker.runtime.metadata.controller import Controller
from ottla.broker.runtime.metadata.metadata_log import MetadataLog
from ottla.broker.runtime.metadata.publisher import Publisher
from ottla.broker.runtime.metadata.topic_making import Asker, AutoCreation
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k30_create_acls import AclCreation
from ottla.protocol.messages.k49_alter_client_quotas import EntryData

if TYPE_CHECKING:
    from ottla.broker.runtime.metadata.cluster_of_one import LoneController

T = TypeVar("T")


class TopicService:
    """Makes and publishes the decisions. `random_bytes(n)` is the randomness of topic ids."""

    def __init__(
        self,
        catalog: Catalog,
        broker_configs: BrokerConfigs,
        metadata_log: MetadataLog,
        publisher: Publisher,
        *,
        random_bytes: Callable[[int], bytes],
    ) -> None:
        self.catalog = catalog
        self.broker_configs = broker_configs
        self.metadata_log = metadata_log
        self.publisher = publisher
        self.controller = Controller(catalog, metadata_log, publisher.publish)
        self._random_bytes = random_bytes
        self._auto_creation = AutoCreation(self.auto_create)

    @property
    def settings(self) -> BrokerSettings:
        """The settings in force."""
        return self.broker_configs.settings

    @cached_property
    def active(self) -> LoneController:
        """Runs decisions that need a `ControllerState`."""
        from ottla.broker.runtime.metadata.cluster_of_one import LoneController  # noqa: PLC0415 # keeps it out of the start-up time

        return LoneController(self.controller, self.catalog, lambda: self.settings)

    # --- clients' operations -----------------------------------------------------------------------------------------------------

    async def create_topics(
        self, topics: Sequence[NewTopic], *, validate_only: bool = False, charge: Callable[[int], None] = lambda _: None
    ) -> list[CreatedTopic]:
        """Create topics. Return one result per name.

        This method and those below raise Rejected if the whole request is rejected and nothing has changed: it is excessive
        (POLICY_VIOLATION), or the metadata log cannot be written (KAFKA_STORAGE_ERROR).
        """
        return await self.controller.run(
            lambda: create_topics(
                self.catalog, topics, self._placement(), self._check_configs, lambda: new_topic_id(self._random_bytes), charge=charge
            ),
            lambda answers, refused: [replace(each, error=each.error or refused.get(each.name)) for each in answers],
            validate_only=validate_only,
        )

    async def delete_topics(self, refs: Sequence[TopicRef], *, charge: Callable[[int], None] = lambda _: None) -> list[DeletedTopic]:
        """Delete topics. Return one result per distinct reference."""
        return await self.controller.run(lambda: delete_topics(self.catalog, refs, charge), lambda answers, _: answers)

    async def create_partitions(
        self, topics: Sequence[MorePartitions], *, validate_only: bool = False, charge: Callable[[int], None] = lambda _: None
    ) -> list[tuple[str, Rejected | None]]:
        """Add partitions to topics. Return (name, error or None) per name."""
        return await self.controller.run(
            lambda: create_partitions(self.catalog, topics, self._placement(), charge),
            lambda answers, refused: [(name, error or refused.get(name)) for name, error in answers],
            validate_only=validate_only,
        )

    async def alter_configs(self, resources: Sequence[AlterResource], *, validate_only: bool = False) -> list[Rejected | None]:
        """Change settings, also of open logs. Return an error or None per resource."""
        return await self.controller.run(
            lambda: alter_configs(self.catalog, resources, self.settings, self.broker_configs.check_stores),
            lambda answers, _: answers,
            validate_only=validate_only,
        )

    async def alter_client_quotas(self, entries: Sequence[EntryData], *, validate_only: bool = False) -> dict[QuotaTarget, Rejected | None]:
        """Set and remove client quotas. Return an error or None per entity."""
        return await self.controller.run(
            lambda: alter_client_quotas(self.catalog.image, entries), lambda answers, _: answers, validate_only=validate_only
        )

    async def create_acls(self, acls: Sequence[AclCreation]) -> list[Rejected | None]:
        """Create ACLs. Return an error or None per ACL."""
        return await self.controller.run(lambda: create_acls(self.catalog.image, acls, self._random_bytes), lambda answers, _: answers)

    async def delete_acls(self, filters: Sequence[Filter]) -> list[Deleted]:
        """Delete ACLs. Return the ACLs that each filter matched."""
        return await self.controller.run(lambda: delete_acls(self.catalog.image, filters), lambda answers, _: answers)

    async def allocate_producer_ids(self) -> range:
        """Return a block of producer ids that no other request got. Raises Rejected if none are left."""
        return await self.controller.run(lambda: allocate_block(self.catalog, self.settings.node_id), lambda block, _: block)

    async def decide(self, decide: Callable[[], Effects[MetadataRecord, T]]) -> T:
        """Run any other decision. Return its response when the records are on disk and applied. Raises what it raises, and Rejected."""
        return await self.controller.run(decide, lambda answer, _: answer)

    async def remove_expired_tokens(self, now_ms: int) -> bool:
        """Remove expired delegation tokens, a bounded number. Return whether there may be more. Raises Rejected."""
        from ottla.broker.controller.delegation_tokens import remove_expired_tokens  # noqa: PLC0415 # few nodes use tokens

        return await self.decide(lambda: remove_expired_tokens(self.catalog.image, now_ms))

    async def auto_create(self, names: Iterable[str], asker: Asker | None = None) -> dict[str, Rejected | None]:
        """Create missing topics with the broker's defaults, or an internal topic's own. None: the topic exists and is served."""
        wanted = [self._defaults_for(name) for name in names]
        created = await (self.create_topics(wanted) if asker is None else self.create_topics(wanted, charge=asker.charge))
        return {topic.name: None if _exists(topic.error) else topic.error for topic in created}

    async def create(self, topics: Sequence[NewTopic]) -> dict[str, Rejected | None]:
        """Create topics as requested. None: the topic exists."""
        return {topic.name: None if _exists(topic.error) else topic.error for topic in await self.create_topics(topics)}

    def begin_auto_create(self, names: Iterable[str], asker: Asker | None = None) -> None:
        """Start to create missing topics without waiting; see `TopicMaker.begin_auto_create`."""
        self._auto_creation.begin(names, asker)

    async def ensure(self, name: str) -> TopicImage:
        """Return the topic, served; create it with its defaults if it does not exist. Raises Rejected."""
        if self.catalog.topic(name) is None:
            error = (await self.auto_create([name]))[name]
            if error is not None:
                raise error
        await self.controller.settled()
        topic = self.catalog.topic(name)
        if topic is None:
            raise Rejected(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic {name} was deleted as soon as it was created.")
        return topic

    async def stop(self) -> None:
        """Wait for the operations that have started."""
        await self._auto_creation.finish()
        await self.controller.stop()
        self.broker_configs.loggers.reset()

    # --- internals ---------------------------------------------------------------------------------------------------------------

    def _check_configs(self, overrides: Mapping[str, str]) -> None:
        check_topic_configs(overrides, self.settings)

    def _placement(self) -> Placement:
        settings = self.settings
        return Placement.on_one(settings.node_id, settings.num_partitions, settings.default_replication_factor)

    def _defaults_for(self, name: str) -> NewTopic:
        configs = tuple(internal_topic_configs(name, self.settings).items())
        if not configs:
            return NewTopic(name)
        assert is_internal(name)
        # A single node cannot hold the three replicas of Kafka's default, and groups must work nevertheless.
        return NewTopic(name, internal_topic_partitions(name, self.settings), 1, configs=configs)


def _exists(error: Rejected | None) -> bool:
    return error is None or error.code is ErrorCode.TOPIC_ALREADY_EXISTS
