"""What a group says to its members, without a word about versions of the wire.

A caller that may have to wait hands in a `Ticket`; the group keeps it and later returns a `Reply` that names it. What the ticket is does
not matter here.
"""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import NamedTuple

from ottla.protocol.error_codes import ErrorCode

Ticket = Hashable


class JoinedMember(NamedTuple):
    """A member as the leader sees it."""

    member_id: str
    instance_id: str | None
    metadata: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinAnswer:
    """The outcome of a join: the generation entered, or an error (then generation −1, no protocol, no leader)."""

    error: ErrorCode = ErrorCode.NONE
    member_id: str = ""
    generation: int = -1
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str = ""
    members: tuple[JoinedMember, ...] = ()
    skip_assignment: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncAnswer:
    """The outcome of a sync: the member's assignment, or an error."""

    error: ErrorCode = ErrorCode.NONE
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


class Reply(NamedTuple):
    ticket: Ticket
    answer: JoinAnswer | SyncAnswer
