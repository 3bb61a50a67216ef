"""Opens a standalone node's data directory: makes the directories agree with the metadata log before anything is served.

Invariants:
- The metadata log decides. Each partition that it has gets a directory. A directory of a partition or topic id that it does not have is
  renamed to `-stray`, as in Kafka; a directory of a topic that it removed is deleted, because a crash came between removal and rename.
- A directory with partitions but no metadata log is a copy from elsewhere, for example from Kafka. Its topics are adopted under their own
  ids with default settings, and a warning is logged. Producer ids then start above all those that the partitions know.
- This node leads every partition. If the metadata log names other replicas (from a cluster), or the last shutdown was unclean, a new leader
  epoch begins, so that clients can detect records that replaced those they have read (KIP-320).
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from ottla.broker.cluster.catalog import Catalog
from ottla.broker.cluster.features import SUPPORTED, TRANSACTION_VERSION, new_levels
from ottla.broker.cluster.image import ResourceType
from ottla.broker.cluster.metadata_records import FeatureLevelRecord, MetadataRecord, PartitionChangeRecord, ProducerIdsRecord, TopicRecord
from ottla.broker.cluster.topic_ids import METADATA_TOPIC_ID, ZERO_ID, id_text, new_topic_id
from ottla.broker.cluster.topic_names import CLUSTER_METADATA
from ottla.broker.configs.broker_config import BrokerConfigs
from ottla.broker.configs.topic_config import internal_topic_configs
from ottla.broker.controller.create_topics import config_record
from ottla.broker.controller.placement import Placement
from ottla.broker.controller.producer_ids import BLOCK_SIZE
from ottla.broker.core.clock import Clock
from ottla.broker.core.rejected import Rejected
from ottla.broker.core.settings import BrokerSettings
from ottla.broker.runtime.metadata.metadata_log import METADATA_LOG_CONFIG, MetadataLog
from ottla.broker.runtime.metadata.publisher import Publisher
from ottla.broker.runtime.metadata.topic_service import TopicService
from ottla.broker.runtime.replicas.flusher import Flusher
from ottla.broker.runtime.replicas.partitions import Partitions
from ottla.broker.storage.errors import LogDirRefused
from ottla.broker.storage.log_dir import LogDir
from ottla.broker.storage.partition_log import PartitionLog
from ottla.protocol.topic_names import name_problem

METADATA_PARTITION: Final = (CLUSTER_METADATA, 0)

logger = logging.getLogger(__name__)


def open_topics(
    log_dir: LogDir,
    settings: BrokerSettings,
    *,
    clock: Clock,
    flusher: Flusher,
    partitions: Partitions,
    random_bytes: Callable[[int], bytes],
) -> TopicService:
    """Replay the metadata log, make the directories agree with it, and serve every partition. Blocks; called before the broker listens.

    Raises ProtocolError for an invalid metadata record, LogDirRefused if the directory cannot be used as it is.
    """
    try:
        return _open_topics(log_dir, settings, clock=clock, flusher=flusher, partitions=partitions, random_bytes=random_bytes)
    except Rejected as error:
        raise LogDirRefused(f"{log_dir.path}: {error}") from error


def _open_topics(
    log_dir: LogDir,
    settings: BrokerSettings,
    *,
    clock: Clock,
    flusher: Flusher,
    partitions: Partitions,
    random_bytes: Callable[[int], bytes],
) -> TopicService:
    if METADATA_PARTITION in log_dir.failed:
        raise LogDirRefused(f"the metadata log in {log_dir.path} cannot be read: {log_dir.failed[METADATA_PARTITION]}")
    catalog = Catalog()
    log = log_dir.logs.get(METADATA_PARTITION)
    if log is None:
        log = log_dir.create_log(*METADATA_PARTITION, METADATA_TOPIC_ID, METADATA_LOG_CONFIG, at_once=True)
    log.config = METADATA_LOG_CONFIG
    metadata_log = MetadataLog(log, catalog, clock, flusher)
    found = {key: log for key, log in log_dir.logs.items() if key != METADATA_PARTITION}
    if metadata_log.is_new:
        if log_dir.failed:
            raise LogDirRefused(f"{log_dir.path} has no metadata log, and not all of its partitions can be read: {sorted(log_dir.failed)}")
        metadata_log.write_now(_first_records(found.values(), settings, random_bytes))
    else:
        _set_aside_strays(log_dir, catalog, found, metadata_log.replay())
    metadata_log.write_now(_settle_transaction_version(catalog, settings))
    log_dir.removal_checkpoint()()
    broker_configs = BrokerConfigs(settings, catalog)
    broker_configs.refresh()
    metadata_log.write_now(_elections(catalog, settings.node_id, clean=log_dir.was_clean))
    for (name, index), log in log_dir.logs.items():
        if log.topic_id == ZERO_ID and (topic := catalog.topic(name)) is not None and index in topic.partitions:
            # A crash came before the new partition's `partition.metadata` was written, or the file was removed.
            log_dir.name_topic(log, topic.topic_id)
    publisher = Publisher(catalog, broker_configs, log_dir=log_dir, partitions=partitions, flusher=flusher, clock=clock)
    publisher.open()
    return TopicService(catalog, broker_configs, metadata_log, publisher, random_bytes=random_bytes)


def _first_records(found: Iterable[PartitionLog], settings: BrokerSettings, random_bytes: Callable[[int], bytes]) -> list[MetadataRecord]:
    """Return the first records of a new metadata log: feature levels, and the topics whose directories were found."""
    records: list[MetadataRecord] = [FeatureLevelRecord(name, level) for name, level in new_levels(settings.transaction_version).items()]
    by_topic: dict[str, list[PartitionLog]] = defaultdict(list)
    next_producer_id = 0
    for log in found:
        by_topic[log.topic].append(log)
        next_producer_id = max([next_producer_id, *(entry.producer_id + 1 for entry in log.producers())])
    for name, logs in sorted(by_topic.items()):
        records.extend(_adopt(name, logs, settings, random_bytes))
    if next_producer_id:
        blocks = -(-next_producer_id // BLOCK_SIZE)
        records.append(ProducerIdsRecord(settings.node_id, -1, blocks * BLOCK_SIZE))
    return records


def _settle_transaction_version(catalog: Catalog, settings: BrokerSettings) -> list[MetadataRecord]:
    """Make `transaction.version` agree between log and settings.

    The log's level is in force (0 if it has none), unless the setting was given explicitly; then a record of that level is returned.
    """
    stored = catalog.features.get(TRANSACTION_VERSION, 0)
    if TRANSACTION_VERSION not in settings.explicit:
        settings.transaction_version = min(stored, SUPPORTED[TRANSACTION_VERSION][1])
    elif settings.transaction_version != stored:
        return [FeatureLevelRecord(TRANSACTION_VERSION, settings.transaction_version)]
    return []


def _adopt(name: str, logs: list[PartitionLog], settings: BrokerSettings, random_bytes: Callable[[int], bytes]) -> list[MetadataRecord]:
    assert name_problem(name) is None, f"a directory was opened for the illegal topic name {name!r}"
    ids = {log.topic_id for log in logs} - {ZERO_ID}
    if len(ids) > 1:
        raise LogDirRefused(f"the partitions of {name} belong to topics of {len(ids)} different ids: {', '.join(map(id_text, ids))}")
    topic_id = ids.pop() if ids else new_topic_id(random_bytes)
    placement = Placement.on_one(settings.node_id)
    epochs = {log.partition: max(log.leader_epoch, 0) for log in logs}
    records: list[MetadataRecord] = [TopicRecord(name, topic_id)]
    records += [config_record(ResourceType.TOPIC, name, key, value) for key, value in internal_topic_configs(name, settings).items()]
    records += [placement.partition_record(topic_id, index, [settings.node_id], epochs.get(index, 0)) for index in range(max(epochs) + 1)]
    logger.warning("no metadata log: adopted topic %s with %d partition(s) and default configurations", name, max(epochs) + 1)
    return records


def _set_aside_strays(log_dir: LogDir, catalog: Catalog, found: Mapping[tuple[str, int], PartitionLog], removed: set[bytes]) -> None:
    for (name, index), log in found.items():
        topic = catalog.topic(name) if log.topic_id == ZERO_ID else catalog.topic_by_id(log.topic_id)
        if topic is not None and topic.name == name and index in topic.partitions:
            continue
        if log.topic_id in removed:
            logger.info("deleting %s-%d: its topic was deleted just before the last stop", name, index)
            log_dir.delete_log(name, index)
        else:
            logger.warning(
                "renaming %s-%d as stray: the metadata log has no such partition of topic id %s", name, index, id_text(log.topic_id)
            )
            log_dir.mark_stray(name, index)


def _elections(catalog: Catalog, node_id: int, *, clean: bool) -> list[MetadataRecord]:
    """Return a new leader epoch for each partition that needs one."""
    return [
        PartitionChangeRecord(partition_id=index, topic_id=topic.topic_id, isr=[node_id], leader=node_id, replicas=[node_id])
        for topic in catalog.topics()
        for index, state in topic.partitions.items()
        if not clean or state.leader != node_id or state.replicas != (node_id,) or state.isr != (node_id,)
    ]
