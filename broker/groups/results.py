"""The results of JoinGroup and SyncGroup requests, independent of wire versions.

A request whose response may be delayed passes a `PendingRequestKey`, any hashable object. The group returns it later in a `Reply` with the
result.
"""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import NamedTuple

from ottla.protocol.error_codes import ErrorCode

PendingRequestKey = Hashable


class JoinedMember(NamedTuple):
    """One member in the JoinGroup response to the leader; `metadata` is the member's subscription under the chosen protocol."""

    member_id: str
    instance_id: str | None
    metadata: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinGroupResult:
    """The result of a JoinGroup: the new generation, or an error (then generation -1, no protocol, no leader)."""

    error: ErrorCode = ErrorCode.NONE
    member_id: str = ""
    generation: int = -1
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str = ""
    members: tuple[JoinedMember, ...] = ()
    skip_assignment: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncGroupResult:
    """The result of a SyncGroup: the member's assignment, or an error."""

    error: ErrorCode = ErrorCode.NONE
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


class Reply(NamedTuple):
    request_key: PendingRequestKey
    result: JoinGroupResult | SyncGroupResult
