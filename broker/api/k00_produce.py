"""Produce (key 0), versions 3-13: appends one batch to each partition, in the order of the request.

Promises:
* Each partition succeeds or fails by itself. There is one exception, as in Kafka: if the first batch of a partition has an impossible size
  or magic, nothing of the request is written.
* With acks=1 the response is sent when this broker's replica has the batch (and has synced it, if flush.messages requires that); with
  acks=all when every in-sync replica has it. With acks=0 there is no response; an error closes the connection, because it cannot be
  reported otherwise.
* A batch that an idempotent producer sends again gets its original offset.
* If the batches of a request take longer than SLICE_MS, other connections are served between them.
* A transactional batch is written only if the transaction coordinator confirms that the partition belongs to the transaction
  (`txn_verification`). From version 12 on a write adds the partition to the transaction (KIP-890).

Versions 0-2 are advertised but not served, as in Kafka: librdkafka before 2.11 checks for Produce 0 before it compresses (KAFKA-18659).
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Awaitable, Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import NamedTuple

from ottla.broker.api.access import allowed, denied
from ottla.broker.api.context import CloseConnection, Context
from ottla.broker.api.declaration import Api
from ottla.broker.api.deferred import transform
from ottla.broker.api.served_api import Split
from ottla.broker.api.services import PartitionServices
from ottla.broker.cluster.topic_names import CLUSTER_METADATA
from ottla.broker.core import limits
from ottla.broker.core.acl import Operation, Resource
from ottla.broker.core.peer_log import shown
from ottla.broker.core.rejected import Rejected
from ottla.broker.replication.purgatory import IN_OWN_LOG, REPLICATED, Condition
from ottla.broker.runtime.coordination.txn_verification import TransactionalProducer, Verdicts
from ottla.broker.runtime.replicas.partition import Partition
from ottla.broker.runtime.replicas.partitions import TopicPartitions
from ottla.broker.storage.batch_check import Checked, TooLongForEventLoop
from ottla.broker.storage.txn_guard import VerificationGuard
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k00_produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from ottla.protocol.messages.node_endpoint import NodeEndpoint
from ottla.protocol.records.batch import (
    CRC_START,
    HEADER_BYTES,
    LOG_OVERHEAD,
    MAGIC_END,
    MAGIC_V2,
    TRANSACTIONAL,
    BatchHeader,
    read_header,
    split_batches,
)
from ottla.protocol.records.compression import Codec
from ottla.protocol.records.errors import CorruptBatch, UnknownCodec
from ottla.protocol.wire import Buffer

API = Api(
    ProduceRequest,
    advertised_min=0,
    splits=(Split("topic_data.partition_data", "responses.partition_responses", ("name topic_id", "index")),),
)


_LENGTH = struct.Struct(">i")
_LENGTH_AT, _MAGIC_AT, ATTRIBUTES_AT = 8, MAGIC_END - 1, CRC_START + 1
"""The offsets in bytes, from the beginning of a record batch, of its length, its magic, and the lower byte of its attributes."""

ADMIN_CLIENT_ID = "__admin_client"
"""The client id that may write to internal topics (Kafka: AdminUtils.ADMIN_CLIENT_ID)."""

REDIRECTED_SINCE = 10
"""The first Produce version whose responses name the new leader of a partition that has moved (KIP-951)."""

BY_ID_SINCE = 13
"""The first Produce version whose requests name topics by id."""

ABORTABLE_SINCE = 11
"""The first Produce version whose clients know the error TRANSACTION_ABORTABLE."""

ADDING_SINCE = 12
"""The first Produce version in which producers use transaction version 2: a write adds the partition to the transaction (KIP-890)."""

_RETRIED = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NETWORK_EXCEPTION,
    }
)
_WITHOUT_START = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)
"""If a partition's error is one of these, its response has the log start offset -1, as in Kafka (ReplicaManager.appendRecordsToLeader)."""

_ACKS = frozenset({-1, 0, 1})
_NOTHING: Verdicts = {}
_NOBODY = LeaderIdAndEpoch()
"""The value of `current_leader` in responses that name no leader (id and epoch -1). All these responses share the object, which must not be
changed.
"""


Waits = list[tuple["asyncio.Future[None]", PartitionProduceResponse]]
"""The acknowledgements for which a Produce response waits, one for each partition: a future, which is done when the batch is replicated or
synced, and the partition's part of the response.
"""


