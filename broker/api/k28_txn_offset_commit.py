"""TxnOffsetCommit (key 28), versions 0-6: commits offsets as part of a transaction (KIP-98, KIP-447).

Promises:
* The offsets are visible only after the transaction commits; an abort discards them.
* The group's partition of `__consumer_offsets` must belong to the transaction. From version 5 on this request adds it. In older versions
  the client adds it by AddOffsetsToTxn, and this request verifies that (KIP-890).
* From version 3 on the request has the member's id and generation, and a member that its group has fenced is rejected. A fenced producer
  gets INVALID_PRODUCER_EPOCH in every version.
* Unknown partitions are rejected one by one.
* From version 6 on topics are named by id (KIP-1319); all partitions of an unknown id are UNKNOWN_TOPIC_ID. An unknown group and a stale
  member epoch have their own errors; before, both are ILLEGAL_GENERATION.
"""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import replace

from ottla.broker.api.access import allowed, denied, rejecting_response
from ottla.broker.api.context import Context
from ottla.broker.api.declaration import Api
from ottla.broker.api.deferred import respond_when_ready, transform
from ottla.broker.api.offset_commit_topics import find_topic, topic_name
from ottla.broker.api.served_api import Split
from ottla.broker.api.services import CoordinationServices
from ottla.broker.core.acl import Operation, Resource
from ottla.broker.core.rejected import Rejected
from ottla.broker.groups.coordinator import Commit, OffsetToCommit
from ottla.broker.runtime.coordination.txn_verification import TransactionalProducer, Verdicts
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k28_txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from ottla.protocol.records.batch import NO_SEQUENCE

API = Api(TxnOffsetCommitRequest, splits=(Split("topics.partitions", "topics.partitions"),))

BY_ID_SINCE = 6
EPOCH_ERRORS_SINCE = 6
"""The first version that can be answered with GROUP_ID_NOT_FOUND and STALE_MEMBER_EPOCH (KIP-1319)."""

Errors = list[ErrorCode]


@API.on_broker()
def handle(
    ctx: Context[CoordinationServices], request: TxnOffsetCommitRequest
) -> TxnOffsetCommitResponse | Awaitable[TxnOffsetCommitResponse]:
    """Verify that the group's partition of `__consumer_offsets` belongs to the transaction, and write the offsets to it. Respond when they
    are durable.
    """
    if (denial := _denial(ctx, request)) is not None:
        return rejecting_response(ctx.version, request, TxnOffsetCommitResponse, denial)
    names = [topic_name(ctx.services.topics, topic, by_id=ctx.version >= BY_ID_SINCE) for topic in request.topics]
    hidden = denied(ctx, Operation.READ, Resource.TOPIC, [name for name in names if name is not None])
    if not hidden:
        return _verify(ctx, request)
    rest = replace(request, topics=[topic for topic, name in zip(request.topics, names, strict=True) if name not in hidden])
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED

    def whole(response: TxnOffsetCommitResponse) -> TxnOffsetCommitResponse:
        answers = iter(response.topics)
        topics = zip(request.topics, names, strict=True)
        response.topics = [_of_topic(topic, code) if name in hidden else next(answers) for topic, name in topics]
        return response

    return transform(_verify(ctx, rest), whole)


def _denial(ctx: Context[CoordinationServices], request: TxnOffsetCommitRequest) -> ErrorCode | None:
    if not allowed(ctx, Operation.WRITE, Resource.TRANSACTIONAL_ID, request.transactional_id):
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    return None if allowed(ctx, Operation.READ, Resource.GROUP, request.group_id) else ErrorCode.GROUP_AUTHORIZATION_FAILED


def _of_topic(topic: TxnOffsetCommitRequestTopic, code: ErrorCode) -> TxnOffsetCommitResponseTopic:
    return TxnOffsetCommitResponseTopic(
        topic.name, topic.topic_id, [TxnOffsetCommitResponsePartition(partition.partition_index, code) for partition in topic.partitions]
    )


