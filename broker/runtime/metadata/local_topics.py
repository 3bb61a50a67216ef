"""Creates topics and allocates producer ids for the broker of a standalone node, by calls to the controller in the same process."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial

from ottla.broker.cluster.catalog import Catalog
from ottla.broker.cluster.image import TopicImage
from ottla.broker.configs.topic_config import internal_topic_configs, internal_topic_partitions
from ottla.broker.controller.create_topics import NewTopic, create_cluster_topics
from ottla.broker.controller.producer_ids import allocate_block_to
from ottla.broker.core.rejected import Rejected
from ottla.broker.core.settings import BrokerSettings
from ottla.broker.runtime.metadata.topic_making import AutoCreation, Requester
from ottla.broker.runtime.quorum.active_controller import ActiveController
from ottla.broker.runtime.upkeep.nursery import Nursery
from ottla.protocol.error_codes import ErrorCode


class LocalTopics:
    """Creates topics and allocates producer ids by calls to the controller in this process (the interface is `TopicMaker`). When `create`,
    `auto_create` or `ensure` returns, the broker serves the created topics. `published` waits until the broker has applied all committed
    metadata.
    """

    def __init__(
        self,
        active: ActiveController,
        catalog: Catalog,
        settings: BrokerSettings,
        broker_epoch: int,
        *,
        published: Callable[[], Awaitable[None]],
        nursery: Nursery,
    ) -> None:
        self._active, self._catalog, self._settings = active, catalog, settings
        self._broker_epoch, self._published = broker_epoch, published
        self._auto_creation = AutoCreation(nursery)

    async def allocate_producer_ids(self) -> range:
        """Return a block of producer ids that was never returned before. Raises Rejected if all ids are used up."""
        decide = partial(allocate_block_to, broker_id=self._settings.node_id, broker_epoch=self._broker_epoch)
        return await self._active.run(decide)

    async def auto_create(self, names: Iterable[str], requester: Requester | None = None) -> dict[str, Rejected | None]:
        """Create missing topics with the broker's default settings; an internal topic, such as `__consumer_offsets`, gets its own settings
        and one replica. Return, by name, None if the topic exists now, or the error. The new partitions count against the quota of the
        client `requester` (None: no quota). Raises Rejected if the whole request fails, for example with POLICY_VIOLATION for too many
        partitions.
        """
        return await self.create([self._defaults_for(name) for name in names], requester)

    async def create(self, topics: Sequence[NewTopic], requester: Requester | None = None) -> dict[str, Rejected | None]:
        """Create topics as requested. Return, by name, None if the topic exists now, or the error. The new partitions count against the
        quota of the client `requester` (None: no quota). Raises Rejected if the whole request fails, for example with POLICY_VIOLATION for
        too many partitions.
        """
        charge = _no_charge if requester is None else requester.charge
        created = await self._active.run(partial(create_cluster_topics, topics=topics, charge=charge))
        return {topic.name: None if _exists(topic.error) else topic.error for topic in created}

    def begin_auto_create(self, names: Iterable[str], requester: Requester | None = None) -> None:
        """Start to create missing topics as `auto_create` does, and return at once. A topic that is already being created is not requested
        again. A failure is only logged.
        """
        self._auto_creation.begin(names, partial(self.auto_create, requester=requester))

    async def ensure(self, name: str) -> TopicImage:
        """Return the topic; create it as `auto_create` does if it does not exist. Raises Rejected if it cannot be created, or was deleted
        meanwhile (UNKNOWN_TOPIC_OR_PARTITION).
        """
        if self._catalog.topic(name) is None:
            error = (await self.auto_create([name]))[name]
            if error is not None:
                raise error
        await self._published()
        topic = self._catalog.topic(name)
        if topic is None:
            raise Rejected(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic {name} was deleted as soon as it was created.")
        return topic

    def _defaults_for(self, name: str) -> NewTopic:
        configs = tuple(internal_topic_configs(name, self._settings).items())
        if not configs:
            return NewTopic(name)
        # A single node cannot hold the three replicas of Kafka's default, and groups must work nevertheless.
        return NewTopic(name, internal_topic_partitions(name, self._settings), 1, configs=configs)


def _no_charge(_partitions: int) -> None:
    return None


def _exists(error: Rejected | None) -> bool:
    return error is None or error.code is ErrorCode.TOPIC_ALREADY_EXISTS