@API.on_broker()
def handle(ctx: Context[PartitionServices], request: ProduceRequest) -> ProduceResponse | Awaitable[ProduceResponse | None] | None:
    """Append the batch of each partition; respond at once unless a partition must be verified, replicated or synced first."""
    topics = request.topic_data
    try:
        is_transactional = _has_transactional(request)
    except CorruptBatch as error:
        return _refuse_all(request, Rejected(ErrorCode.CORRUPT_MESSAGE, str(error)))
    is_denied = is_transactional and not _may_write_transactions(ctx, request)
    if len(topics) > 1 or (topics and len(topics[0].partition_data) != 1):
        _merge_repeated(request)
    if is_denied:
        return _refuse_all(request, Rejected(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED))
    if ctx.services.authorizer is not None:
        return _handle_authorized(ctx, request, is_transactional)
    return _handle(ctx, request, is_transactional)


def _may_write_transactions(ctx: Context[PartitionServices], request: ProduceRequest) -> bool:
    """Return whether the client may write with the request's transactional id; False if the request has none. As in Kafka, this is checked
    before `_merge_repeated` drops repeated entries of a partition, so the check covers the batches in dropped entries, too.
    """
    transactional_id = request.transactional_id
    return transactional_id is not None and allowed(ctx, Operation.WRITE, Resource.TRANSACTIONAL_ID, transactional_id)


def _handle(
    ctx: Context[PartitionServices], request: ProduceRequest, may_be_transactional: bool
) -> ProduceResponse | Awaitable[ProduceResponse | None] | None:
    if request.acks not in _ACKS:
        refusal = Rejected(ErrorCode.INVALID_REQUIRED_ACKS, f"acks is {request.acks}; -1, 0 and 1 are allowed")
        return ProduceResponse([_refused_append(ctx, topic, refusal) for topic in request.topic_data])
    if may_be_transactional and request.transactional_id is not None:
        return _verify_and_append(ctx, request, request.transactional_id)
    return _append_all(ctx, request, _NOTHING)


def _handle_authorized(
    ctx: Context[PartitionServices], request: ProduceRequest, may_be_transactional: bool
) -> ProduceResponse | Awaitable[ProduceResponse | None] | None:
    """Append the batches of the topics to which the client may write. The other topics are rejected with TOPIC_AUTHORIZATION_FAILED,
    whether or not they exist."""
    names = [_name_of(ctx, topic) for topic in request.topic_data]
    hidden = denied(ctx, Operation.WRITE, Resource.TOPIC, [name for name in names if name is not None])
    if not hidden:
        return _handle(ctx, request, may_be_transactional)
    refused = [name in hidden for name in names]
    rest = replace(request, topic_data=[topic for topic, no in zip(request.topic_data, refused, strict=True) if not no])
    denial = Rejected(ErrorCode.TOPIC_AUTHORIZATION_FAILED)

    def whole(response: ProduceResponse | None) -> ProduceResponse | None:
        if response is None:
            return _refuse_all(request, denial)  # acks=0: no topic error can be reported
        answers = iter(response.responses)
        topics = zip(request.topic_data, refused, strict=True)
        response.responses = [_refused_topic(topic, denial) if no else next(answers) for topic, no in topics]
        return response

    return transform(_handle(ctx, rest, may_be_transactional), whole)


def _name_of(ctx: Context[PartitionServices], topic: TopicProduceData) -> str | None:
    """Return the name of a topic in a Produce request, which names topics by id from version 13 on; None if no topic has the id."""
    if ctx.version < BY_ID_SINCE:
        return topic.name
    found = ctx.services.topics.topic_by_id(topic.topic_id)
    return None if found is None else found.name


def _merge_repeated(request: ProduceRequest) -> None:
    """Keep only the last entry of a partition that is named twice, and merge the entries of a topic; a topic without partitions is dropped.
    Kafka keeps the batches in a map from partitions (KafkaApis.handleProduceRequest).
    """
    topics = request.topic_data
    if len(topics) == 1 and 0 < len({data.index for data in topics[0].partition_data}) == len(topics[0].partition_data):
        return
    merged: dict[tuple[str, bytes], dict[int, PartitionProduceData]] = {}
    for topic in topics:
        for data in topic.partition_data:
            batches = merged.setdefault((topic.name, topic.topic_id), {})
            batches.pop(data.index, None)
            batches[data.index] = data
    request.topic_data = [TopicProduceData(*topic, list(batches.values())) for topic, batches in merged.items()]


