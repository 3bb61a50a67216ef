"""Sorts out the topics of an OffsetCommit or TxnOffsetCommit request: those whose offsets the group coordinator gets, and those that are
rejected. Newer versions of these requests have topic ids instead of names (KIP-848, KIP-1319).

Source: KAFKA KafkaApis.handleOffsetCommitRequest, handleTxnOffsetCommitRequest.
"""

from __future__ import annotations

from collections.abc import Sequence

from ottla.broker.api.access import denied
from ottla.broker.api.context import Context
from ottla.broker.api.partition_results import PartitionResults
from ottla.broker.api.services import CoordinationServices
from ottla.broker.cluster.catalog import Catalog
from ottla.broker.cluster.image import TopicImage
from ottla.broker.core.acl import Operation, Resource
from ottla.broker.groups.coordinator import OffsetToCommit
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k08_offset_commit import OffsetCommitRequestTopic
from ottla.protocol.messages.k28_txn_offset_commit import TxnOffsetCommitRequestTopic

_RequestTopic = OffsetCommitRequestTopic | TxnOffsetCommitRequestTopic


def sort_out(
    ctx: Context[CoordinationServices], topics: Sequence[_RequestTopic], *, by_id: bool
) -> tuple[PartitionResults, list[OffsetToCommit]]:
    """Return the accepted and rejected partitions of a request, and the offsets to commit: one for each accepted partition, in order.

    A topic that the client may not read is rejected with TOPIC_AUTHORIZATION_FAILED, whether it exists or not, and an unknown id with
    UNKNOWN_TOPIC_ID.
    """
    catalog = ctx.services.topics
    found = [_find(catalog, topic, by_id=by_id) for topic in topics]
    hidden = denied(ctx, Operation.READ, Resource.TOPIC, [name for name, _ in found if name is not None])
    results, offsets = PartitionResults(), []
    for topic, (name, image) in zip(topics, found, strict=True):
        key, indexes = (topic.name, topic.topic_id), [partition.partition_index for partition in topic.partitions]
        if name is None:
            results.reject(key, indexes, ErrorCode.UNKNOWN_TOPIC_ID)
        elif name in hidden:
            results.reject(key, indexes, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        elif image is None:
            results.reject(key, indexes, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        else:
            results.sort_out(key, indexes, image.partitions)
            offsets += _offsets(topic, image)
    return results, offsets


def _find(catalog: Catalog, topic: _RequestTopic, *, by_id: bool) -> tuple[str | None, TopicImage | None]:
    """Return the name and the metadata of a topic in the request, which names the topic by id if `by_id` is true, otherwise by name. The
    name is None for an unknown id; the metadata is None if the topic does not exist.
    """
    if not by_id:
        return topic.name, catalog.topic(topic.name)
    image = catalog.topic_by_id(topic.topic_id)
    return None if image is None else image.name, image


def _offsets(topic: _RequestTopic, image: TopicImage) -> list[OffsetToCommit]:
    return [
        OffsetToCommit(
            image.name,
            partition.partition_index,
            partition.committed_offset,
            partition.committed_leader_epoch,
            partition.committed_metadata,
            image.topic_id,
        )
        for partition in topic.partitions
        if partition.partition_index in image.partitions
    ]
