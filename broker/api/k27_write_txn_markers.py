"""WriteTxnMarkers (key 27), versions 1-2: ends a producer's transactions in partitions.

Promises:
* Transaction coordinators send it to each other, and an operator's tool sends it to abort a hanging transaction (KIP-664).
* A marker is checked against the producer epoch and the coordinator epoch (INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED). The
  response is sent when every in-sync replica has it, or with REQUEST_TIMED_OUT after request.timeout.ms.
* In version 2, a marker of transaction version 2 ends an open transaction only if its producer epoch is greater than the transaction's
  (KIP-1228).
* In a partition of `__consumer_offsets` the transaction's offsets are committed or discarded.

If a request has several markers for one producer, the response has one entry for the producer, with each partition's error for its last
marker. The parts of a large request have the markers of one producer one after the other. Kafka's coordinator relies on this. It sends
several markers for a producer when leaders move, but reads only one entry for each producer, and would wait forever for partitions that are
in other entries.

Deviation: a marker without a producer id or epoch is INVALID_REQUEST (Kafka fails with UNKNOWN_SERVER_ERROR).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

from ottla.broker.api.access import allowed_of_cluster, rejecting_response
from ottla.broker.api.context import Context
from ottla.broker.api.declaration import Api
from ottla.broker.api.served_api import Split
from ottla.broker.api.services import CoordinationServices
from ottla.broker.core.acl import Operation
from ottla.broker.core.rejected import Rejected
from ottla.broker.runtime.coordination.shard import failure_of
from ottla.broker.runtime.upkeep.timer_driver import wait_at_most
from ottla.broker.txns.txn_marker import TxnMarker
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k27_write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

API = Api(
    WriteTxnMarkersRequest,
    throttled=False,
    splits=(Split("markers.topics.partition_indexes", "markers.topics.partitions", ("producer_id",)),),
)

Waiting = list[tuple[asyncio.Future[None], WritableTxnMarkerPartitionResult]]


@API.on_broker()
def handle(
    ctx: Context[CoordinationServices], request: WriteTxnMarkersRequest
) -> WriteTxnMarkersResponse | Awaitable[WriteTxnMarkersResponse]:
    """Write the transaction markers to this broker's partitions; respond at once unless a marker must become durable first."""
    if not allowed_of_cluster(ctx, Operation.ALTER, quietly=True) and not allowed_of_cluster(ctx, Operation.CLUSTER_ACTION):
        return rejecting_response(ctx.version, request, WriteTxnMarkersResponse)
    waiting: Waiting = []
    results: dict[int, dict[str, dict[int, WritableTxnMarkerPartitionResult]]] = {}
    for marker in request.markers:
        of_producer = results.setdefault(marker.producer_id, {})
        for topic in marker.topics:
            of_topic = of_producer.setdefault(topic.name, {})
            for index in topic.partition_indexes:
                of_topic[index] = _write(ctx, marker, topic.name, index, waiting)
    response = WriteTxnMarkersResponse(
        [
            WritableTxnMarkerResult(
                producer_id, [WritableTxnMarkerTopicResult(topic, list(partitions.values())) for topic, partitions in topics.items()]
            )
            for producer_id, topics in results.items()
        ]
    )
    return _when_durable(ctx, response, waiting) if waiting else response


async def _when_durable(ctx: Context[CoordinationServices], response: WriteTxnMarkersResponse, waiting: Waiting) -> WriteTxnMarkersResponse:
    services = ctx.services
    await wait_at_most(services.timers, services.clock, services.settings.request_timeout_ms, [durable for durable, _ in waiting])
    for durable, result in waiting:
        refusal = failure_of(durable) if durable.done() else Rejected(ErrorCode.REQUEST_TIMED_OUT)
        if refusal is not None:
            result.error_code = refusal.code
    return response


def _write(
    ctx: Context[CoordinationServices], marker: WritableTxnMarker, topic: str, index: int, waiting: Waiting
) -> WritableTxnMarkerPartitionResult:
    result = WritableTxnMarkerPartitionResult(index)
    try:
        durable = _append(ctx, marker, topic, index)
    except Rejected as refusal:
        result.error_code = refusal.code
    else:
        if durable is not None:
            waiting.append((durable, result))
    return result


def _append(ctx: Context[CoordinationServices], marker: WritableTxnMarker, topic: str, index: int) -> asyncio.Future[None] | None:
    if marker.producer_id < 0 or marker.producer_epoch < 0:
        raise Rejected(ErrorCode.INVALID_REQUEST)
    return ctx.services.markers.write(
        (topic, index),
        TxnMarker(
            marker.producer_id, marker.producer_epoch, marker.transaction_result, marker.coordinator_epoch, marker.transaction_version
        ),
    )
