"""Makes a standalone node's data directory agree with its metadata log before anything is served.

Invariants:
- Each partition in the metadata log gets a directory. A directory whose partition or topic id is not in the log is renamed to `-stray`, as
  in Kafka. It is deleted instead if the log has a removal of its topic, because then the broker crashed between removal and deletion.
- A data directory with partitions but no metadata log is a copy from elsewhere, for example from Kafka. Its topics are added to the
  metadata with their own topic ids and default settings, and a warning is logged. New producer ids are then above all those in the
  partitions, and those of transactional ids.
- A partition directory without `partition.metadata` belongs to the topic in its name.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Final

from ottla.broker.cluster.features import new_levels
from ottla.broker.cluster.image import ResourceType
from ottla.broker.cluster.metadata_records import FeatureLevelRecord, MetadataRecord, ProducerIdsRecord, RemoveTopicRecord, TopicRecord
from ottla.broker.cluster.topic_ids import ZERO_ID
from ottla.broker.cluster.topic_names import CLUSTER_METADATA, TRANSACTION_STATE
from ottla.broker.configs.topic_config import internal_topic_configs
from ottla.broker.controller.create_topics import config_record
from ottla.broker.controller.placement import Placement
from ottla.broker.controller.producer_ids import BLOCK_SIZE
from ottla.broker.core.rejected import Rejected
from ottla.broker.core.settings import BrokerSettings
from ottla.broker.runtime.quorum.sole_voter import SoleVoter
from ottla.broker.storage.errors import LogDirRefused
from ottla.broker.storage.log_dir import LogDir
from ottla.broker.storage.log_values import Isolation
from ottla.broker.storage.partition_log import PartitionLog
from ottla.protocol.errors import ProtocolError
from ottla.protocol.records.batch import split_batches
from ottla.protocol.records.record import iter_records
from ottla.protocol.topic_names import name_problem
from ottla.protocol.uuids import encode_uuid, random_uuid

logger = logging.getLogger(__name__)

_READ_BYTES: Final = 1 << 20


def first_records(log_dir: LogDir, settings: BrokerSettings, random_bytes: Callable[[int], bytes]) -> list[MetadataRecord]:
    """Return the first records for a metadata log: feature levels and, if the log is empty, the topics whose partitions are in the data
    directory already. Raises LogDirRefused if these partitions cannot all be read or contradict each other.
    """
    levels = new_levels(settings.transaction_version, settings.release_behaviour)
    records: list[MetadataRecord] = [FeatureLevelRecord(name, level) for name, level in levels.items()]
    metadata_log = log_dir.logs[CLUSTER_METADATA, 0]
    if metadata_log.log_end_offset > 0:
        return records
    if log_dir.failed:
        raise LogDirRefused(f"{log_dir.path} has no metadata log, and not all of its partitions can be read: {sorted(log_dir.failed)}")
    by_topic: dict[str, list[PartitionLog]] = defaultdict(list)
    next_producer_id = 0
    for log in log_dir.logs.values():
        if log is not metadata_log:
            by_topic[log.topic].append(log)
            next_producer_id = max([next_producer_id, *(producer_id + 1 for producer_id in _producer_ids(log))])
    for name, logs in sorted(by_topic.items()):
        records.extend(_adopt(name, logs, settings, random_bytes))
    if next_producer_id:
        blocks = -(-next_producer_id // BLOCK_SIZE)
        records.append(ProducerIdsRecord(settings.node_id, -1, blocks * BLOCK_SIZE))
    return records


def _producer_ids(log: PartitionLog) -> Iterator[int]:
    """Yield the ids of the producers that a partition knows and, in `__transaction_state`, those that belong to transactional ids: such a
    producer may have written nothing for longer than partitions remember producers. Raises LogDirRefused if that log is damaged.
    """
    yield from (entry.producer_id for entry in log.producers())
    if log.topic != TRANSACTION_STATE:
        return
    from ottla.broker.txns.txn_records import decode_record  # noqa: PLC0415 # only an adopted directory needs it

    offset = log.log_start_offset
    try:
        while data := log.read(offset, _READ_BYTES, isolation=Isolation.LOG_END, min_one_batch=True).records:
            for position, header in split_batches(data):
                offset = header.next_offset
                if not header.is_control:
                    for record in iter_records(memoryview(data)[position : position + header.size_bytes]):
                        found = decode_record(record.key, record.value)
                        if found is not None and found.value is not None:
                            yield from (found.value.producer_id, found.value.prev_producer_id, found.value.next_producer_id)
    except (ProtocolError, Rejected) as error:
        raise LogDirRefused(f"{log.directory}, which is to be adopted, cannot be read at offset {offset}: {error}") from error


def _adopt(name: str, logs: list[PartitionLog], settings: BrokerSettings, random_bytes: Callable[[int], bytes]) -> list[MetadataRecord]:
    assert name_problem(name) is None, f"a directory was opened for the illegal topic name {name!r}"
    ids = {log.topic_id for log in logs} - {ZERO_ID}
    if len(ids) > 1:
        raise LogDirRefused(f"the partitions of {name} belong to topics of {len(ids)} different ids: {', '.join(map(encode_uuid, ids))}")
    topic_id = ids.pop() if ids else random_uuid(random_bytes)
    placement = Placement.on_one(settings.node_id)
    epochs = {log.partition: max(log.leader_epoch, 0) for log in logs}
    records: list[MetadataRecord] = [TopicRecord(name, topic_id)]
    records += [config_record(ResourceType.TOPIC, name, key, value) for key, value in internal_topic_configs(name, settings).items()]
    records += [placement.partition_record(topic_id, index, [settings.node_id], epochs.get(index, 0)) for index in range(max(epochs) + 1)]
    logger.warning("no metadata log: adopted topic %s with %d partition(s) and default configurations", name, max(epochs) + 1)
    return records


def settle_directories(log_dir: LogDir, voter: SoleVoter) -> None:
    """Write `partition.metadata` where it is missing, and delete the directories of topics that the metadata log has removed. Raises
    Rejected after a disk error, or if the metadata log is damaged.
    """
    image, removed = voter.image, None
    for (name, index), log in list(log_dir.logs.items()):
        if name == CLUSTER_METADATA:
            continue
        topic_id = image.topic_ids.get(name) if log.topic_id == ZERO_ID else log.topic_id
        topic = None if topic_id is None else image.topics.get(topic_id)
        if topic is not None and topic.name == name and index in topic.partitions:
            if log.topic_id == ZERO_ID:  # the broker crashed before it wrote partition.metadata, or the file was removed
                log_dir.assign_topic_id(log, topic.topic_id)
            continue
        if removed is None:
            removed = {record.topic_id for record in voter.records() if isinstance(record, RemoveTopicRecord)}
        if log.topic_id in removed:
            logger.info("deleting %s-%d: its topic was deleted just before the last stop", name, index)
            log_dir.delete_log(name, index)
