"""What the five APIs of the share coordinator (keys 83 to 87) have in common.

Rules, as in Kafka: only brokers send them; each share partition has its own error; a request without a group id, or with an empty list,
gets an empty response.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from ottla.broker.api.deferred import all_answered, answered
from ottla.broker.api.share_groups import OF_COORDINATION
from ottla.broker.core.rejected import Rejected
from ottla.broker.share.persister import SharePartitionKey
from ottla.protocol.error_codes import ErrorCode

T = TypeVar("T")
ResultT = TypeVar("ResultT")


def carry_out(
    request: Any,
    purpose: str,
    run: Callable[[SharePartitionKey, Any], T | asyncio.Future[T]],
    result: Callable[[int, T], ResultT],
    refused: Callable[[int, ErrorCode, str], ResultT],
) -> dict[bytes, list[ResultT]] | Awaitable[dict[bytes, list[ResultT]]]:
    """Call `run` for each share partition and return the results by topic id; `result` and `refused` make them.

    `purpose` is what `run` does, for messages.
    """
    if not request.group_id or not all(topic.partitions for topic in request.topics):
        return {}
    asked = {(topic.topic_id, part.partition): part for topic in request.topics for part in topic.partitions}

    def one(topic_id: bytes, part: Any) -> ResultT | Awaitable[ResultT]:
        return answered(
            lambda: run(SharePartitionKey(request.group_id, topic_id, part.partition), part),
            lambda found: result(part.partition, found),
            lambda rejected: refused(part.partition, rejected.code, _message(rejected, purpose)),
        )

    def by_topic(results: list[ResultT]) -> dict[bytes, list[ResultT]]:
        found: dict[bytes, list[ResultT]] = {}
        for (topic_id, _), each in zip(asked, results, strict=True):
            found.setdefault(topic_id, []).append(each)
        return found

    return all_answered([one(topic_id, part) for (topic_id, _), part in asked.items()], by_topic)


def _message(rejected: Rejected, purpose: str) -> str:
    text = OF_COORDINATION.get(rejected.code)
    return rejected.message if text is None else f"Unable to {purpose}: {text}"
