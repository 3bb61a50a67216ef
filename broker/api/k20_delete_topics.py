"""DeleteTopics (key 20), versions 1-6: by name, and from version 6 by name or id.

Promises: a topic that is answered without an error will not come back, whatever happens to the broker; its partitions are served no longer,
and fetches that wait for them are answered with an error; its files go after `file.delete.delay.ms`.

Deviation: the broker's own topics are refused with INVALID_TOPIC_EXCEPTION, while Kafka deletes them and with them every group.
"""

from __future__ import annotations

from ottla.broker.api.context import Context
from ottla.broker.api.mutation_quota import charged
from ottla.broker.api.topic_answers import error_fields
from ottla.broker.controller.delete_topics import DeletedTopic, TopicRef
from ottla.broker.core.rejected import Rejected
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k20_delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse


async def handle(ctx: Context, request: DeleteTopicsRequest) -> DeleteTopicsResponse:
    """Answers when the removals are durable."""
    refs = [TopicRef(name) for name in request.topic_names] + [TopicRef(topic.name, topic.topic_id) for topic in request.topics]
    charge, wait_ms = charged(ctx, strict_since=5)
    try:
        if not ctx.services.settings.delete_topic_enable:
            code = ErrorCode.TOPIC_DELETION_DISABLED if ctx.version >= 3 else ErrorCode.INVALID_REQUEST
            raise Rejected(code, "Topic deletion is disabled.")
        deleted = await ctx.services.topic_service.delete_topics(refs, charge=charge)
    except Rejected as error:
        deleted = [DeletedTopic(ref.name, ref.topic_id, error) for ref in refs]
    return DeleteTopicsResponse(wait_ms(), [_result(topic) for topic in deleted])


def _result(topic: DeletedTopic) -> DeletableTopicResult:
    code, message = error_fields(topic.error)
    return DeletableTopicResult(topic.name, topic.topic_id, code, message)
