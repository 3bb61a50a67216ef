"""Produce (key 0), versions 3-13: appends one batch to each partition, in the order of the request.

Promises: each partition succeeds or fails for itself; with acks=1 and acks=all the answer comes when the batch may be relied on (one
replica, so both mean the same: appended, and synced where flush.messages asks for it); acks=0 answers nothing, and closes the connection if
anything failed, which is the only way to tell; a batch that an idempotent producer sends again is answered with its original offset.

Versions 0-2 are advertised and never served, as in Kafka: librdkafka before 2.11 looks for Produce 0 before it compresses (KAFKA-18659).

Deviation: transactional batches are refused until there are transactions (`_refuse_transactional`).
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Awaitable, Iterable
from typing import TYPE_CHECKING

from broker.api.context import CloseConnection, Context
from broker.core import limits
from broker.core.rejected import Rejected
from protocol.error_codes import ErrorCode
from protocol.messages.k00_produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from protocol.records.batch import (
    CRC_START,
    HEADER_BYTES,
    LOG_OVERHEAD,
    MAGIC_END,
    MAGIC_V2,
    TRANSACTIONAL,
    BatchHeader,
    split_batches,
)
from protocol.records.compression import Codec
from protocol.records.errors import CorruptBatch, UnknownCodec

if TYPE_CHECKING:
    from broker.runtime.partition import Partition
    from broker.runtime.partitions import TopicPartitions

Buffer = bytes | bytearray | memoryview

_LENGTH = struct.Struct(">i")

ADMIN_CLIENT_ID = "__admin_client"
"""The client id that may write to internal topics (Kafka: AdminUtils.ADMIN_CLIENT_ID)."""

INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
METADATA_TOPIC = "__cluster_metadata"

Wait = tuple[asyncio.Future[None], PartitionProduceResponse]


def handle(ctx: Context, request: ProduceRequest) -> ProduceResponse | Awaitable[ProduceResponse] | None:
    """Append everything; answer at once unless something must be synced first."""
    waits: list[Wait] = []
    refusal = _refusal(request)
    responses = [_append_topic(ctx, topic, refusal, waits) for topic in request.topic_data]
    if request.acks == 0:
        _close_on_error(responses)
        return None
    response = ProduceResponse(responses)
    return _answer_when_durable(ctx, request, response, waits) if waits else response


def _append_topic(ctx: Context, topic: TopicProduceData, refusal: Rejected | None, waits: list[Wait]) -> TopicProduceResponse:
    found, missing = _find_topic(ctx, topic)
    answers = []
    for data in topic.partition_data:
        try:
            if refusal is not None:
                raise refusal
            if found is None:
                raise missing
            answers.append(_append(ctx, found.get(data.index), data, waits))
        except Rejected as rejected:
            answers.append(_error(data.index, rejected))
    return TopicProduceResponse(topic.name, topic.topic_id, answers)


def _append(ctx: Context, partition: Partition, data: PartitionProduceData, waits: list[Wait]) -> PartitionProduceResponse:
    batch = _one_batch(data.records, ctx.version)
    if partition.topic in INTERNAL_TOPICS and ctx.client_id != ADMIN_CLIENT_ID:
        raise Rejected(ErrorCode.INVALID_TOPIC_EXCEPTION, f"only the broker writes to {partition.topic}")
    info = partition.append(batch)
    answer = PartitionProduceResponse(data.index, ErrorCode.NONE, info.first_offset, info.log_append_time_ms, info.log_start_offset)
    durable = partition.when_durable(info)
    if durable is not None:
        waits.append((durable, answer))
    return answer


def _find_topic(ctx: Context, topic: TopicProduceData) -> tuple[TopicPartitions | None, Rejected]:
    """The topic by name, or from v13 by id, and what to say of one that is not there."""
    partitions = ctx.services.partitions
    if ctx.version >= 13:
        found, missing = partitions.by_topic_id(topic.topic_id), ErrorCode.UNKNOWN_TOPIC_ID
    else:
        found, missing = partitions.by_name(topic.name), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if found is not None and found.name == METADATA_TOPIC:
        found = None
    return found, Rejected(missing) if found is None else _NEVER


_NEVER = Rejected(ErrorCode.NONE)


def _one_batch(records: Buffer | None, version: int) -> Buffer:
    """The single batch of `records`, a partial one behind it cut off (ProduceRequest.validateRecords); raises Rejected."""
    if records is None or len(records) == 0:
        raise Rejected(ErrorCode.INVALID_RECORD, "the partition has no records")
    if version >= 7 and len(records) >= HEADER_BYTES and _is_plain(records):
        return records
    return _first_of(records, version)


def _is_plain(records: Buffer) -> bool:
    """Whether this is one whole batch of magic 2 outside any transaction: nearly always, so it is told from three fields."""
    whole: bool = _LENGTH.unpack_from(records, 8)[0] == len(records) - LOG_OVERHEAD
    return whole and records[MAGIC_END - 1] == MAGIC_V2 and not records[CRC_START + 1] & TRANSACTIONAL


def _first_of(records: Buffer, version: int) -> Buffer:
    try:
        batches = list(zip(range(2), split_batches(records), strict=False))
    except CorruptBatch as error:
        raise Rejected(ErrorCode.CORRUPT_MESSAGE, str(error)) from error
    if not batches:
        raise Rejected(ErrorCode.INVALID_RECORD, "the partition has no whole record batch")
    _check_batch(batches[0][1][1], version)
    if len(batches) > 1:
        raise Rejected(ErrorCode.INVALID_RECORD, "the partition has more than one record batch")
    return memoryview(records)[: batches[0][1][1].size_bytes]


def _check_batch(header: BatchHeader, version: int) -> None:
    if header.magic != MAGIC_V2:
        raise Rejected(ErrorCode.INVALID_RECORD, f"record batches of magic {header.magic} are not accepted, only magic 2")
    if header.is_transactional:
        _refuse_transactional(version)
    if version < 7 and _codec(header) is Codec.ZSTD:
        raise Rejected(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "zstd needs Produce version 7")


def _codec(header: BatchHeader) -> Codec | None:
    try:
        return header.codec
    except UnknownCodec:
        return None


def _refuse_transactional(version: int) -> None:
    """There are no transactions yet, so no partition can have been added to one; Kafka's verification says so in these words (KIP-890)."""
    code = ErrorCode.TRANSACTION_ABORTABLE if version >= 11 else ErrorCode.INVALID_TXN_STATE
    raise Rejected(code, "this broker has no transactions yet")


