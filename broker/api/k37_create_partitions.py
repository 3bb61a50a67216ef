"""CreatePartitions (key 37), versions 0-3: adds partitions to topics.

Promises: a topic without an error in the response has all of its new partitions, durable and ready to use. The number of partitions can
only increase. validate_only checks everything and changes nothing.

Deviation: internal topics keep their number of partitions (INVALID_TOPIC_EXCEPTION), because it determines the partition of each
group and transaction.
"""

from __future__ import annotations

from collections import Counter

from ottla.broker.api.access import denied
from ottla.broker.api.context import Context
from ottla.broker.api.declaration import Api
from ottla.broker.api.mutation_quota import charged
from ottla.broker.api.served_api import Forwarded, Split
from ottla.broker.api.services import ControllerServices
from ottla.broker.api.topic_errors import error_fields
from ottla.broker.controller.create_topics import MorePartitions, create_partitions, duplicate_error
from ottla.broker.controller.placement import Placement
from ottla.broker.core.acl import Operation, Resource
from ottla.broker.core.rejected import Rejected
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k37_create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)

API = Api(
    CreatePartitionsRequest,
    forwarded=Forwarded.ALWAYS,
    splits=(Split("topics", "results", ("name",)),),
    array_limits={"topics.assignments": 10_000},
)


@API.on_controller()
async def handle(ctx: Context[ControllerServices], request: CreatePartitionsRequest) -> CreatePartitionsResponse:
    """Add partitions to the topics that the request names. When they are durable, return a result for each topic. A topic that the client
    may not ALTER is TOPIC_AUTHORIZATION_FAILED."""
    named = Counter(topic.name for topic in request.topics)
    hidden = denied(ctx, Operation.ALTER, Resource.TOPIC, named)
    wanted = [_more_partitions(topic) for topic in request.topics if topic.name not in hidden]
    denial = Rejected(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    charge, wait_ms = charged(ctx, strict_since=3)
    try:
        results = await ctx.services.active.run(
            lambda state: create_partitions(state.catalog, wanted, Placement.in_cluster(state), charge), validate_only=request.validate_only
        )
    except Rejected as error:
        results = [(topic.name, error.without_traceback()) for topic in wanted]
    results += [(name, duplicate_error(count) or denial) for name, count in named.items() if name in hidden]
    return CreatePartitionsResponse(wait_ms(), [CreatePartitionsTopicResult(name, *error_fields(error)) for name, error in results])


def _more_partitions(topic: CreatePartitionsTopic) -> MorePartitions:
    assignments = None if topic.assignments is None else [each.broker_ids for each in topic.assignments]
    return MorePartitions(topic.name, topic.count, assignments)
