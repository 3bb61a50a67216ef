"""Creation of a streams group's missing internal topics, with the permissions of the client whose heartbeat finds them missing.

Source: Kafka's KafkaApis.handleStreamsGroupHeartbeat.
"""

from __future__ import annotations

from collections.abc import Mapping

from ottla.broker.api.access import allowed_of_cluster, denied
from ottla.broker.api.context import Context
from ottla.broker.api.mutation_quota import charged
from ottla.broker.api.services import CoordinationServices
from ottla.broker.core.acl import Operation, Resource
from ottla.broker.runtime.metadata.topic_making import Requester
from ottla.broker.streams.internal_topics import InternalTopic, Status
from ottla.protocol.messages.k88_streams_group_heartbeat import StreamsGroupHeartbeatResponse

_FAILURES_SHOWN = 3


def begin_internal_topics(
    ctx: Context[CoordinationServices], response: StreamsGroupHeartbeatResponse, topics: Mapping[str, InternalTopic]
) -> None:
    """Start to create the missing internal topics `topics`, if the client may create all of them. If the client may not, or if a creation
    has failed in the last two heartbeat intervals, add the reason to the status MISSING_INTERNAL_TOPICS of `response`.
    """
    if not topics:
        return
    if not allowed_of_cluster(ctx, Operation.CREATE, quietly=True):
        refused = denied(ctx, Operation.CREATE, Resource.TOPIC, topics)
        if refused:
            _add(response, f"Unauthorized to CREATE on topics {', '.join(name for name in topics if name in refused)}.")
            return
    requester = Requester(ctx.peer, ctx.client_id, charged(ctx, strict_since=0)[0])
    ctx.services.streams_topics.begin_create(topics, requester, 2 * response.heartbeat_interval_ms)
    failures = [f"{name} ({reason})" for name, reason in ctx.services.streams_topics.failures(topics).items()]
    if failures:
        more = len(failures) - _FAILURES_SHOWN
        _add(response, f"Creation failed: {', '.join(failures[:_FAILURES_SHOWN])}{f' and {more} more' if more > 0 else ''}.")


def _add(response: StreamsGroupHeartbeatResponse, detail: str) -> None:
    for status in response.status or ():
        if status.status_code == Status.MISSING_INTERNAL_TOPICS:
            status.status_detail = f"{status.status_detail}; {detail}"
