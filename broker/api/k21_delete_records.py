"""DeleteRecords (key 21), versions 0-2: raises a partition's log start offset; -1 means the high watermark.

Promises:
* Records below the returned low watermark are not readable on any live replica, not even after a crash of the leader. (Kafka writes the
  checkpoint within a minute; this broker writes it before the response, on a thread.)
* An offset at or below the log start offset succeeds without any change.
* Rejected are an offset above the high watermark or below -1 (OFFSET_OUT_OF_RANGE), a topic that is only compacted (POLICY_VIOLATION), an
  internal topic (INVALID_TOPIC_EXCEPTION), and a partition that another broker leads (NOT_LEADER_OR_FOLLOWER). An error has a low
  watermark of -1.
* If a partition is named twice, the last entry counts, as in Kafka's map from partitions to offsets.
* If the followers do not finish in time (REQUEST_TIMED_OUT), the low watermark is the previous one, and the leader's records stay deleted.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass

from ottla.broker.api.access import denied
from ottla.broker.api.context import Context
from ottla.broker.api.declaration import Api
from ottla.broker.api.repeated_partitions import last_entries
from ottla.broker.api.served_api import Split
from ottla.broker.api.services import PartitionServices
from ottla.broker.cluster.topic_names import is_internal
from ottla.broker.core.acl import Operation, Resource
from ottla.broker.core.rejected import Rejected
from ottla.broker.runtime.replicas.partition import Partition
from ottla.broker.runtime.upkeep.timer_driver import wait_at_most
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k21_delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

API = Api(DeleteRecordsRequest, splits=(Split("topics.partitions", "topics.partitions", ("name", "partition_index")),))

HIGH_WATERMARK = -1

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class _Deletion:
    """The deletion of records in one partition, with the partition's entry in the response. `reached` is done when all replicas have
    deleted the records. `reached` is None if nothing has to be waited for, because the deletion is complete or was rejected.
    """

    result: DeleteRecordsPartitionResult
    partition: Partition | None = None
    reached: asyncio.Future[None] | None = None


@API.on_broker()
def handle(ctx: Context[PartitionServices], request: DeleteRecordsRequest) -> DeleteRecordsResponse | Awaitable[DeleteRecordsResponse]:
    """Delete the records from this broker's replicas. Return the response, or an awaitable of it until the log start offset checkpoint is
    on disk and the followers have deleted the records, too.
    """
    hidden = denied(ctx, Operation.DELETE, Resource.TOPIC, [topic.name for topic in request.topics])
    last = last_entries((topic.name, partition.partition_index, partition) for topic in request.topics for partition in topic.partitions)
    done = [
        (name, [_delete(ctx, name, partition, is_denied=name in hidden) for partition in partitions.values()])
        for name, partitions in last.items()
    ]
    deletions = [deletion for _, of_topic in done for deletion in of_topic if deletion.partition is not None]
    response = DeleteRecordsResponse(
        topics=[DeleteRecordsTopicResult(topic, [deletion.result for deletion in of_topic]) for topic, of_topic in done]
    )
    return _answer_after(ctx, response, deletions, request.timeout_ms) if deletions else response


async def _answer_after(
    ctx: Context[PartitionServices], response: DeleteRecordsResponse, deletions: Sequence[_Deletion], timeout_ms: int
) -> DeleteRecordsResponse:
    try:
        await ctx.services.partitions.run(ctx.services.log_dir.log_start_checkpoint())
    except OSError as error:
        logger.error("Cannot write the log start offset checkpoint: %s", error)
        for deletion in deletions:
            _refuse(deletion, ErrorCode.KAFKA_STORAGE_ERROR)
    waiting = [deletion for deletion in deletions if deletion.reached is not None]
    await wait_at_most(ctx.services.timers, ctx.services.clock, timeout_ms, [d.reached for d in waiting if d.reached is not None])
    for deletion in waiting:
        assert deletion.reached is not None
        assert deletion.partition is not None
        if not deletion.reached.done():
            deletion.reached.cancel()
            deletion.result.error_code = ErrorCode.REQUEST_TIMED_OUT
        elif isinstance(rejected := deletion.reached.exception(), Rejected):
            _refuse(deletion, rejected.code)
        else:
            deletion.result.low_watermark = deletion.partition.low_watermark()
    return response


def _refuse(deletion: _Deletion, code: ErrorCode) -> None:
    deletion.result.error_code, deletion.result.low_watermark, deletion.reached = code, -1, None


def _delete(ctx: Context[PartitionServices], topic: str, requested: DeleteRecordsPartition, *, is_denied: bool) -> _Deletion:
    try:
        if is_denied:
            raise Rejected(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        partition = ctx.services.partitions.get(topic, requested.partition_index)
        offset = _checked_offset(partition, requested)
        partition.log.delete_records_before(offset)
    except Rejected as error:
        return _Deletion(DeleteRecordsPartitionResult(requested.partition_index, -1, error.code))
    result = DeleteRecordsPartitionResult(requested.partition_index, partition.low_watermark())
    return _Deletion(result, partition, partition.when_deleted(offset))


def _checked_offset(partition: Partition, requested: DeleteRecordsPartition) -> int:
    log = partition.log
    if is_internal(partition.topic):
        raise Rejected(ErrorCode.INVALID_TOPIC_EXCEPTION)
    partition.replica.check_leads()
    if not log.config.deletes:
        raise Rejected(ErrorCode.POLICY_VIOLATION)
    offset = log.high_watermark if requested.offset == HIGH_WATERMARK else requested.offset
    if not 0 <= offset <= log.high_watermark:
        raise Rejected(ErrorCode.OFFSET_OUT_OF_RANGE)
    return offset