def _append_all(
    ctx: Context[PartitionServices], request: ProduceRequest, verdicts: Verdicts
) -> ProduceResponse | Awaitable[ProduceResponse | None] | None:
    condition = REPLICATED if request.acks == -1 else IN_OWN_LOG
    waits: Waits = []
    deferred = _Deferred()
    topics = request.topic_data
    if len(topics) > 1 or (topics and len(topics[0].partition_data) > 1):
        deferred.from_ns = ctx.services.clock.spent_ns() + limits.SLICE_NS
    responses = [_append_topic(ctx, topic, verdicts, condition, waits, deferred=deferred) for topic in topics]
    if deferred.batches:
        return _append_deferred(ctx, request, responses, waits, deferred.batches)
    return _answer(ctx, request, responses, waits)


async def _append_deferred(
    ctx: Context[PartitionServices],
    request: ProduceRequest,
    responses: list[TopicProduceResponse],
    waits: Waits,
    batches: Iterable[_DeferredBatch],
) -> ProduceResponse | None:
    condition = REPLICATED if request.acks == -1 else IN_OWN_LOG
    clock, slice_end_ns = ctx.services.clock, 0
    for each in batches:
        try:
            if not each.is_large and clock.spent_ns() >= slice_end_ns:
                await ctx.services.turns.wait_for_turn()
                slice_end_ns = clock.spent_ns() + limits.SLICE_NS
            answer = None if each.is_large else _append_at_once(ctx, each, condition, waits)
            if answer is None:
                answer = _append_served(ctx, each, condition, waits, await each.partition.check(each.batch))
        except Rejected as rejected:
            index = each.partition.index
            answer = _error(index, rejected) if each.partition.removed else _refused(each.partition, index, rejected)
        each.answers[each.position] = answer
    found = _answer(ctx, request, responses, waits)
    return await found if isinstance(found, Awaitable) else found


def _append_at_once(
    ctx: Context[PartitionServices], each: _DeferredBatch, condition: Condition, waits: Waits
) -> PartitionProduceResponse | None:
    """Append the batch on the event loop. Return None if the batch must be checked on a thread first."""
    clock = ctx.services.clock
    begun_ns = clock.spent_ns()
    try:
        return _append_served(ctx, each, condition, waits)
    except TooLongForEventLoop:
        return None
    finally:
        ctx.spent_ns += clock.spent_ns() - begun_ns


def _append_served(
    ctx: Context[PartitionServices], each: _DeferredBatch, condition: Condition, waits: Waits, checked: Checked | None = None
) -> PartitionProduceResponse:
    """Append the batch unless its partition was removed in the meantime: then raise Rejected."""
    partition = each.partition
    if partition.removed:
        raise ctx.services.partitions.missing(partition.topic, partition.index)
    return _append(partition, partition.index, each.batch, each.guard, condition, waits=waits, checked=checked)


def _answer(
    ctx: Context[PartitionServices], request: ProduceRequest, responses: list[TopicProduceResponse], waits: Waits
) -> ProduceResponse | Awaitable[ProduceResponse] | None:
    if request.acks == 0:
        _close_on_error(responses)
        return None
    response = ProduceResponse(responses)
    if waits:
        return _answer_after(ctx, waits, response, request.timeout_ms)
    return _redirected(ctx, response)


def _refuse_all(request: ProduceRequest, refusal: Rejected) -> ProduceResponse | None:
    """Return a response that rejects every partition of the request with `refusal`; with acks=0, raise CloseConnection instead."""
    responses = [_refused_topic(topic, refusal) for topic in request.topic_data]
    if request.acks == 0:
        _close_on_error(responses)
        return None
    return ProduceResponse(responses)


def _refused_topic(topic: TopicProduceData, refusal: Rejected) -> TopicProduceResponse:
    return TopicProduceResponse(topic.name, topic.topic_id, [_error(data.index, refusal) for data in topic.partition_data])


