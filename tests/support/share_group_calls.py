"""Short forms of the requests of share groups and of the share coordinator, for group "g" and topic "t"."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ottla.broker.share.persister import SharePartitionKey
from ottla.protocol.client import Client
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages import k83_initialize_share_group_state as k83
from ottla.protocol.messages import k84_read_share_group_state as k84
from ottla.protocol.messages import k85_write_share_group_state as k85
from ottla.protocol.messages import k86_delete_share_group_state as k86
from ottla.protocol.messages import k87_read_share_group_state_summary as k87
from ottla.protocol.messages.k10_find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.k76_share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from ottla.protocol.messages.k77_share_group_describe import DescribedGroup, ShareGroupDescribeRequest
from ottla.protocol.messages.k90_describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsResponseGroup,
)
from ottla.protocol.messages.share_state import StateBatch
from tests.support.group_calls import find_coordinator
from tests.support.topic_calls import create, describe

AT_ONCE = {"group.share.assignment.interval.ms": "0"}
TRIES = 200


def prepare(client: Client, partitions: int = 2) -> bytes:
    """Create the topic and both coordinators' topics; return the topic's id."""
    find_coordinator(client)
    create(client, "t", partitions=partitions)
    topic_id: bytes = describe(client, "t")[0].topic_id
    key = SharePartitionKey("g", topic_id, 0).coordinator_key
    (found,) = client.call(FindCoordinatorRequest(key_type=2, coordinator_keys=[key]), version=6).coordinators
    assert found.error_code == 0, found.error_message
    return topic_id


def beat(client: Client, member_id: str = "m", epoch: int = 0, **changes: Any) -> ShareGroupHeartbeatResponse:
    """Send a ShareGroupHeartbeat, and return the response. The first one, with epoch 0, subscribes to topic "t"."""
    names = ["t"] if epoch == 0 else None
    fields: dict[str, Any] = {"group_id": "g", "member_id": member_id, "member_epoch": epoch, "subscribed_topic_names": names}
    return client.call(ShareGroupHeartbeatRequest(**(fields | changes)))


def settle(client: Client, member_id: str = "m", partitions: int = 2) -> int:
    """Join, and send heartbeats until the member has `partitions` partitions. Return its epoch. Raises AssertionError if a heartbeat fails,
    or the partitions do not come in `TRIES` heartbeats."""
    answer, assigned = beat(client, member_id), 0
    for _ in range(TRIES):
        assert answer.error_code == 0, answer.error_message
        if answer.assignment is not None:
            assigned = sum(len(topic.partitions) for topic in answer.assignment.topic_partitions)
        if assigned == partitions:
            return answer.member_epoch
        answer = beat(client, member_id, answer.member_epoch)
    raise AssertionError(f"{member_id} has {assigned} partitions")


def leave(client: Client, member_id: str = "m") -> None:
    assert beat(client, member_id, -1).error_code == 0


def described(client: Client, group_id: str = "g", **changes: Any) -> DescribedGroup:
    (group,) = client.call(ShareGroupDescribeRequest([group_id], **changes)).groups
    return group


def offsets(client: Client, topics: Any = None, *, group_id: str = "g", version: int = 1) -> DescribeShareGroupOffsetsResponseGroup:
    """Send DescribeShareGroupOffsets for the group, and return the response."""
    request = DescribeShareGroupOffsetsRequest([DescribeShareGroupOffsetsRequestGroup(group_id, topics)])
    (group,) = client.call(request, version).groups
    return group


def start_offsets(client: Client) -> dict[int, int]:
    """Return the start offset of each partition of the group."""
    return {part.partition_index: part.start_offset for topic in offsets(client).topics for part in topic.partitions}


def only(response: Any) -> Any:
    """Return the only partition's result in a response of the share coordinator."""
    (topic,) = response.results
    (part,) = topic.partitions
    return part


def initialize(client: Client, topic_id: bytes, partition: int = 0, epoch: int = 1, start_offset: int = 0) -> Any:
    data = [k83.InitializeStateData(topic_id, [k83.PartitionData(partition, epoch, start_offset)])]
    return only(client.call(k83.InitializeShareGroupStateRequest("g", data)))


def read(client: Client, topic_id: bytes, partition: int = 0, leader_epoch: int = 0) -> Any:
    data = [k84.ReadStateData(topic_id, [k84.PartitionData(partition, leader_epoch)])]
    return only(client.call(k84.ReadShareGroupStateRequest("g", data)))


def write(client: Client, topic_id: bytes, *batches: StateBatch, version: int = 1, **changes: Any) -> Any:
    fields: dict[str, Any] = {"partition": 0, "state_epoch": 1, "leader_epoch": 0, "start_offset": 0, "delivery_complete_count": 0}
    part = k85.PartitionData(**(fields | changes), state_batches=list(batches))
    return only(client.call(k85.WriteShareGroupStateRequest("g", [k85.WriteStateData(topic_id, [part])]), version))


def delete(client: Client, topic_id: bytes, partition: int = 0) -> Any:
    return only(client.call(k86.DeleteShareGroupStateRequest("g", [k86.DeleteStateData(topic_id, [k86.PartitionData(partition)])])))


def summary(client: Client, topic_id: bytes, partition: int = 0, version: int = 1) -> Any:
    data = [k87.ReadStateSummaryData(topic_id, [k87.PartitionData(partition, 0)])]
    return only(client.call(k87.ReadShareGroupStateSummaryRequest("g", data), version))


def refusals(client: Client, topic_id: bytes, ask: Callable[..., Any]) -> list[ErrorCode]:
    """Return the error codes that `ask` gets for an unknown topic, an unknown partition and a negative partition."""
    return [ErrorCode(ask(client, *place).error_code) for place in ((bytes(16), 0), (topic_id, 2), (topic_id, -1))]