def _refusal(request: ProduceRequest) -> Rejected | None:
    """What refuses every partition of the request alike."""
    if request.acks not in {-1, 0, 1}:
        return Rejected(ErrorCode.INVALID_REQUIRED_ACKS, f"acks is {request.acks}; -1, 0 and 1 are allowed")
    return None


def _error(index: int, rejected: Rejected) -> PartitionProduceResponse:
    named = [BatchIndexAndErrorMessage(at, message) for at, message in rejected.record_errors[: limits.RECORD_ERRORS_MAX]]
    return PartitionProduceResponse(index, rejected.code, -1, record_errors=named, error_message=rejected.message or None)


def _close_on_error(responses: Iterable[TopicProduceResponse]) -> None:
    for topic in responses:
        for answer in topic.partition_responses:
            if answer.error_code != ErrorCode.NONE:
                where = f"{topic.name or topic.topic_id.hex()}-{answer.index}"
                raise CloseConnection(f"a Produce with acks=0 failed for {where}: {ErrorCode(answer.error_code).name}")


async def _answer_when_durable(ctx: Context, request: ProduceRequest, response: ProduceResponse, waits: list[Wait]) -> ProduceResponse:
    """Wait for every sync; what takes longer than the request's timeout is answered REQUEST_TIMED_OUT (the data stays)."""
    timeout_s = max(request.timeout_ms, 0) / 1000
    await asyncio.wait([future for future, _ in waits], timeout=timeout_s)
    for future, answer in waits:
        try:
            if not future.done():
                raise Rejected(ErrorCode.REQUEST_TIMED_OUT)
            future.result()
        except Rejected as rejected:
            failed = _error(answer.index, rejected)
            answer.error_code, answer.base_offset, answer.log_append_time_ms = failed.error_code, -1, -1
            answer.log_start_offset, answer.error_message = -1, failed.error_message
    return response