def _refused_append(ctx: Context[PartitionServices], topic: TopicProduceData, refusal: Rejected) -> TopicProduceResponse:
    """Return a response that rejects every append to the topic's partitions. The error is `refusal`, except that an unknown partition or an
    invalid batch gets its own error, because Kafka checks those first.
    """
    found = _find_topic(ctx, topic)

    def error(data: PartitionProduceData) -> Rejected:
        if found is None:
            return ctx.services.partitions.missing(_key(ctx, topic), data.index)
        try:
            found.get(data.index)
            _one_batch(data.records, ctx.version)
        except Rejected as rejected:
            return rejected
        return refusal

    return TopicProduceResponse(topic.name, topic.topic_id, [_error(data.index, error(data)) for data in topic.partition_data])


def _has_transactional(request: ProduceRequest) -> bool:
    """Return whether the first batch of any partition in the request is transactional. Raises `CorruptBatch` if an earlier partition's
    first batch has an impossible size or magic; in Kafka, too, such a batch rejects the whole request
    (RequestUtils.hasTransactionalRecords).
    """
    for topic in request.topic_data:
        for data in topic.partition_data:
            records = data.records
            if not records:
                continue
            if is_whole(records):
                if records[ATTRIBUTES_AT] & TRANSACTIONAL:
                    return True
            elif any(header.is_transactional for _, header in islice(split_batches(records), 1)):
                return True
    return False


def _verify_and_append(
    ctx: Context[PartitionServices], request: ProduceRequest, transactional_id: str
) -> ProduceResponse | Awaitable[ProduceResponse | None] | None:
    """Verify with one request to the transaction coordinator that the partitions of transactional batches belong to the transaction
    (KIP-890), then append the batches that may be written. Return the response, or an awaitable of it.
    """
    batches, producers = _transactional(ctx, request)
    if len(producers) > 1:
        return _refuse_all(request, Rejected(ErrorCode.INVALID_PRODUCER_ID_MAPPING, "batches of more than one transactional producer"))
    verdicts: Verdicts | Awaitable[Verdicts] = _NOTHING
    for producer_id, epoch in producers:
        writer = TransactionalProducer(transactional_id, producer_id, epoch, adds=ctx.version >= ADDING_SINCE)
        verdicts = ctx.services.txn_verification.verify(writer, batches)
    if isinstance(verdicts, dict):
        return _append_all(ctx, request, verdicts)
    return _append_verified(ctx, request, verdicts)


async def _append_verified(
    ctx: Context[PartitionServices], request: ProduceRequest, verdicts: Awaitable[Verdicts]
) -> ProduceResponse | None:
    answer = _append_all(ctx, request, await verdicts)
    return await answer if isinstance(answer, Awaitable) else answer


def _transactional(ctx: Context[PartitionServices], request: ProduceRequest) -> tuple[list[tuple[Partition, int]], set[tuple[int, int]]]:
    """Find the request's transactional batches; invalid batches are ignored. Return the partition and base sequence of each batch, and the
    (producer id, epoch) pairs of their producers.
    """
    batches: list[tuple[Partition, int]] = []
    producers: set[tuple[int, int]] = set()
    for topic in request.topic_data:
        found = _find_topic(ctx, topic)
        for data in topic.partition_data:
            try:
                header = read_header(_one_batch(data.records, ctx.version))
                if found is None or not header.is_transactional or header.producer_id < 0:
                    continue
                partition = found.get(data.index)
                producers.add((header.producer_id, header.producer_epoch))
                if not found.is_internal:
                    batches.append((partition, header.base_sequence))
            except Rejected:
                continue  # the append fails with the same error and reports it
    return batches, producers


def unverified_error(version: int, rejected: Rejected) -> Rejected:
    """Translate an error of the transaction coordinator for a Produce response of this version. A transient error becomes
    NOT_ENOUGH_REPLICAS, because every producer retries after it. TRANSACTION_ABORTABLE becomes INVALID_TXN_STATE in versions whose clients
    do not know it.
    """
    code = rejected.code
    if code is ErrorCode.TRANSACTION_ABORTABLE and version < ABORTABLE_SINCE:
        code = ErrorCode.INVALID_TXN_STATE
    if code in _RETRIED or (code is ErrorCode.CONCURRENT_TRANSACTIONS and version < ADDING_SINCE):
        return Rejected(ErrorCode.NOT_ENOUGH_REPLICAS, f"the transaction cannot be verified now: {code.name}")
    return Rejected(code, rejected.message)


