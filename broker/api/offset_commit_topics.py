"""Finds the topics of an OffsetCommit or TxnOffsetCommit request. Newer versions of these requests have topic ids instead of names
(KIP-848, KIP-1319).
"""

from __future__ import annotations

from ottla.broker.cluster.catalog import Catalog
from ottla.broker.cluster.image import TopicImage
from ottla.protocol.messages.k08_offset_commit import OffsetCommitRequestTopic
from ottla.protocol.messages.k28_txn_offset_commit import TxnOffsetCommitRequestTopic

_RequestTopic = OffsetCommitRequestTopic | TxnOffsetCommitRequestTopic


def find_topic(catalog: Catalog, topic: _RequestTopic, *, by_id: bool) -> TopicImage | None:
    """Return the topic that the request names by its id (`by_id`) or its name; None if the topic does not exist."""
    return catalog.topic_by_id(topic.topic_id) if by_id else catalog.topic(topic.name)


def topic_name(catalog: Catalog, topic: _RequestTopic, *, by_id: bool) -> str | None:
    """Return the topic's name, even of a topic that does not exist; None for an unknown id."""
    if not by_id:
        return topic.name
    known = find_topic(catalog, topic, by_id=True)
    return None if known is None else known.name
