"""Carries out what the catalog's machine decides: the metadata log, the partitions' directories, and who serves them.

Rules that hold inside:
- One operation at a time: decide, write to the metadata log, wait for the disk, apply, then touch directories. So the metadata log is
  always ahead of the directories, and a crash at any point leaves a topic whole or gone (`topic_recovery` settles the rest at a start).
- An operation that has begun is carried through, even when the client that asked for it has gone.
- A deleted topic is served no longer from the moment its removal is on disk; who waits for it is woken before its directories move.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from broker.core import limits
from broker.core.rejected import Rejected
from broker.core.topic_keys import TOPIC_KEYS
from broker.topics.alter_configs import AlterResource, alter_configs
from broker.topics.catalog import ResourceType, Topic
from broker.topics.create_topics import (
    CreatedTopic,
    MorePartitions,
    NewTopic,
    Placement,
    create_partitions,
    create_topics,
)
from broker.topics.delete_topics import DeletedTopic, TopicRef, delete_topics
from broker.topics.topic_config import check_topic_configs, effective_log_config, internal_topic_configs, internal_topic_partitions
from broker.topics.topic_ids import new_topic_id
from broker.topics.topic_names import is_internal
from protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from broker.core.effects import Effects
    from broker.core.log_config import LogConfig
    from broker.core.settings import BrokerSettings
    from broker.runtime.flusher import Flusher
    from broker.runtime.metadata_log import MetadataLog
    from broker.runtime.partitions import Partitions
    from broker.storage.log_dir import LogDir
    from broker.storage.partition_log import PartitionLog
    from broker.topics.broker_config import BrokerConfigs
    from broker.topics.catalog import Catalog
    from broker.topics.catalog_records import MetadataRecord

T = TypeVar("T")
logger = logging.getLogger(__name__)

_TOPIC_DEFAULTS = frozenset(synonym.name for key in TOPIC_KEYS.values() for synonym in key.synonyms)
"""Broker settings that are a topic key's default: when one changes, open logs have to hear of it."""


