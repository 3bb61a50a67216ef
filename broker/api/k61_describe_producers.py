"""DescribeProducers (key 61), version 0: the producer state of partitions, and the start offsets of open transactions (KIP-664).

Promises: the response has the state by which the broker checks the producers' next batches; -1 means "none" in every field. A partition
that is named twice is described once.
"""

from __future__ import annotations

from ottla.broker.api.access import allowed
from ottla.broker.api.context import Context
from ottla.broker.api.declaration import Api
from ottla.broker.api.served_api import Split
from ottla.broker.api.services import PartitionServices
from ottla.broker.core.acl import Operation, Resource
from ottla.broker.core.rejected import Rejected
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k61_describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from ottla.protocol.topic_names import name_problem

API = Api(DescribeProducersRequest, splits=(Split("topics.partition_indexes", "topics.partitions", ("name", "")),))


@API.on_broker()
def handle(ctx: Context[PartitionServices], request: DescribeProducersRequest) -> DescribeProducersResponse:
    """Return the producer state of each partition that the request names: the producers with their last sequence number and the start of an
    open transaction."""
    topics = {topic.name: dict.fromkeys(topic.partition_indexes) for topic in request.topics}
    return DescribeProducersResponse(
        topics=[TopicResponse(name, [_describe(ctx, name, index) for index in indexes]) for name, indexes in topics.items()]
    )


def _describe(ctx: Context[PartitionServices], topic: str, index: int) -> PartitionResponse:
    if (problem := name_problem(topic)) is not None:
        return PartitionResponse(index, ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {problem}")
    if not allowed(ctx, Operation.READ, Resource.TOPIC, topic):
        return PartitionResponse(index, ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Topic authorization failed.")
    try:
        log = ctx.services.partitions.get(topic, index).log
    except Rejected as error:
        return PartitionResponse(index, error.code, error.message or error.code.name)
    return PartitionResponse(
        index,
        active_producers=[
            ProducerState(
                producer_id=entry.producer_id,
                producer_epoch=entry.producer_epoch,
                last_sequence=entry.last_sequence,
                last_timestamp=entry.last_timestamp,
                coordinator_epoch=entry.coordinator_epoch,
                current_txn_start_offset=entry.current_txn_first_offset,
            )
            for entry in log.producers()
        ],
    )