def _verify(
    ctx: Context[CoordinationServices], request: TxnOffsetCommitRequest
) -> TxnOffsetCommitResponse | Awaitable[TxnOffsetCommitResponse]:
    offsets = _existing(ctx, request)
    try:
        if not request.group_id:
            raise Rejected(ErrorCode.INVALID_GROUP_ID)
        if not offsets:
            return _response(ctx, request, offsets, [])
        partition = ctx.services.groups.offsets_partition(request.group_id)
    except Rejected as rejected:
        return _refusal(ctx, request, offsets, rejected.code)
    writer = TransactionalProducer(request.transactional_id, request.producer_id, request.producer_epoch, adds=ctx.version >= 5)
    verdicts = ctx.services.txn_verification.verify(writer, [(partition, NO_SEQUENCE)])
    if isinstance(verdicts, dict):
        return _commit(ctx, request, offsets, verdicts)
    return _commit_verified(ctx, request, offsets, verdicts)


async def _commit_verified(
    ctx: Context[CoordinationServices], request: TxnOffsetCommitRequest, offsets: list[OffsetToCommit], verdicts: Awaitable[Verdicts]
) -> TxnOffsetCommitResponse:
    answer = _commit(ctx, request, offsets, await verdicts)
    return answer if isinstance(answer, TxnOffsetCommitResponse) else await answer


def _commit(
    ctx: Context[CoordinationServices], request: TxnOffsetCommitRequest, offsets: list[OffsetToCommit], verdicts: Verdicts
) -> TxnOffsetCommitResponse | Awaitable[TxnOffsetCommitResponse]:
    verdict = next(iter(verdicts.values()), None)
    if isinstance(verdict, Rejected):
        return _refusal(ctx, request, offsets, verdict.code)
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
        lambda errors: _response(ctx, request, offsets, errors),
        lambda rejected: _refusal(ctx, request, offsets, rejected.code),
    )


def _existing(ctx: Context[CoordinationServices], request: TxnOffsetCommitRequest) -> list[OffsetToCommit]:
    offsets = []
    for topic in request.topics:
        known = find_topic(ctx.services.topics, topic, by_id=ctx.version >= BY_ID_SINCE)
        for partition in topic.partitions:
            if known is None or partition.partition_index not in known.partitions:
                continue
            offsets.append(
                OffsetToCommit(
                    known.name,
                    partition.partition_index,
                    partition.committed_offset,
                    partition.committed_leader_epoch,
                    partition.committed_metadata,
                    known.topic_id,
                )
            )
    return offsets


def _refusal(
    ctx: Context[CoordinationServices], request: TxnOffsetCommitRequest, offsets: list[OffsetToCommit], code: ErrorCode
) -> TxnOffsetCommitResponse:
    return _response(ctx, request, offsets, [known_to(ctx.version, code)] * len(offsets))


def known_to(version: int, code: ErrorCode) -> ErrorCode:
    """Translate an error code for a response of this version. TRANSACTION_ABORTABLE becomes INVALID_TXN_STATE if the version does not know
    it. A transient error on which the client would not retry becomes COORDINATOR_LOAD_IN_PROGRESS (before version 2:
    COORDINATOR_NOT_AVAILABLE).
    """
    if code is ErrorCode.TRANSACTION_ABORTABLE and version < 4:
        return ErrorCode.INVALID_TXN_STATE
    if code is ErrorCode.NETWORK_EXCEPTION or (code is ErrorCode.CONCURRENT_TRANSACTIONS and version < 5):
        code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    if code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and version < 2:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    return code


def _response(
    ctx: Context[CoordinationServices], request: TxnOffsetCommitRequest, offsets: list[OffsetToCommit], errors: Errors
) -> TxnOffsetCommitResponse:
    """Return the response, in the order of the request. `errors` are the results of `offsets`, one for each. All other offsets of the
    request are of unknown topics or partitions.
    """
    decided = {(offset.topic, offset.partition): error for offset, error in zip(offsets, errors, strict=True)}

    def answer(topic: TxnOffsetCommitRequestTopic) -> TxnOffsetCommitResponseTopic:
        name = topic_name(ctx.services.topics, topic, by_id=ctx.version >= BY_ID_SINCE)
        if name is None:
            return _of_topic(topic, ErrorCode.UNKNOWN_TOPIC_ID)
        found = [
            (partition.partition_index, decided.get((name, partition.partition_index), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
            for partition in topic.partitions
        ]
        return TxnOffsetCommitResponseTopic(topic.name, topic.topic_id, [TxnOffsetCommitResponsePartition(*each) for each in found])

    return TxnOffsetCommitResponse(topics=[answer(topic) for topic in request.topics])
