"""Short forms of the group requests, and members that wait for responses on their own connections."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

from ottla.protocol.client import Client
from ottla.protocol.codec import decode_response
from ottla.protocol.messages.k08_offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from ottla.protocol.messages.k09_offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from ottla.protocol.messages.k10_find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.k11_join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from ottla.protocol.messages.k12_heartbeat import HeartbeatRequest
from ottla.protocol.messages.k14_sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from ottla.protocol.messages.k15_describe_groups import DescribedGroup, DescribeGroupsRequest
from ottla.protocol.schema import Message
from tests.support.classic_groups import subscription
from tests.support.running_broker import RunningBroker


def find_coordinator(client: Client, group_id: str = "g") -> None:
    """Send FindCoordinator, which also creates the offsets topic."""
    (found,) = client.call(FindCoordinatorRequest(coordinator_keys=[group_id]), version=6).coordinators
    assert found.error_code == 0


def join_request(member_id: str = "", group_id: str = "g", **changes: Any) -> JoinGroupRequest:
    fields: dict[str, Any] = {
        "group_id": group_id,
        "session_timeout_ms": 30_000,
        "rebalance_timeout_ms": 30_000,
        "member_id": member_id,
        "protocol_type": "consumer",
        "protocols": [JoinGroupRequestProtocol("range", subscription("t"))],
    }
    return JoinGroupRequest(**(fields | changes))


def join(client: Client, member_id: str = "", *, version: int = 9, **changes: Any) -> JoinGroupResponse:
    """Send JoinGroup, and send it again with the assigned member id if the broker requires one (MEMBER_ID_REQUIRED, from version 4 on).
    Return the last response."""
    response: JoinGroupResponse = client.call(join_request(member_id, **changes), version=version)
    if response.error_code == 79:
        response = client.call(join_request(response.member_id, **changes), version=version)
    return response


def sync(
    client: Client, member_id: str, generation: int, assignments: dict[str, bytes] | None = None, *, version: int = 5, **changes: Any
) -> SyncGroupResponse:
    """Send a SyncGroup of a consumer with the range assignor; return the response."""
    handed_out = [SyncGroupRequestAssignment(name, assignment) for name, assignment in (assignments or {}).items()]
    protocol = {"protocol_type": "consumer", "protocol_name": "range"} if version >= 5 else {}
    request = SyncGroupRequest("g", generation, member_id, assignments=handed_out, **(protocol | changes))
    response: SyncGroupResponse = client.call(request, version=version)
    return response


def stable_member(client: Client, **changes: Any) -> tuple[str, int]:
    """Make a stable group "g" with one member; return its member id and generation."""
    joined = join(client, **changes)
    assert joined.error_code == 0
    assert sync(client, joined.member_id, joined.generation_id, {joined.member_id: b"all"}, version=4).error_code == 0
    return joined.member_id, joined.generation_id


def heartbeat(client: Client, member_id: str, generation: int, *, version: int = 4) -> int:
    error: int = client.call(HeartbeatRequest("g", generation, member_id), version=version).error_code
    return error


def commit(
    client: Client, offset: int, *, topic: str = "t", partition: int = 0, metadata: str | None = None, version: int = 9, **changes: Any
) -> int:
    """Send OffsetCommit for one partition; return the error code."""
    topics = [OffsetCommitRequestTopic(topic, partitions=[OffsetCommitRequestPartition(partition, offset, 2, metadata)])]
    fields: dict[str, Any] = {"group_id": "g", "topics": topics}
    response = client.call(OffsetCommitRequest(**(fields | changes)), version=version)
    error: int = response.topics[0].partitions[0].error_code
    return error


def fetch(client: Client, *, topic: str = "t", partition: int = 0, group_id: str = "g") -> tuple[int, int, str | None, int]:
    """Return the committed offset of one partition: offset, leader epoch, metadata, error."""
    groups = [OffsetFetchRequestGroup(group_id, topics=[OffsetFetchRequestTopics(topic, partition_indexes=[partition])])]
    (group,) = client.call(OffsetFetchRequest(groups=groups, require_stable=True), version=9).groups
    assert group.error_code == 0
    one = group.topics[0].partitions[0]
    return one.committed_offset, one.committed_leader_epoch, one.metadata, one.error_code


def describe(client: Client, group_id: str = "g", *, version: int = 6) -> DescribedGroup:
    (group,) = client.call(DescribeGroupsRequest([group_id]), version=version).groups
    described: DescribedGroup = group
    return described


def wait_for_state(client: Client, state: str) -> None:
    """Wait until group "g" has that state, for at most a minute: even a busy machine reaches the limit only if something hangs."""
    wait_until(lambda: describe(client).group_state == state, f"the group is {state}")


def wait_until(condition: Callable[[], bool], what: str, timeout_s: float = 60) -> None:
    """Poll until `condition` returns true. Raises AssertionError with `what` after `timeout_s` seconds."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"not within {timeout_s} s: {what}"
        time.sleep(0.005)


async def wait_until_async(condition: Callable[[], bool], what: str, timeout_s: float = 60) -> None:
    """Poll until the condition holds, without blocking the loop that the client under test runs on."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"not within {timeout_s} s: {what}"
        await asyncio.sleep(0.01)


class Waiting:
    """A request that was sent on its own connection and whose response is not read yet."""

    def __init__(self, broker: RunningBroker, request: Message, version: int) -> None:
        self._client = broker.client()
        self._request = request
        self._version = version
        self._client.send(request, version)

    def response(self) -> Any:
        """Wait for the response, close the connection, and return the response."""
        with self._client as client:
            return decode_response(self._request.API_KEY, self._version, client.read_frame())[1]

    def hang_up(self) -> None:
        """Close the connection without waiting for the response."""
        self._client.close()
