"""Short forms of the requests of streams groups, for group "g", topic "t" and a topology of one subtopology `0`."""

from __future__ import annotations

from typing import Any

from ottla.protocol.client import Client
from ottla.protocol.messages.k88_streams_group_heartbeat import StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse
from ottla.protocol.messages.k89_streams_group_describe import DescribedGroup, StreamsGroupDescribeRequest
from tests.support.group_calls import find_coordinator
from tests.support.streams_groups import topology
from tests.support.topic_calls import create

AT_ONCE = {"group.streams.initial.rebalance.delay.ms": "0", "group.streams.assignment.interval.ms": "0"}


def prepare(client: Client, partitions: int = 2) -> None:
    """Create the topic and the group coordinator's topic."""
    find_coordinator(client)
    create(client, "t", partitions=partitions)


def beat(client: Client, epoch: int = 0, **changes: Any) -> StreamsGroupHeartbeatResponse:
    """Send a StreamsGroupHeartbeat, and return the response. The first one, with epoch 0, contains the topology."""
    fields: dict[str, Any] = {"group_id": "g", "member_id": "m", "member_epoch": epoch}
    if epoch == 0:
        fields |= {"rebalance_timeout_ms": 30_000, "process_id": "p", "topology": topology(), **owning_nothing()}
    return client.call(StreamsGroupHeartbeatRequest(**(fields | changes)))


def owning_nothing() -> dict[str, list[Any]]:
    return {"active_tasks": [], "standby_tasks": [], "warmup_tasks": []}


def described(client: Client, group_id: str = "g", **changes: Any) -> DescribedGroup:
    (group,) = client.call(StreamsGroupDescribeRequest([group_id], **changes)).groups
    return group
