"""AddOffsetsToTxn (key 25), versions 0-4: adds a group's offsets partition to a transaction, before offsets are committed in it.

Promises: the partition of `__consumer_offsets` that stores the group is added. The topic is created if necessary, because Java's producer
adds offsets before it looks for the group's coordinator. A fenced producer gets PRODUCER_FENCED from version 2 on, before that
INVALID_PRODUCER_EPOCH.
"""

from __future__ import annotations

from collections.abc import Awaitable

from ottla.broker.api.access import allowed
from ottla.broker.api.context import Context
from ottla.broker.api.declaration import Api
from ottla.broker.api.deferred import respond_when_ready
from ottla.broker.api.services import CoordinationServices
from ottla.broker.api.txn_errors import fenced_for
from ottla.broker.cluster.topic_names import CONSUMER_OFFSETS
from ottla.broker.core.acl import Operation, Resource
from ottla.broker.core.java_hash import partition_of
from ottla.broker.core.rejected import Rejected
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k25_add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse

API = Api(AddOffsetsToTxnRequest)


@API.on_broker()
def handle(
    ctx: Context[CoordinationServices], request: AddOffsetsToTxnRequest
) -> AddOffsetsToTxnResponse | Awaitable[AddOffsetsToTxnResponse]:
    """Add the group's partition of `__consumer_offsets` to the transaction. Return the response, or an awaitable of it if the addition must
    become durable, or the topic must be created first.
    """
    if not allowed(ctx, Operation.WRITE, Resource.TRANSACTIONAL_ID, request.transactional_id):
        return AddOffsetsToTxnResponse(error_code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if not allowed(ctx, Operation.READ, Resource.GROUP, request.group_id):
        return AddOffsetsToTxnResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    return _add(ctx, request) if ctx.services.groups.shards.exist else _create_then_add(ctx, request)


async def _create_then_add(ctx: Context[CoordinationServices], request: AddOffsetsToTxnRequest) -> AddOffsetsToTxnResponse:
    try:
        await ctx.services.groups.shards.create_topic()
    except Rejected:
        return AddOffsetsToTxnResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
    answer = _add(ctx, request)
    return await answer if isinstance(answer, Awaitable) else answer


def _add(
    ctx: Context[CoordinationServices], request: AddOffsetsToTxnRequest
) -> AddOffsetsToTxnResponse | Awaitable[AddOffsetsToTxnResponse]:
    topic = ctx.services.topics.topic(CONSUMER_OFFSETS)
    if topic is None:
        return AddOffsetsToTxnResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
    partition = (CONSUMER_OFFSETS, partition_of(request.group_id, len(topic.partitions)))

    def respond(error: ErrorCode) -> AddOffsetsToTxnResponse:
        return AddOffsetsToTxnResponse(error_code=fenced_for(ctx.version, error, since=2))

    return respond_when_ready(
        lambda: ctx.services.txns.add_partitions(
            request.transactional_id, request.producer_id, request.producer_epoch, frozenset({partition}), client_version=0
        ),
        respond,
        lambda rejected: respond(rejected.code),
    )
