"""DeleteRecords (key 21), versions 0-2: raises a partition's log start offset; -1 means the high watermark.

Promises: what is below the answered low watermark is not readable any more, also after a crash (Kafka writes the checkpoint within a
minute, we before the answer); an offset at or below the log start is a success that changes nothing. Refused: an offset above the high
watermark or below -1 (OFFSET_OUT_OF_RANGE), a topic that is only compacted (POLICY_VIOLATION), the broker's own topics
(INVALID_TOPIC_EXCEPTION). An error carries a low watermark of -1.
"""

from __future__ import annotations

import logging

from ottla.broker.api.context import Context
from ottla.broker.cluster.topic_names import is_internal
from ottla.broker.core.rejected import Rejected
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k21_delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

HIGH_WATERMARK = -1

logger = logging.getLogger(__name__)


def handle(ctx: Context, request: DeleteRecordsRequest) -> DeleteRecordsResponse:
    """One replica: nobody to wait for but the disk, for one small file."""
    response = DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(topic.name, [_delete(ctx, topic.name, partition) for partition in topic.partitions])
            for topic in request.topics
        ]
    )
    try:
        ctx.services.log_dir.log_start_checkpoint()()
    except OSError as error:
        logger.error("the new log start offsets are not on disk: %s", error)
        for partition in (partition for topic in response.topics for partition in topic.partitions):
            if partition.error_code == ErrorCode.NONE:
                partition.error_code, partition.low_watermark = ErrorCode.KAFKA_STORAGE_ERROR, -1
    return response


def _delete(ctx: Context, topic: str, asked: DeleteRecordsPartition) -> DeleteRecordsPartitionResult:
    try:
        return DeleteRecordsPartitionResult(asked.partition_index, _low_watermark(ctx, topic, asked))
    except Rejected as error:
        return DeleteRecordsPartitionResult(asked.partition_index, -1, error.code)


def _low_watermark(ctx: Context, topic: str, asked: DeleteRecordsPartition) -> int:
    log = ctx.services.partitions.get(topic, asked.partition_index).log
    if is_internal(topic):
        raise Rejected(ErrorCode.INVALID_TOPIC_EXCEPTION)
    if not log.config.deletes:
        raise Rejected(ErrorCode.POLICY_VIOLATION)
    offset = log.high_watermark if asked.offset == HIGH_WATERMARK else asked.offset
    if not 0 <= offset <= log.high_watermark:
        raise Rejected(ErrorCode.OFFSET_OUT_OF_RANGE)
    return log.delete_records_before(offset)
