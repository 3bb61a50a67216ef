"""ListOffsets (key 2), versions 1-11: the offset for a timestamp, or a special offset.

Promises:
* Special timestamps: -1 latest (the high watermark, or the last stable offset for READ_COMMITTED, with the current leader epoch); -2
  earliest; -3 the record with the maximum timestamp (version 7); -4 earliest local (8; here the earliest, because nothing is tiered); -5
  latest tiered (9) and -6 earliest pending upload (11), which do not exist here. Any other timestamp: the first record that is not older.
* Records that the consumer cannot read yet are not found: offset -1, timestamp -1, no error.
* A partition that is named twice gets one error response; the entries of a topic are merged, as in Kafka's map from partitions.
* An unknown isolation level is INVALID_REQUEST for all partitions.
* Only the leader responds, except to a debugging client (replica id -2). Requests of replicas see the log up to its end.
* While a new leader's high watermark is below the log end offset at its election, consumers get a retriable error instead of an offset
  that would go back (KIP-207): OFFSET_NOT_AVAILABLE, before version 5 LEADER_NOT_AVAILABLE.
* A large batch is searched for a timestamp on a thread. If the other searches of a request take longer than SLICE_MS, other connections
  are served between them.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Generator
from typing import TypeVar

from ottla.broker.api.access import denied, rejecting_response
from ottla.broker.api.context import CloseConnection, Context
from ottla.broker.api.declaration import Api
from ottla.broker.api.repeated_partitions import last_entries
from ottla.broker.api.served_api import Split
from ottla.broker.api.services import PartitionServices
from ottla.broker.core import limits
from ottla.broker.core.acl import Operation, Resource
from ottla.broker.core.rejected import Rejected
from ottla.broker.runtime.replicas.partition import Partition
from ottla.broker.storage.log_reader import Work
from ottla.broker.storage.log_values import (
    EARLIEST,
    EARLIEST_LOCAL,
    EARLIEST_PENDING_UPLOAD,
    LATEST,
    LATEST_TIERED,
    MAX_TIMESTAMP,
    Isolation,
    TimestampOffset,
)
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k02_list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

API = Api(ListOffsetsRequest, splits=(Split("topics.partitions", "topics.partitions", ("name", "partition_index")),))

_SINCE_VERSION = {LATEST: 1, EARLIEST: 1, MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING_UPLOAD: 11}

NEVER = 1 << 15

CONSUMER = -1
DEBUGGING = -2
READ_COMMITTED = 1
_ISOLATIONS = frozenset({0, READ_COMMITTED})
NOT_AVAILABLE_SINCE = 5


T = TypeVar("T")
Steps = Generator[Work | None, Work, T]
"""A generator that computes a T and leaves slow work to its caller. For a batch that is too large to be searched on the event loop, it
yields a function that searches the batch. The caller runs the function on a thread, and then sends the generator a function that returns
the search's result or raises its error. If the generator has used up a time slice (SLICE_MS), it yields None; the caller continues it in a
later turn of the event loop.
"""


@API.on_broker()
def handle(ctx: Context[PartitionServices], request: ListOffsetsRequest) -> ListOffsetsResponse | Awaitable[ListOffsetsResponse]:
    """Return, for each partition that the request names, the offset for the requested timestamp, or an error."""
    steps = _steps(ctx, request)
    try:
        return _in_turns(ctx, steps, next(steps))
    except StopIteration as end:
        response: ListOffsetsResponse = end.value
        return response


async def _in_turns(ctx: Context[PartitionServices], steps: Steps[ListOffsetsResponse], work: Work | None) -> ListOffsetsResponse:
    """Run `steps`, which has yielded `work`, to its end in several turns of the event loop, and return the response. Each search of a large
    batch that it yields is done on a thread, one after the other.
    """
    try:
        while True:
            if work is None:
                await ctx.services.turns.wait_for_turn()
                _check_connected(ctx)
                work = next(steps)
                continue
            async with ctx.services.partitions.search_lock:
                _check_connected(ctx)
                searched = ctx.services.partitions.compute(work)
                await asyncio.wait([searched])
            work = steps.send(searched.result)
    except StopIteration as end:
        response: ListOffsetsResponse = end.value
        return response


def _check_connected(ctx: Context[PartitionServices]) -> None:
    if ctx.peer.is_closed:
        raise CloseConnection("the client has disconnected")


def _steps(ctx: Context[PartitionServices], request: ListOffsetsRequest) -> Steps[ListOffsetsResponse]:
    if request.isolation_level not in _ISOLATIONS:
        return rejecting_response(ctx.version, request, ListOffsetsResponse, ErrorCode.INVALID_REQUEST)
    hidden = denied(ctx, Operation.DESCRIBE, Resource.TOPIC, [topic.name for topic in request.topics])
    named = Counter((topic.name, requested.partition_index) for topic in request.topics for requested in topic.partitions)
    response = ListOffsetsResponse()
    for topic in request.topics:
        if topic.name in hidden:
            response.topics.append(ListOffsetsTopicResponse(topic.name, [_denied(requested) for requested in topic.partitions]))
    shown = [topic for topic in request.topics if topic.name not in hidden]
    merged = last_entries((topic.name, requested.partition_index, requested) for topic in shown for requested in topic.partitions)
    slice_end_ns = ctx.services.clock.spent_ns() + limits.SLICE_NS
    for name, partitions in merged.items():
        answer = ListOffsetsTopicResponse(name)
        response.topics.append(answer)
        for index, requested in partitions.items():
            if ctx.services.clock.spent_ns() >= slice_end_ns:
                yield None
                slice_end_ns = ctx.services.clock.spent_ns() + limits.SLICE_NS
            answer.partitions.append((yield from _answer(ctx, request, name, requested, named[name, index])))
    return response


def _denied(requested: ListOffsetsPartition) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(requested.partition_index, ErrorCode.TOPIC_AUTHORIZATION_FAILED)


def _answer(
    ctx: Context[PartitionServices], request: ListOffsetsRequest, topic: str, requested: ListOffsetsPartition, times: int
) -> Steps[ListOffsetsPartitionResponse]:
    try:
        if times > 1:
            raise Rejected(ErrorCode.INVALID_REQUEST, "the partition is named twice")
        timestamp = requested.timestamp if requested.timestamp >= 0 else _special(ctx, requested.timestamp)
        partition = ctx.services.partitions.get(topic, requested.partition_index)
        _check_replica(partition, request, requested)
        found = yield from _found(ctx, partition, timestamp, _isolation(request))
        _check_replica(partition, request, requested)  # another leader may have been elected during a search on the thread
    except Rejected as rejected:
        return ListOffsetsPartitionResponse(requested.partition_index, rejected.code)
    epoch = partition.replica.leader_epoch if timestamp == LATEST else found.leader_epoch
    return ListOffsetsPartitionResponse(requested.partition_index, ErrorCode.NONE, found.timestamp, found.offset, epoch)


def _check_replica(partition: Partition, request: ListOffsetsRequest, requested: ListOffsetsPartition) -> None:
    partition.replica.check_epoch(requested.current_leader_epoch)
    if request.replica_id != DEBUGGING:
        partition.replica.check_leads()


def _special(ctx: Context[PartitionServices], timestamp: int) -> int:
    """Return the timestamp to look up in place of `timestamp`, a special (negative) one such as -1 for latest. Raises
    Rejected(UNSUPPORTED_VERSION) if the request's version does not have it. A broker that imitates a Kafka release before 3.9 does not
    reject an unknown special timestamp, but looks up the timestamp 0.
    """
    like, since = ctx.services.settings.release_behaviour, _SINCE_VERSION.get(timestamp, NEVER)
    if like.checks_special_timestamps:
        if ctx.version < since:
            raise Rejected(ErrorCode.UNSUPPORTED_VERSION)
        return timestamp
    return timestamp if like.has_special_timestamp(since) else 0  # no record is older than 1970


def _found(ctx: Context[PartitionServices], partition: Partition, timestamp: int, isolation: Isolation) -> Steps[TimestampOffset]:
    log = partition.log
    if isolation is Isolation.LOG_END or timestamp in {EARLIEST, EARLIEST_LOCAL} or not partition.replica.high_watermark_lags_epoch_start:
        return (yield from log.search_timestamp(timestamp, isolation))
    found = yield from log.search_timestamp(timestamp, Isolation.LOG_END)
    if timestamp == LATEST or found.offset >= log.visible_end_offset(isolation):
        raise Rejected(ErrorCode.OFFSET_NOT_AVAILABLE if ctx.version >= NOT_AVAILABLE_SINCE else ErrorCode.LEADER_NOT_AVAILABLE)
    return found


def _isolation(request: ListOffsetsRequest) -> Isolation:
    """Return the isolation level that limits the offsets in the response: that of the request for a consumer, the log end for a replica."""
    if request.replica_id != CONSUMER:
        return Isolation.LOG_END
    return Isolation.READ_COMMITTED if request.isolation_level == READ_COMMITTED else Isolation.READ_UNCOMMITTED
