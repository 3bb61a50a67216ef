"""DeleteTopics (key 20), versions 1-6: by name, and from version 6 on by name or id.

Promises: the deletion of a topic without an error in the response is durable. Requests for its partitions, including pending fetches,
fail from then on. Its files are removed after `file.delete.delay.ms`.

Deviation: internal topics are rejected with INVALID_TOPIC_EXCEPTION, while Kafka deletes them together with all groups.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from ottla.broker.api.access import allowed_of_cluster, denied
from ottla.broker.api.context import Context
from ottla.broker.api.declaration import Api
from ottla.broker.api.mutation_quota import charged
from ottla.broker.api.served_api import Forwarded, Split
from ottla.broker.api.services import ControllerServices
from ottla.broker.api.topic_errors import error_fields
from ottla.broker.cluster.catalog import Catalog
from ottla.broker.controller.delete_topics import DeletedTopic, TopicRef, delete_topics, find_topic, form_error
from ottla.broker.core.acl import Operation, Resource
from ottla.broker.core.rejected import Rejected
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k20_delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse

API = Api(
    DeleteTopicsRequest,
    forwarded=Forwarded.ALWAYS,
    splits=(
        Split("topics", "responses", ("name topic_id",)),
        Split("topic_names", "responses", ("",)),
    ),
)


@API.on_controller()
async def handle(ctx: Context[ControllerServices], request: DeleteTopicsRequest) -> DeleteTopicsResponse:
    """Delete the topics that the request names. When the deletions are durable, return a result for each topic. If `delete.topic.enable` is
    false, every result is TOPIC_DELETION_DISABLED (before version 3: INVALID_REQUEST)."""
    refs = [TopicRef(name) for name in request.topic_names] + [TopicRef(topic.name, topic.topic_id) for topic in request.topics]
    ids_of: dict[str | None, bytes] = {ref.name: ref.topic_id for ref in refs if ref.name is not None}
    charge, wait_ms = charged(ctx, strict_since=5)
    try:
        if not ctx.services.settings.delete_topic_enable:
            code = ErrorCode.TOPIC_DELETION_DISABLED if ctx.version >= 3 else ErrorCode.INVALID_REQUEST
            raise Rejected(code, "Topic deletion is disabled.")
        denials = {} if ctx.services.authorizer is None else _denials(ctx, refs)
        wanted = [ref for ref in refs if ref not in denials]
        deleted = await ctx.services.active.run(lambda state: delete_topics(state.catalog, wanted, charge))
        if ctx.services.settings.release_behaviour.has_zookeeper:
            deleted = [replace(topic, topic_id=ids_of.get(topic.name, topic.topic_id)) for topic in deleted]
        deleted += denials.values()
    except Rejected as error:
        deleted = [DeletedTopic(ref.name, ref.topic_id, error.without_traceback()) for ref in refs]
    return DeleteTopicsResponse(wait_ms(), [_result(topic) for topic in deleted])


def _denials(ctx: Context[ControllerServices], refs: Sequence[TopicRef]) -> dict[TopicRef, DeletedTopic]:
    """Return an error for each topic that the client may not delete, whether or not the topic exists. To a client that may not describe the
    topic either, the error reveals neither the name that belongs to a topic id nor whether a topic of this name exists.
    """
    if allowed_of_cluster(ctx, Operation.DELETE, quietly=True):
        return {}
    topics = ctx.services.topics
    names: dict[TopicRef, str | None] = {}
    for ref in refs:
        found = topics.topic_by_id(ref.topic_id) if ref.name is None else None
        names[ref] = ref.name if found is None else found.name
    requested = [name for name in dict.fromkeys(names.values()) if name is not None]
    unseen = denied(ctx, Operation.DESCRIBE, Resource.TOPIC, requested)
    kept = denied(ctx, Operation.DELETE, Resource.TOPIC, requested)
    denials = {}
    for ref, count in Counter(refs).items():
        if ref.problem is not None:
            continue  # `delete_topics` rejects it, without revealing anything
        name = names[ref]
        if name is None or name in kept or (ref.name is not None and name in unseen):
            is_hidden = ref.name is None and name in unseen
            error = form_error(ref, count) or _denial(topics, ref, is_unseen=name in unseen)
            denials[ref] = DeletedTopic(None if is_hidden else name, ref.topic_id, error)
    return denials


def _denial(topics: Catalog, ref: TopicRef, *, is_unseen: bool) -> Rejected:
    try:
        if not is_unseen:
            find_topic(topics, ref)
    except Rejected as unknown:
        return unknown
    return Rejected(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Topic authorization failed.")


def _result(topic: DeletedTopic) -> DeletableTopicResult:
    code, message = error_fields(topic.error)
    return DeletableTopicResult(topic.name, topic.topic_id, code, message)