class TopicService:
    """`random_bytes(n)` gives topic ids their randomness. `on_deleted` hear of each topic that is served no longer."""

    def __init__(
        self,
        catalog: Catalog,
        broker_configs: BrokerConfigs,
        metadata_log: MetadataLog,
        *,
        log_dir: LogDir,
        partitions: Partitions,
        flusher: Flusher,
        random_bytes: Callable[[int], bytes],
    ) -> None:
        self.catalog = catalog
        self.broker_configs = broker_configs
        self.on_deleted: list[Callable[[Topic], None]] = []
        self.metadata_log = metadata_log
        self._log_dir = log_dir
        self._partitions = partitions
        self._flusher = flusher
        self._random_bytes = random_bytes
        self._turn = asyncio.Lock()
        self._running: set[asyncio.Task[Any]] = set()
        self._being_made: set[str] = set()

    @property
    def settings(self) -> BrokerSettings:
        """The settings in force."""
        return self.broker_configs.settings

    # --- operations of clients ---------------------------------------------------------------------------------------------------

    async def create_topics(self, topics: Sequence[NewTopic], *, validate_only: bool = False) -> list[CreatedTopic]:
        """Creates what can be created; one answer for each name.

        This and the others raise Rejected when the whole request is refused and nothing has changed: an excessive one (POLICY_VIOLATION),
        or a metadata log that cannot be written (KAFKA_STORAGE_ERROR).
        """
        return await self._carry_through(self._create_topics(topics, validate_only))

    async def delete_topics(self, refs: Sequence[TopicRef]) -> list[DeletedTopic]:
        """Deletes what can be deleted; one answer for each distinct reference."""
        return await self._carry_through(self._delete_topics(refs))

    async def create_partitions(
        self, topics: Sequence[MorePartitions], *, validate_only: bool = False
    ) -> list[tuple[str, Rejected | None]]:
        """Grows what can be grown; (name, error or None) for each name."""
        return await self._carry_through(self._create_partitions(topics, validate_only))

    async def alter_configs(self, resources: Sequence[AlterResource], *, validate_only: bool = False) -> list[Rejected | None]:
        """Changes what can be changed, in open logs too; an error or None for each resource."""
        return await self._carry_through(self._alter_configs(resources, validate_only))

    async def auto_create(self, names: Iterable[str]) -> dict[str, Rejected | None]:
        """Creates missing topics with the broker's defaults, internal ones with their own. None: the topic is there and is served."""
        created = await self.create_topics([self._defaults_for(name) for name in names])
        return {topic.name: None if _exists(topic.error) else topic.error for topic in created}

    def begin_auto_create(self, names: Iterable[str]) -> None:
        """Begins to make missing topics with the broker's defaults; returns at once. One that is being made so is not begun again.

        Nobody is told what becomes of it but the log: whoever needs the topic asks whether it is there.
        """
        wanted = [name for name in names if name not in self._being_made]
        if not wanted:
            return
        self._being_made.update(wanted)
        making = asyncio.get_running_loop().create_task(self._auto_create_in_background(wanted))
        self._running.add(making)
        making.add_done_callback(self._running.discard)

    async def _auto_create_in_background(self, names: Sequence[str]) -> None:
        try:
            answers = await self.auto_create(names)
        except Rejected as error:
            answers = dict.fromkeys(names, error)
        finally:
            self._being_made.difference_update(names)
        for name, refused in answers.items():
            if refused is not None:
                logger.warning("topic %s was asked for and cannot be created: %s", name, refused)

    async def ensure(self, name: str) -> Topic:
        """The topic, served; created with its defaults if it is not there. Raises Rejected."""
        if self._partitions.by_name(name) is None:
            error = (await self.auto_create([name]))[name]
            if error is not None:
                raise error
        topic = self.catalog.topic(name)
        if topic is None:
            raise Rejected(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic {name} was deleted as soon as it was created.")
        return topic

    async def stop(self) -> None:
        """Waits for operations that have begun."""
        while self._running:
            await asyncio.gather(*self._running, return_exceptions=True)
        self.broker_configs.loggers.reset()

    # --- the operations, in their turn -------------------------------------------------------------------------------------------

    async def _create_topics(self, topics: Sequence[NewTopic], validate_only: bool) -> list[CreatedTopic]:
        effects = create_topics(self.catalog, topics, self._placement(), self._check_configs, lambda: new_topic_id(self._random_bytes))
        if validate_only:
            return effects.response
        await self.metadata_log.write(effects.records)
        for created in effects.response:
            if created.error is None:
                logger.info("created topic %s with %d partition(s)", created.name, created.num_partitions)
        await self._make_directories(created.name for created in effects.response if created.error is None)
        return [self._opened(created) for created in effects.response]

    async def _delete_topics(self, refs: Sequence[TopicRef]) -> list[DeletedTopic]:
        effects = delete_topics(self.catalog, refs)
        doomed = [topic for each in effects.response if each.error is None and (topic := self.catalog.topic_by_id(each.topic_id))]
        await self.metadata_log.write(effects.records)
        for topic in doomed:
            self._partitions.remove_topic(topic.name)
            self._remove_directories(topic)
            for listener in self.on_deleted:
                listener(topic)
            logger.info("deleted topic %s", topic.name)
        if doomed:
            # A name that a power loss brought back, or an offset in a checkpoint, could be taken for that of a new topic of the same name.
            await self._flusher.run(self._log_dir.removal_checkpoint())
        return effects.response

    async def _create_partitions(self, topics: Sequence[MorePartitions], validate_only: bool) -> list[tuple[str, Rejected | None]]:
        effects = create_partitions(self.catalog, topics, self._placement())
        if validate_only:
            return effects.response
        await self.metadata_log.write(effects.records)
        await self._make_directories(name for name, error in effects.response if error is None)
        return [(name, error or self.open_missing(name)) for name, error in effects.response]

    async def _alter_configs(self, resources: Sequence[AlterResource], validate_only: bool) -> list[Rejected | None]:
        effects: Effects[MetadataRecord, list[Rejected | None]] = alter_configs(self.catalog, resources, self.settings)
        if validate_only:
            return effects.response
        await self.metadata_log.write(effects.records)
        for resource, error in zip(resources, effects.response, strict=True):
            if resource.resource_type == ResourceType.BROKER_LOGGER and error is None:
                self.broker_configs.loggers.change(resource.ops)
        changed = self.broker_configs.refresh()
        if "producer.id.expiration.ms" in changed:
            for partition in self._partitions:
                partition.log.producer_expiration_ms = self.settings.producer_id_expiration_ms
        if changed & _TOPIC_DEFAULTS:
            self._reconfigure(topic.name for topic in self.catalog.topics())
        else:
            self._reconfigure(resource.name for resource in resources if resource.resource_type == ResourceType.TOPIC)
        return effects.response

    # --- what they are made of ---------------------------------------------------------------------------------------------------

    async def _make_directories(self, names: Iterable[str]) -> None:
        """Makes directories a few at a time, so that the loop serves others meanwhile: a thousand of them take a second.

        They are served later and all at once (`open_missing`): who counts the partitions of a topic must find either none or all.
        """
        made = 0
        for topic in filter(None, map(self.catalog.topic, names)):
            config = self.log_config(topic.name)
            for index in topic.partitions:
                key = (topic.name, index)
                if key in self._log_dir.logs or key in self._log_dir.failed:
                    continue
                try:
                    self._log_of(topic, index, config)
                except Rejected:
                    return  # `open_missing` will meet it again, and tell
                made += 1
                if made % limits.DIRECTORIES_AT_ONCE == 0:
                    await asyncio.sleep(0)

    def open_missing(self, name: str) -> Rejected | None:
        """Makes the directories of the partitions of a known topic that have none yet, and serves them.

        The error of the first one that the disk refused, which stays offline until a start can make it; None when there is none.
        """
        topic = self.catalog.topic(name)
        assert topic is not None, f"{name} is not in the catalog"
        config = self.log_config(name)
        served = self._partitions.by_name(name)
        refused = None
        for index in sorted(topic.partitions):
            if served is not None and index in served.partitions:
                continue
            if (name, index) in self._log_dir.failed:
                self._partitions.add_offline(name, topic.topic_id, index)
                continue
            try:
                log = self._log_of(topic, index, config)
            except Rejected as error:
                logger.error("%s-%d is offline: %s", name, index, error)
                self._partitions.add_offline(name, topic.topic_id, index)
                refused = refused or error
            else:
                self._partitions.add(log)
        return refused

    def _log_of(self, topic: Topic, index: int, config: LogConfig) -> PartitionLog:
        log = self._log_dir.logs.get((topic.name, index))
        if log is None:
            log = self._log_dir.create_log(topic.name, index, topic.topic_id, config)
        # Noted before the first append, as Kafka's leader does: who asks where the epoch of an empty log ends is told.
        log.become_leader(topic.partitions[index].leader_epoch)
        return log

    def _opened(self, created: CreatedTopic) -> CreatedTopic:
        if created.error is not None:
            return created
        return replace(created, error=self.open_missing(created.name))

    def _remove_directories(self, topic: Topic) -> None:
        for index in topic.partitions:
            key = (topic.name, index)
            if key not in self._log_dir.logs and key not in self._log_dir.failed:
                continue
            try:
                self._log_dir.delete_log(*key)
            except Rejected as error:
                # The topic is gone all the same, and the next start finds its removal in the metadata log and deletes what is left.
                logger.error("the directory of the deleted %s-%d stays: %s", topic.name, index, error)

    def log_config(self, name: str) -> LogConfig:
        """What the logs of the topic run with."""
        return effective_log_config(self.catalog.configs(ResourceType.TOPIC, name), self.settings)

    def _reconfigure(self, names: Iterable[str]) -> None:
        for name in names:
            served = self._partitions.by_name(name)
            if served is not None:
                config = self.log_config(name)
                for partition in served.partitions.values():
                    partition.log.config = config

    def _check_configs(self, overrides: Mapping[str, str]) -> None:
        check_topic_configs(overrides, self.settings)

    def _placement(self) -> Placement:
        settings = self.settings
        return Placement(settings.node_id, settings.num_partitions, settings.default_replication_factor)

    def _defaults_for(self, name: str) -> NewTopic:
        configs = tuple(internal_topic_configs(name, self.settings).items())
        if not configs:
            return NewTopic(name)
        assert is_internal(name)
        # One node cannot hold the three replicas that Kafka's defaults ask for, and groups must work nevertheless.
        return NewTopic(name, internal_topic_partitions(name, self.settings), 1, configs=configs)

    async def _carry_through(self, operation: Coroutine[Any, Any, T]) -> T:
        """Runs `operation` in its turn; cancelling the caller does not stop it."""
        task = asyncio.get_running_loop().create_task(self._in_turn(operation))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return await asyncio.shield(task)

    async def _in_turn(self, operation: Coroutine[Any, Any, T]) -> T:
        async with self._turn:
            return await operation


def _exists(error: Rejected | None) -> bool:
    return error is None or error.code is ErrorCode.TOPIC_ALREADY_EXISTS