class _DeferredBatch(NamedTuple):
    """A batch that is appended in a later turn of the event loop; a large one (`is_large`) is checked on a thread before. The partition's
    result is then stored in `answers[position]`; `answers` becomes part of the response.
    """

    answers: list[PartitionProduceResponse]
    position: int
    partition: Partition
    batch: Buffer
    guard: VerificationGuard | None
    is_large: bool


@dataclass(slots=True)
class _Deferred:
    """The deferred batches of a request. From the time `from_ns` on (`Clock.spent_ns`; None: never) every further batch is deferred."""

    batches: list[_DeferredBatch] = field(default_factory=list)
    from_ns: int | None = None


def _append_topic(
    ctx: Context[PartitionServices],
    topic: TopicProduceData,
    verdicts: Verdicts,
    condition: Condition,
    waits: Waits,
    *,
    deferred: _Deferred,
) -> TopicProduceResponse:
    found = _find_topic(ctx, topic)
    only_ours = found is not None and found.is_internal and ctx.client_id != ADMIN_CLIENT_ID
    answers: list[PartitionProduceResponse] = []
    for data in topic.partition_data:
        try:
            if found is None:
                raise ctx.services.partitions.missing(_key(ctx, topic), data.index)
            partition = found.get(data.index)
            guard = None
            if verdicts:
                verdict = verdicts.get((partition.topic, partition.index))
                if isinstance(verdict, Rejected):
                    raise unverified_error(ctx.version, verdict)
                guard = verdict
            batch = _one_batch(data.records, ctx.version)
            if only_ours:
                raise Rejected(ErrorCode.INVALID_TOPIC_EXCEPTION, f"only the broker writes to {partition.topic}")
            is_late = deferred.from_ns is not None and ctx.services.clock.spent_ns() >= deferred.from_ns
            try:
                if is_late:
                    raise TooLongForEventLoop
                answers.append(_append(partition, data.index, batch, guard, condition, waits=waits))
            except TooLongForEventLoop:
                deferred.batches.append(_DeferredBatch(answers, len(answers), partition, batch, guard, not is_late))
                answers.append(PartitionProduceResponse(data.index))
        except Rejected as rejected:
            answers.append(_error(data.index, rejected))
    return TopicProduceResponse(topic.name, topic.topic_id, answers)


def _append(
    partition: Partition,
    index: int,
    batch: Buffer,
    guard: VerificationGuard | None,
    condition: Condition,
    *,
    waits: Waits,
    checked: Checked | None = None,
) -> PartitionProduceResponse:
    try:
        info = partition.append(batch, guard=guard, acks_all=condition is REPLICATED, checked=checked)
    except Rejected as rejected:
        return _refused(partition, index, rejected)
    answer = PartitionProduceResponse(index, 0, info.first_offset, info.log_append_time_ms, info.log_start_offset, current_leader=_NOBODY)
    wait = partition.when(condition, info)
    if wait is not None:
        waits.append((wait, answer))
    return answer


def _refused(partition: Partition, index: int, rejected: Rejected) -> PartitionProduceResponse:
    refused = _error(index, rejected)
    if rejected.code not in _WITHOUT_START:
        refused.log_start_offset = partition.log.log_start_offset
    return refused


def _key(ctx: Context[PartitionServices], topic: TopicProduceData) -> str | bytes:
    return topic.topic_id if ctx.version >= BY_ID_SINCE else topic.name


def _find_topic(ctx: Context[PartitionServices], topic: TopicProduceData) -> TopicPartitions | None:
    """Return the topic that the request names by name or, from version 13 on, by id. Return None if this broker has no partition of the
    topic. Return None also for `__cluster_metadata`, to which no client may write."""
    partitions = ctx.services.partitions
    found = partitions.by_topic_id(topic.topic_id) if ctx.version >= BY_ID_SINCE else partitions.by_name(topic.name)
    return None if found is not None and found.name == CLUSTER_METADATA else found


def _one_batch(records: Buffer | None, version: int) -> Buffer:
    """Return the only batch of `records`, without a partial batch after it (ProduceRequest.validateRecords). Raises Rejected if `records`
    is empty, or is not one valid batch."""
    if not records:
        raise Rejected(ErrorCode.INVALID_RECORD, "the partition has no records")
    return records if version >= 7 and is_whole(records) else _first_of(records, version)


