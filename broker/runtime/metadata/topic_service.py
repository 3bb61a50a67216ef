"""What clients ask of the cluster's topics, settings and producer ids, as decisions of the controller."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from ottla.broker.cluster.topic_ids import new_topic_id
from ottla.broker.cluster.topic_names import is_internal
from ottla.broker.configs.topic_config import check_topic_configs, internal_topic_configs, internal_topic_partitions
from ottla.broker.controller.acls import Deleted, Filter, create_acls, delete_acls
from ottla.broker.controller.alter_configs import AlterResource, alter_configs
from ottla.broker.controller.client_quotas import alter_client_quotas
from ottla.broker.controller.create_topics import CreatedTopic, MorePartitions, NewTopic, create_partitions, create_topics
from ottla.broker.controller.delete_topics import DeletedTopic, TopicRef, delete_topics
from ottla.broker.controller.placement import Placement
from ottla.broker.controller.producer_ids import allocate_block
from ottla.broker.core.rejected import Rejected
from ottla.broker.runtime.metadata.controller import Controller
from ottla.broker.runtime.metadata.topic_making import Asker, AutoCreation
from ottla.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from ottla.broker.cluster.catalog import Catalog
    from ottla.broker.cluster.image import QuotaTarget, TopicImage
    from ottla.broker.cluster.metadata_records import MetadataRecord
    from ottla.broker.configs.broker_config import BrokerConfigs
    from ottla.broker.core.effects import Effects
    from ottla.broker.core.settings import BrokerSettings
    from ottla.broker.runtime.metadata.cluster_of_one import LoneController
    from ottla.broker.runtime.metadata.metadata_log import MetadataLog
    from ottla.broker.runtime.metadata.publisher import Publisher
    from ottla.protocol.messages.k30_create_acls import AclCreation
    from ottla.protocol.messages.k49_alter_client_quotas import EntryData

T = TypeVar("T")


class TopicService:
    """`random_bytes(n)` gives topic ids their randomness."""

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
        """Decides what else only the controllers of clusters decide."""
        from ottla.broker.runtime.metadata.cluster_of_one import LoneController  # noqa: PLC0415 # a start does not pay for it

        return LoneController(self.controller, self.catalog, lambda: self.settings)

    # --- operations of clients ---------------------------------------------------------------------------------------------------

    async def create_topics(
        self, topics: Sequence[NewTopic], *, validate_only: bool = False, charge: Callable[[int], None] = lambda _: None
    ) -> list[CreatedTopic]:
        """Creates what can be created; one answer for each name.

        This and the others raise Rejected when the whole request is refused and nothing has changed: an excessive one (POLICY_VIOLATION),
        or a metadata log that cannot be written (KAFKA_STORAGE_ERROR).
        """
        return await self.controller.run(
            lambda: create_topics(
                self.catalog, topics, self._placement(), self._check_configs, lambda: new_topic_id(self._random_bytes), charge=charge
            ),
            lambda answers, refused: [replace(each, error=each.error or refused.get(each.name)) for each in answers],
            validate_only=validate_only,
        )

    async def delete_topics(self, refs: Sequence[TopicRef], *, charge: Callable[[int], None] = lambda _: None) -> list[DeletedTopic]:
        """Deletes what can be deleted; one answer for each distinct reference."""
        return await self.controller.run(lambda: delete_topics(self.catalog, refs, charge), lambda answers, _: answers)

    async def create_partitions(
        self, topics: Sequence[MorePartitions], *, validate_only: bool = False, charge: Callable[[int], None] = lambda _: None
    ) -> list[tuple[str, Rejected | None]]:
        """Grows what can be grown; (name, error or None) for each name."""
        return await self.controller.run(
            lambda: create_partitions(self.catalog, topics, self._placement(), charge),
            lambda answers, refused: [(name, error or refused.get(name)) for name, error in answers],
            validate_only=validate_only,
        )

    async def alter_configs(self, resources: Sequence[AlterResource], *, validate_only: bool = False) -> list[Rejected | None]:
        """Changes what can be changed, in open logs too; an error or None for each resource."""
        return await self.controller.run(
            lambda: alter_configs(self.catalog, resources, self.settings, self.broker_configs.check_stores),
            lambda answers, _: answers,
            validate_only=validate_only,
        )

    async def alter_client_quotas(self, entries: Sequence[EntryData], *, validate_only: bool = False) -> dict[QuotaTarget, Rejected | None]:
        """Sets and removes quotas; an error or None for each entity."""
        return await self.controller.run(
            lambda: alter_client_quotas(self.catalog.image, entries), lambda answers, _: answers, validate_only=validate_only
        )

    async def create_acls(self, acls: Sequence[AclCreation]) -> list[Rejected | None]:
        """Allows and denies; an error or None for each."""
        return await self.controller.run(lambda: create_acls(self.catalog.image, acls, self._random_bytes), lambda answers, _: answers)

    async def delete_acls(self, filters: Sequence[Filter]) -> list[Deleted]:
        """Takes it back; what each filter found."""
        return await self.controller.run(lambda: delete_acls(self.catalog.image, filters), lambda answers, _: answers)

    async def allocate_producer_ids(self) -> range:
        """A block of producer ids that no other request was given. Raises Rejected when there are none left."""
        return await self.controller.run(lambda: allocate_block(self.catalog, self.settings.node_id), lambda block, _: block)

    async def decide(self, decide: Callable[[], Effects[MetadataRecord, T]]) -> T:
        """Any other decision about the metadata: its answer, when it is durable and in force. Raises what it raises, and as above."""
        return await self.controller.run(decide, lambda answer, _: answer)

    async def remove_expired_tokens(self, now_ms: int) -> bool:
        """Whether there may be more delegation tokens that are over. Raises as `decide`."""
        from ottla.broker.controller.delegation_tokens import remove_expired_tokens  # noqa: PLC0415 # few have tokens

        return await self.decide(lambda: remove_expired_tokens(self.catalog.image, now_ms))

    async def auto_create(self, names: Iterable[str], asker: Asker | None = None) -> dict[str, Rejected | None]:
        """Creates missing topics with the broker's defaults, internal ones with their own. None: the topic is there and is served."""
        wanted = [self._defaults_for(name) for name in names]
        created = await (self.create_topics(wanted) if asker is None else self.create_topics(wanted, charge=asker.charge))
        return {topic.name: None if _exists(topic.error) else topic.error for topic in created}

    async def create(self, topics: Sequence[NewTopic]) -> dict[str, Rejected | None]:
        """See `TopicMaker.create`."""
        return {topic.name: None if _exists(topic.error) else topic.error for topic in await self.create_topics(topics)}

    def begin_auto_create(self, names: Iterable[str], asker: Asker | None = None) -> None:
        """Begins to make missing topics with the broker's defaults; see `TopicMaker.begin_auto_create`."""
        self._auto_creation.begin(names, asker)

    async def ensure(self, name: str) -> TopicImage:
        """The topic, served; created with its defaults if it is not there. Raises Rejected."""
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
        """Waits for operations that have begun."""
        await self._auto_creation.finish()
        await self.controller.stop()
        self.broker_configs.loggers.reset()

    # --- what they are made of ---------------------------------------------------------------------------------------------------

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
        # One node cannot hold the three replicas that Kafka's defaults ask for, and groups must work nevertheless.
        return NewTopic(name, internal_topic_partitions(name, self.settings), 1, configs=configs)


def _exists(error: Rejected | None) -> bool:
    return error is None or error.code is ErrorCode.TOPIC_ALREADY_EXISTS
