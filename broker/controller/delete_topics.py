"""Decides DeleteTopics (Kafka's `ControllerApis.deleteTopics`): by name or by id, each topic at most once.

Invariants:
- A name or id that appears twice is rejected. A topic that is requested both by name and by id is rejected too, with one result for both
  references. None of these topics is deleted.
- Internal topics cannot be deleted: group and transaction state would vanish under a running coordinator (Kafka allows it).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ottla.broker.cluster.catalog import Catalog
from ottla.broker.cluster.image import TopicImage
from ottla.broker.cluster.metadata_records import MetadataRecord, RemoveTopicRecord
from ottla.broker.cluster.topic_ids import ZERO_ID
from ottla.broker.core.effects import Effects
from ottla.broker.core.rejected import Rejected
from ottla.protocol.error_codes import ErrorCode


@dataclass(frozen=True, slots=True)
class TopicRef:
    """A topic in a request: by name, or (if the name is None) by id."""

    name: str | None = None
    topic_id: bytes = ZERO_ID

    @property
    def problem(self) -> str | None:
        """The error text if the reference is malformed: it has neither name nor id, or both."""
        if self.name is None and self.topic_id == ZERO_ID:
            return "Neither topic name nor id were specified."
        if self.name is not None and self.topic_id != ZERO_ID:
            return "You may not specify both topic name and topic id."
        return None


@dataclass(frozen=True, slots=True)
class DeletedTopic:
    """The result for one topic reference of the request: without an error the topic was deleted, and both name and id are set."""

    name: str | None
    topic_id: bytes
    error: Rejected | None = None


def delete_topics(
    catalog: Catalog, refs: Sequence[TopicRef], charge: Callable[[int], None] = lambda _: None
) -> Effects[MetadataRecord, list[DeletedTopic]]:
    """Decide a DeleteTopics request: return the metadata records to write, and one result per distinct reference, in the request's order.
    Only a malformed reference gets one result per occurrence. `charge` gets the partition count of each topic, and raises Rejected if that
    exceeds the client's quota (KIP-599)."""
    seen = Counter(refs)
    requested_ids = {ref.topic_id for ref in refs if ref.name is None}
    requested_names = {ref.name for ref in refs if ref.topic_id == ZERO_ID and seen[ref] == 1}
    records: list[MetadataRecord] = []
    results: list[DeletedTopic] = []
    for ref in seen:
        try:
            if (malformed := form_error(ref, seen[ref])) is not None:
                raise malformed
            topic = find_topic(catalog, ref)
            if topic.topic_id in requested_ids and topic.name in requested_names:
                if ref.name is not None:
                    error = Rejected(ErrorCode.INVALID_REQUEST, "The provided topic name maps to an ID that was already supplied.")
                    results.append(DeletedTopic(topic.name, topic.topic_id, error))
                continue
            if topic.is_internal:
                raise Rejected(ErrorCode.INVALID_TOPIC_EXCEPTION, f"The internal topic {topic.name} cannot be deleted.")
            charge(len(topic.partitions))
            records.append(RemoveTopicRecord(topic_id=topic.topic_id))
            results.append(DeletedTopic(topic.name, topic.topic_id))
        except Rejected as error:
            results += [DeletedTopic(ref.name, ref.topic_id, error.without_traceback())] * (1 if ref.problem is None else seen[ref])
    return Effects(records, results)


def form_error(ref: TopicRef, times: int) -> Rejected | None:
    """Return the error that Kafka returns before authorization for the reference `ref`, which the request has `times` times:
    INVALID_REQUEST if `ref` is malformed or `times` is above 1. Return None otherwise."""
    if (problem := ref.problem) is None and times > 1:
        problem = f"Duplicate topic {'name' if ref.name is not None else 'id'}."
    return None if problem is None else Rejected(ErrorCode.INVALID_REQUEST, problem)


def find_topic(catalog: Catalog, ref: TopicRef) -> TopicImage:
    """Return the topic that `ref` names. If it does not exist, raises Rejected with UNKNOWN_TOPIC_OR_PARTITION or, for a reference by id,
    UNKNOWN_TOPIC_ID."""
    topic = catalog.topic_by_id(ref.topic_id) if ref.name is None else catalog.topic(ref.name)
    if topic is None:
        code = ErrorCode.UNKNOWN_TOPIC_ID if ref.name is None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        raise Rejected(code, "This server does not host this topic ID." if ref.name is None else "This server does not host this topic.")
    return topic
