"""The common part of the handlers of the share coordinator's five APIs (keys 83 to 87).

Rules, as in Kafka: only brokers send these requests; each share partition has its own error; a request without a group id, without topics,
or with a topic without partitions gets an empty response.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from ottla.broker.api.deferred import respond_when_all_ready, respond_when_ready
from ottla.broker.api.share_groups import OF_COORDINATION
from ottla.broker.core.rejected import Rejected
from ottla.broker.share.persister import SharePartitionKey
from ottla.protocol.messages.share_state import PartitionResult, StateResult

T = TypeVar("T")
R = TypeVar("R")


def respond_per_share_partition(
    request: Any,
    purpose: str,
    run: Callable[[SharePartitionKey, Any], T | asyncio.Future[T]],
    response: Callable[[list[Any]], R],
    *,
    topic_result: Callable[[bytes, list[Any]], Any] = StateResult,
    result: Callable[[int, T], Any] = lambda index, _: PartitionResult(index),
    refused: Callable[..., Any] = PartitionResult,
) -> R | Awaitable[R]:
    """Call `run` for each share partition, and return the response when all results are available.

    `purpose` describes the operation in error messages. For each partition, `result` makes the response entry from its index and the result
    of `run`, or `refused` makes it from index, error code and message. `topic_result` makes a topic's entry from the entries of its
    partitions, and `response` the response from those of the topics.
    """
    if not request.group_id or not all(topic.partitions for topic in request.topics):
        return response([])
    requested = {(topic.topic_id, part.partition): part for topic in request.topics for part in topic.partitions}

    def one(topic_id: bytes, part: Any) -> Any:
        return respond_when_ready(
            lambda: run(SharePartitionKey(request.group_id, topic_id, part.partition), part),
            lambda found: result(part.partition, found),
            lambda rejected: refused(part.partition, rejected.code, _message(rejected, purpose)),
        )

    def by_topic(results: list[Any]) -> R:
        found: dict[bytes, list[Any]] = {}
        for (topic_id, _), each in zip(requested, results, strict=True):
            found.setdefault(topic_id, []).append(each)
        return response([topic_result(*each) for each in found.items()])

    return respond_when_all_ready([one(topic_id, part) for (topic_id, _), part in requested.items()], by_topic)


def _message(rejected: Rejected, purpose: str) -> str:
    text = OF_COORDINATION.get(rejected.code)
    return rejected.message if text is None else f"Unable to {purpose}: {text}"
