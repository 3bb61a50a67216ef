"""TxnOffsetCommit (key 28), versions 0-6: commits offsets as part of a transaction (KIP-98, KIP-447).

Promises:
* The offsets are visible only after the transaction commits; an abort discards them.
* The group's partition of `__consumer_offsets` must belong to the transaction. From version 5 on this request adds the partition to the
  transaction. In older versions the client adds it by AddOffsetsToTxn, and this request verifies that it was added (KIP-890).
* From version 3 on the request has the member's id and generation, and a member that its group has fenced is rejected. A fenced producer
  gets INVALID_PRODUCER_EPOCH in every version.
* Unknown partitions are rejected one by one. The response has them first. An existing topic that the request names without partitions is
  not in the response.
* From version 6 on topics are named by id (KIP-1319); all partitions of an unknown id are UNKNOWN_TOPIC_ID. An unknown group and a stale
  member epoch have their own errors; before, both are ILLEGAL_GENERATION.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterator
from itertools import repeat

from ottla.broker.api.access import allowed, rejecting_response
from ottla.broker.api.context import Context
from ottla.broker.api.declaration import Api
from ottla.broker.api.deferred import respond_when_ready
from ottla.broker.api.offset_commit_topics import sort_out
from ottla.broker.api.partition_results import PartitionResults, Result, TopicKey
from ottla.broker.api.served_api import Split
from ottla.broker.api.services import CoordinationServices
from ottla.broker.core.acl import Operation, Resource
from ottla.broker.core.rejected import Rejected
from ottla.broker.groups.coordinator import Commit, OffsetToCommit
from ottla.broker.runtime.coordination.txn_verification import TransactionalProducer, Verdicts
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k28_txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from ottla.protocol.records.batch import NO_SEQUENCE

API = Api(TxnOffsetCommitRequest, splits=(Split("topics.partitions", "topics.partitions"),))

BY_ID_SINCE = 6
EPOCH_ERRORS_SINCE = 6
"""The first TxnOffsetCommit version whose clients know the errors GROUP_ID_NOT_FOUND and STALE_MEMBER_EPOCH (KIP-1319)."""


@API.on_broker()
def handle(
    ctx: Context[CoordinationServices], request: TxnOffsetCommitRequest
) -> TxnOffsetCommitResponse | Awaitable[TxnOffsetCommitResponse]:
    """Verify that the group's partition of `__consumer_offsets` belongs to the transaction, and write the offsets to that partition.
    Respond when the offsets are durable.
    """
    if (denial := _denial(ctx, request)) is not None:
        return rejecting_response(ctx.version, request, TxnOffsetCommitResponse, denial)
    return _verify(ctx, request)


def _denial(ctx: Context[CoordinationServices], request: TxnOffsetCommitRequest) -> ErrorCode | None:
    if not allowed(ctx, Operation.WRITE, Resource.TRANSACTIONAL_ID, request.transactional_id):
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    return None if allowed(ctx, Operation.READ, Resource.GROUP, request.group_id) else ErrorCode.GROUP_AUTHORIZATION_FAILED


def _verify(
    ctx: Context[CoordinationServices], request: TxnOffsetCommitRequest
) -> TxnOffsetCommitResponse | Awaitable[TxnOffsetCommitResponse]:
    results, offsets = sort_out(ctx, request.topics, by_id=ctx.version >= BY_ID_SINCE)
    try:
        if not request.group_id:
            raise Rejected(ErrorCode.INVALID_GROUP_ID)
        if not offsets:
            return _response(results, iter(()))
        partition = ctx.services.groups.offsets_partition(request.group_id)
    except Rejected as rejected:
        return _refusal(ctx, results, rejected.code)
    writer = TransactionalProducer(request.transactional_id, request.producer_id, request.producer_epoch, adds=ctx.version >= 5)
    verdicts = ctx.services.txn_verification.verify(writer, [(partition, NO_SEQUENCE)])
    if isinstance(verdicts, dict):
        return _commit(ctx, request, results, offsets, verdicts)
    return _commit_verified(ctx, request, results, offsets, verdicts)


async def _commit_verified(
    ctx: Context[CoordinationServices],
    request: TxnOffsetCommitRequest,
    results: PartitionResults,
    offsets: list[OffsetToCommit],
    verdicts: Awaitable[Verdicts],
) -> TxnOffsetCommitResponse:
    answer = _commit(ctx, request, results, offsets, await verdicts)
    return answer if isinstance(answer, TxnOffsetCommitResponse) else await answer


def _commit(
    ctx: Context[CoordinationServices],
    request: TxnOffsetCommitRequest,
    results: PartitionResults,
    offsets: list[OffsetToCommit],
    verdicts: Verdicts,
) -> TxnOffsetCommitResponse | Awaitable[TxnOffsetCommitResponse]:
    verdict = next(iter(verdicts.values()), None)
    if isinstance(verdict, Rejected):
        return _refusal(ctx, results, verdict.code)
    commit = Commit(
        group_id=request.group_id,
        generation=request.generation_id_or_member_epoch,
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        transactional=True,
        knows_epochs=ctx.version >= EPOCH_ERRORS_SINCE,
        unknown_group_error=ErrorCode.GROUP_ID_NOT_FOUND if ctx.version >= EPOCH_ERRORS_SINCE else ErrorCode.ILLEGAL_GENERATION,
        offsets=offsets,
    )
    return respond_when_ready(
        lambda: ctx.services.groups.commit_transactional(commit, request.producer_id, request.producer_epoch, verdict),
        lambda errors: _response(results, iter(errors)),
        lambda rejected: _refusal(ctx, results, rejected.code),
    )


def _refusal(ctx: Context[CoordinationServices], results: PartitionResults, code: ErrorCode) -> TxnOffsetCommitResponse:
    return _response(results, repeat(known_to(ctx.version, code)))


def known_to(version: int, code: ErrorCode) -> ErrorCode:
    """Return the error code that a response of this version has in place of `code`. TRANSACTION_ABORTABLE becomes INVALID_TXN_STATE in
    versions whose clients do not know it. A transient error after which the client would not retry becomes COORDINATOR_LOAD_IN_PROGRESS
    (before version 2: COORDINATOR_NOT_AVAILABLE).
    """
    if code is ErrorCode.TRANSACTION_ABORTABLE and version < 4:
        return ErrorCode.INVALID_TXN_STATE
    if code is ErrorCode.NETWORK_EXCEPTION or (code is ErrorCode.CONCURRENT_TRANSACTIONS and version < 5):
        code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    if code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and version < 2:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    return code


def _response(results: PartitionResults, errors: Iterator[ErrorCode]) -> TxnOffsetCommitResponse:
    return TxnOffsetCommitResponse(topics=results.with_errors(errors, _topic))


def _topic(topic: TopicKey, results: list[Result]) -> TxnOffsetCommitResponseTopic:
    return TxnOffsetCommitResponseTopic(*topic, [TxnOffsetCommitResponsePartition(*result) for result in results])
