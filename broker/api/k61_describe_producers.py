"""DescribeProducers (key 61), version 0: the producer state of partitions, and the start offsets of open transactions (KIP-664).

Promises: the response has the state by which the broker checks the producers' next batches; -1 means "none" in every field. A partition
that is named twice is described once. Very many producers are described in several turns of the event loop.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Final

from ottla.broker.api.access import allowed
from ottla.broker.api.context import Context
from ottla.broker.api.declaration import Api
from ottla.broker.api.listing import respond_with_list
from ottla.broker.api.served_api import Split
from ottla.broker.api.services import PartitionServices
from ottla.broker.core import limits
from ottla.broker.core.acl import Operation, Resource
from ottla.broker.core.rejected import Rejected
from ottla.broker.storage.producer_state import ProducerStateEntry
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


PARTS_AT_ONCE: Final = 10
"""The number of parts of at most LISTED_AT_ONCE producers that are described in one turn of the event loop: 2 ms at 2 us for each producer.
"""

Part = tuple[PartitionResponse, Sequence[ProducerStateEntry]]
"""A partition in the response, and at most LISTED_AT_ONCE of its producers."""


@API.on_broker()
def handle(
    ctx: Context[PartitionServices], request: DescribeProducersRequest
) -> DescribeProducersResponse | Awaitable[DescribeProducersResponse]:
    """Return the state of the producers in each partition that the request names."""
    topics = {topic.name: dict.fromkeys(topic.partition_indexes) for topic in request.topics}
    parts: list[Part] = []
    response = DescribeProducersResponse(
        topics=[TopicResponse(name, [_partition(ctx, name, index, parts) for index in indexes]) for name, indexes in topics.items()]
    )
    return respond_with_list(ctx, parts, describe, lambda _: response, PARTS_AT_ONCE)


def _partition(ctx: Context[PartitionServices], topic: str, index: int, parts: list[Part]) -> PartitionResponse:
    """Return an error, or a partition without its producers; these are added to `parts`."""
    if (problem := name_problem(topic)) is not None:
        return PartitionResponse(index, ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {problem}")
    if not allowed(ctx, Operation.READ, Resource.TOPIC, topic):
        return PartitionResponse(index, ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Topic authorization failed.")
    try:
        log = ctx.services.partitions.get(topic, index).log
    except Rejected as error:
        return PartitionResponse(index, error.code, error.message or error.code.name)
    partition, entries = PartitionResponse(index), list(log.producers())
    parts += [(partition, entries[begin : begin + limits.LISTED_AT_ONCE]) for begin in range(0, len(entries), limits.LISTED_AT_ONCE)]
    return partition


def describe(parts: Sequence[Part]) -> list[ProducerState]:
    """Add the producers of `parts` to their partitions."""
    for partition, entries in parts:
        partition.active_producers += [
            ProducerState(
                producer_id=entry.producer_id,
                producer_epoch=entry.producer_epoch,
                last_sequence=entry.last_sequence,
                last_timestamp=entry.last_timestamp,
                coordinator_epoch=entry.coordinator_epoch,
                current_txn_start_offset=entry.current_txn_first_offset,
            )
            for entry in entries
        ]
    return []
