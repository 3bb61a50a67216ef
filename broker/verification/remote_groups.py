"""Describes and deletes groups on the user's cluster on which `ottla verify` runs, and removes their members.

Rules:
- The type of a group (classic, consumer or share) is known from the API with which its members joined.
- Members of the newer protocols (KIP-848, KIP-932) are removed by a heartbeat with the member epoch -1, which every client with access to
  the group can send.
- Members of classic groups are removed as by Kafka's `AdminClient.removeMembersFromConsumerGroup`.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ottla.broker.verification.verifier_client import BY_GROUP, VerifierClient
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k13_leave_group import LeaveGroupRequest, MemberIdentity
from ottla.protocol.messages.k15_describe_groups import DescribeGroupsRequest
from ottla.protocol.messages.k42_delete_groups import DeleteGroupsRequest
from ottla.protocol.messages.k68_consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.protocol.messages.k69_consumer_group_describe import ConsumerGroupDescribeRequest
from ottla.protocol.messages.k76_share_group_heartbeat import ShareGroupHeartbeatRequest
from ottla.protocol.messages.k77_share_group_describe import ShareGroupDescribeRequest
from ottla.protocol.schema import Message

_LEAVES: Final = -1
_DELETED: Final = frozenset({ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND})
_SECONDS: Final = 10.0
_PAUSE_S: Final = 0.1
_DESCRIBE_CLASSIC, _LEAVE, _DELETE_GROUPS = 4, 4, 1


@dataclass(frozen=True, slots=True)
class RemoteMember:
    """A member of a group on the user's cluster; `instance` is its group.instance.id."""

    id: str
    instance: str | None = None


class RemoteGroups:
    """The groups of the user's cluster. All methods raise OSError if the cluster does not answer, RuntimeError if it rejects a request."""

    def __init__(self, client: VerifierClient) -> None:
        self._client = client

    def members(self, group: str, joined_by: ApiKey) -> list[RemoteMember]:
        """Return the members of a group; an empty list if the group does not exist. `joined_by` is the API with which the members joined:
        it tells whether the group is a classic, a consumer or a share group."""
        request, version = _description(group, joined_by)
        (found,) = self._client.call(self._client.coordinator(BY_GROUP, group), request, version).groups
        return (
            [] if found.error_code else [RemoteMember(each.member_id, getattr(each, "group_instance_id", None)) for each in found.members]
        )

    def remove_members(self, joined: Mapping[str, ApiKey]) -> None:
        """Remove all members of the groups. `joined` maps each group to the API with which its members joined."""
        for group, api in list(joined.items()):
            members, at = self.members(group, api), self._client.coordinator(BY_GROUP, group)
            if api is ApiKey.CONSUMER_GROUP_HEARTBEAT:
                for each in members:
                    self._client.call(at, ConsumerGroupHeartbeatRequest(group, each.id, _LEAVES), 0)
            elif api is ApiKey.SHARE_GROUP_HEARTBEAT:
                for each in members:
                    self._client.call(at, ShareGroupHeartbeatRequest(group, each.id, _LEAVES), 1)
            elif members:
                identities = [MemberIdentity(each.id, each.instance) for each in members]
                self._client.call(at, LeaveGroupRequest(group, members=identities), _LEAVE)

    def delete(self, joined: Mapping[str, ApiKey]) -> None:
        """Remove the members of the groups, and delete the groups with their offsets. `joined` maps each group to the API with which its
        members joined. Raises RuntimeError if a group cannot be deleted in time."""
        for group in joined:
            until = time.monotonic() + _SECONDS
            while (error := self._delete(group, joined)) not in _DELETED:
                if time.monotonic() > until:
                    raise RuntimeError(f"the group {group} cannot be deleted: {error.name}")
                time.sleep(_PAUSE_S)

    def _delete(self, group: str, joined: Mapping[str, ApiKey]) -> ErrorCode:
        self.remove_members({group: joined[group]})
        at = self._client.coordinator(BY_GROUP, group)
        return ErrorCode.of(self._client.call(at, DeleteGroupsRequest([group]), _DELETE_GROUPS).results[0].error_code)


def _description(group: str, joined_by: ApiKey) -> tuple[Message, int]:
    if joined_by is ApiKey.CONSUMER_GROUP_HEARTBEAT:
        return ConsumerGroupDescribeRequest([group]), 0
    if joined_by is ApiKey.SHARE_GROUP_HEARTBEAT:
        return ShareGroupDescribeRequest([group]), 1
    return DescribeGroupsRequest([group]), _DESCRIBE_CLASSIC