def is_whole(records: Buffer) -> bool:
    """Return whether `records` is exactly one batch of magic 2, judging only by its size, magic and length field. For nearly every request
    this replaces parsing `records` batch by batch.
    """
    size = len(records)
    if size < HEADER_BYTES or records[_MAGIC_AT] != MAGIC_V2:
        return False
    whole: bool = _LENGTH.unpack_from(records, _LENGTH_AT)[0] == size - LOG_OVERHEAD
    return whole


def _first_of(records: Buffer, version: int) -> Buffer:
    batches = split_batches(records)
    try:
        _, header = next(batches, (0, None))
        if header is None:
            raise Rejected(ErrorCode.INVALID_RECORD, "the partition has no whole record batch")
        _check_batch(header, version)
        if any(True for _ in batches):
            raise Rejected(ErrorCode.INVALID_RECORD, "the partition has more than one record batch")
    except CorruptBatch as error:
        raise Rejected(ErrorCode.CORRUPT_MESSAGE, str(error)) from error
    return memoryview(records)[: header.size_bytes]


def _check_batch(header: BatchHeader, version: int) -> None:
    if header.magic != MAGIC_V2:
        raise Rejected(ErrorCode.INVALID_RECORD, f"record batches of magic {header.magic} are not accepted, only magic 2")
    if version < 7 and _codec(header) is Codec.ZSTD:
        raise Rejected(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "zstd needs Produce version 7")


def _codec(header: BatchHeader) -> Codec | None:
    try:
        return header.codec
    except UnknownCodec:
        return None


def _error(index: int, rejected: Rejected) -> PartitionProduceResponse:
    named = [BatchIndexAndErrorMessage(at, message) for at, message in rejected.record_errors[: limits.RECORD_ERRORS_MAX]]
    return PartitionProduceResponse(index, rejected.code, -1, record_errors=named, error_message=rejected.message or None)


def _close_on_error(responses: Iterable[TopicProduceResponse]) -> None:
    for topic in responses:
        for answer in topic.partition_responses:
            if answer.error_code != ErrorCode.NONE:
                where = f"topic {shown(topic.name or topic.topic_id.hex())} partition {answer.index}"
                raise CloseConnection(f"a Produce with acks=0 failed for {where}: {ErrorCode(answer.error_code).name}")


async def _answer_after(ctx: Context[PartitionServices], waits: Waits, response: ProduceResponse, timeout_ms: int) -> ProduceResponse:
    """Wait for the acknowledgements and return `response`. A partition that takes longer than the request's timeout gets REQUEST_TIMED_OUT;
    its records stay in the log at the offset in the response (KAFKA DelayedProduce).
    """
    services = ctx.services
    timer = services.timers.schedule(services.clock.mono_ms() + timeout_ms, partial(_time_out, waits))
    try:
        for future, answer in waits:
            try:
                await future
            except Rejected as rejected:
                answer.error_code, answer.error_message = rejected.code, rejected.message or None
    finally:
        timer.cancel()
    return _redirected(ctx, response)


def _time_out(waits: Waits) -> None:
    for future, _ in waits:
        if not future.done():
            future.set_exception(Rejected(ErrorCode.REQUEST_TIMED_OUT))
            future.exception()  # mark it as retrieved, in case the request was abandoned meanwhile


def _redirected(ctx: Context[PartitionServices], response: ProduceResponse) -> ProduceResponse:
    """From version 10 on, add the current leader to each partition of `response` that failed because this broker does not lead it, so that
    the client can retry at that leader (KIP-951). Return `response`.
    """
    if ctx.version < REDIRECTED_SINCE:
        return response
    cluster, leaders = ctx.services.cluster, set()
    for topic in response.responses:
        for answer in topic.partition_responses:
            if answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
                leader, epoch = cluster.current_leader(topic.topic_id if ctx.version >= BY_ID_SINCE else topic.name, answer.index)
                answer.current_leader = LeaderIdAndEpoch(leader, epoch)
                leaders.add(leader)
    found = (cluster.alive_broker(leader, ctx.peer.client_listener) for leader in sorted(leaders))
    response.node_endpoints = [NodeEndpoint(node.node_id, node.host, node.port, node.rack) for node in found if node is not None]
    return response
