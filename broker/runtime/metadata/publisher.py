"""What committed metadata means for this broker: which partitions it serves, and what they and the broker run with.

Rules that hold here:

* The metadata log is always ahead of the directories: a crash at any point leaves a topic whole or gone (`topic_recovery` settles the rest
  at a start).
* A deleted topic is served no longer from the moment its removal is on disk; who waits for it is woken before its directories move.
* The partitions of a topic are served all at once: who counts them must find either none or all.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from ottla.broker.cluster.image import ResourceType, TopicImage
from ottla.broker.configs.topic_config import effective_log_config
from ottla.broker.core import limits
from ottla.broker.core.rejected import Rejected
from ottla.broker.core.topic_keys import TOPIC_KEYS

if TYPE_CHECKING:
    from ottla.broker.cluster.catalog import Catalog
    from ottla.broker.cluster.image import MetadataImage
    from ottla.broker.cluster.image_changes import ImageChanges
    from ottla.broker.configs.broker_config import BrokerConfigs
    from ottla.broker.core.log_config import LogConfig
    from ottla.broker.core.settings import BrokerSettings
    from ottla.broker.runtime.replicas.flusher import Flusher
    from ottla.broker.runtime.replicas.partitions import Partitions
    from ottla.broker.storage.log_dir import LogDir
    from ottla.broker.storage.partition_log import PartitionLog

logger = logging.getLogger(__name__)

_TOPIC_DEFAULTS = frozenset(synonym.name for key in TOPIC_KEYS.values() for synonym in key.synonyms)
"""Broker settings that are a topic key's default: when one changes, open logs have to hear of it."""


_OF_PRODUCERS = frozenset({"producer.id.expiration.ms", "transaction.partition.verification.enable"})
"""Broker settings that open logs keep themselves."""


class Publisher:
    """`on_deleted` hear of each topic that is served no longer."""

    def __init__(
        self, catalog: Catalog, broker_configs: BrokerConfigs, *, log_dir: LogDir, partitions: Partitions, flusher: Flusher
    ) -> None:
        self.on_deleted: list[Callable[[TopicImage], None]] = []
        self._catalog = catalog
        self._broker_configs = broker_configs
        self._log_dir = log_dir
        self._partitions = partitions
        self._flusher = flusher

    async def publish(self, before: MetadataImage, after: MetadataImage, changes: ImageChanges) -> dict[str, Rejected]:
        """Carry out what was committed and applied. The topics of which the disk refused a partition, with the first refusal."""
        if changes.configs:
            self._configured(changes)
        topics = changes.topics.values()
        removed = [change.before for change in topics if change.before is not None and change.after is None]
        if removed:
            await self._removed(removed)
        for change in topics:
            if change.before is None and change.after is not None:
                logger.info("created topic %s with %d partition(s)", change.after.name, len(change.after.partitions))
        names = [change.after.name for change in topics if change.after is not None]
        await self._make_directories(names)
        return {name: refused for name in names if (refused := self.open_missing(name)) is not None}

    def open_missing(self, name: str) -> Rejected | None:
        """Makes the directories of the partitions of a known topic that have none yet, and serves them.

        The error of the first one that the disk refused, which stays offline until a start can make it; None when there is none.
        """
        topic = self._catalog.topic(name)
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

    def log_config(self, name: str) -> LogConfig:
        """What the logs of the topic run with."""
        return effective_log_config(self._catalog.configs(ResourceType.TOPIC, name), self._settings)

    @property
    def _settings(self) -> BrokerSettings:
        return self._broker_configs.settings

    async def _make_directories(self, names: Iterable[str]) -> None:
        """Makes directories a few at a time, so that the loop serves others meanwhile: a thousand of them take a second."""
        made = 0
        for topic in filter(None, map(self._catalog.topic, names)):
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

    def _log_of(self, topic: TopicImage, index: int, config: LogConfig) -> PartitionLog:
        log = self._log_dir.logs.get((topic.name, index))
        if log is None:
            log = self._log_dir.create_log(topic.name, index, topic.topic_id, config)
        # Noted before the first append, as Kafka's leader does: who asks where the epoch of an empty log ends is told.
        log.become_leader(topic.partitions[index].leader_epoch)
        return log

    async def _removed(self, topics: Iterable[TopicImage]) -> None:
        for topic in topics:
            self._partitions.remove_topic(topic.name)
            self._remove_directories(topic)
            for listener in self.on_deleted:
                listener(topic)
            logger.info("deleted topic %s", topic.name)
        # A name that a power loss brought back, or an offset in a checkpoint, could be taken for that of a new topic of the same name.
        await self._flusher.run(self._log_dir.removal_checkpoint())

    def _remove_directories(self, topic: TopicImage) -> None:
        for index in topic.partitions:
            key = (topic.name, index)
            if key not in self._log_dir.logs and key not in self._log_dir.failed:
                continue
            try:
                self._log_dir.delete_log(*key)
            except Rejected as error:
                # The topic is gone all the same, and the next start finds its removal in the metadata log and deletes what is left.
                logger.error("the directory of the deleted %s-%d stays: %s", topic.name, index, error)

    def _configured(self, changes: ImageChanges) -> None:
        changed = self._broker_configs.refresh()
        if changed & _OF_PRODUCERS:
            for partition in self._partitions:
                partition.log.producer_expiration_ms = self._settings.producer_id_expiration_ms
                partition.log.verifies_transactions = self._settings.transaction_partition_verification_enable
        if changed & _TOPIC_DEFAULTS:
            self._reconfigure(topic.name for topic in self._catalog.topics())
        else:
            self._reconfigure(name for kind, name in changes.configs if kind == ResourceType.TOPIC)

    def _reconfigure(self, names: Iterable[str]) -> None:
        for name in names:
            served = self._partitions.by_name(name)
            if served is not None:
                config = self.log_config(name)
                for partition in served.partitions.values():
                    partition.reconfigure(config)
