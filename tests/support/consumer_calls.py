"""Short forms of the consumer group requests."""

from __future__ import annotations

from typing import Any

from ottla.protocol.client import Client
from ottla.protocol.messages.k68_consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from ottla.protocol.messages.k69_consumer_group_describe import ConsumerGroupDescribeRequest, DescribedGroup


def beat(client: Client, member_id: str, epoch: int, *, version: int = 1, **changes: Any) -> ConsumerGroupHeartbeatResponse:
    """Send one heartbeat in group "g", and return the response."""
    fields: dict[str, Any] = {"group_id": "g", "member_id": member_id, "member_epoch": epoch}
    response: ConsumerGroupHeartbeatResponse = client.call(ConsumerGroupHeartbeatRequest(**(fields | changes)), version=version)
    return response


def join(client: Client, member_id: str, *, version: int = 1, **changes: Any) -> ConsumerGroupHeartbeatResponse:
    """Send the first heartbeat of a member that subscribes to topic "t", and return the response."""
    fields: dict[str, Any] = {"subscribed_topic_names": ["t"], "rebalance_timeout_ms": 30_000, "topic_partitions": []}
    return beat(client, member_id, 0, version=version, **(fields | changes))


def partitions(response: ConsumerGroupHeartbeatResponse) -> list[int]:
    """Return the assigned partitions of the response's only topic; none if it has no assignment."""
    assert response.error_code == 0, response.error_message
    assert response.assignment is not None
    topics: list[TopicPartitions] = response.assignment.topic_partitions
    assert len(topics) <= 1
    return topics[0].partitions if topics else []


def describe(client: Client, group_id: str = "g", *, version: int = 1, **changes: Any) -> DescribedGroup:
    (group,) = client.call(ConsumerGroupDescribeRequest([group_id], **changes), version=version).groups
    described: DescribedGroup = group
    return described
