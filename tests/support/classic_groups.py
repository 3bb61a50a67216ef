"""Drives one classic group as the broker's runtime does: it applies the group's decisions, and stores the response to each request under
the request's number when the group sends it."""

from __future__ import annotations

from struct import pack
from typing import Any

from ottla.broker.groups.classic import ClassicConfig, ClassicGroup, ClassicOutcome, LeavingMember, SyncRequest
from ottla.broker.groups.classic_join import JoinRequest, join
from ottla.broker.groups.classic_members import JoinProtocol
from ottla.broker.groups.group_records import GroupMetadataValue
from ottla.broker.groups.results import JoinGroupResult, SyncGroupResult
from ottla.broker.groups.states import Now
from ottla.protocol.error_codes import ErrorCode

WALL_MS = 1_700_000_000_000


def subscription(*topics: str) -> bytes:
    """Encode a consumer's subscription, version 0 without user data."""
    body = b"".join(pack(">h", len(topic)) + topic.encode() for topic in topics)
    return pack(">hi", 0, len(topics)) + body + pack(">i", -1)


RANGE = (JoinProtocol("range", subscription("t")),)


def join_request(**changes: Any) -> JoinRequest:
    """Return a consumer's first JoinGroup request, with `changes` to its fields."""
    fields: dict[str, Any] = {
        "member_id": "",
        "new_member_id": "m",
        "client_id": "c",
        "client_host": "/h",
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 30_000,
        "protocol_type": "consumer",
        "protocols": RANGE,
    }
    return JoinRequest(**(fields | changes))


class GroupDriver:
    """Drives one classic group on a test's clock. Methods that send a request return its number; `replies[number]` has the response as soon
    as the group has sent it."""

    def __init__(self, *, initial_delay_ms: int = 0, max_size: int = 2**31 - 1) -> None:
        self.config = ClassicConfig(initial_rebalance_delay_ms=initial_delay_ms, max_size=max_size)
        self.mono_ms = 0
        self.group = ClassicGroup("g", self.config)
        self.replies: dict[int, JoinGroupResult | SyncGroupResult] = {}
        self.records: list[GroupMetadataValue] = []
        self._ids = 0
        self._callers = 0

    @property
    def now(self) -> Now:
        return Now(self.mono_ms, WALL_MS + self.mono_ms)

    def join(self, member_id: str = "", **changes: object) -> int:
        """Send a JoinGroup; return the number under which its result is stored in `replies`."""
        self._ids += 1
        request = join_request(**({"member_id": member_id, "new_member_id": f"m{self._ids}"} | changes))
        request_key = self._new_request_key()
        self.take(join(self.group, request, request_key, self.now))
        return request_key

    def sync(self, member_id: str, generation: int | None = None, **changes: object) -> int:
        fields: dict[str, object] = {"member_id": member_id, "generation": self.group.generation if generation is None else generation}
        request_key = self._new_request_key()
        self.take(self.group.sync(SyncRequest(**(fields | changes)), request_key, self.now))  # type: ignore[arg-type]  # the fields are named by the tests
        return request_key

    def heartbeat(self, member_id: str, generation: int | None = None, instance_id: str | None = None) -> ErrorCode:
        return self.group.heartbeat(member_id, instance_id, self.group.generation if generation is None else generation, self.now)

    def leave(self, *leaving: LeavingMember) -> list[ErrorCode]:
        errors, outcome = self.group.leave(list(leaving), self.now)
        self.take(outcome)
        return errors

    def pass_ms(self, delta_ms: int) -> None:
        """Advance the time by `delta_ms`. At each deadline on the way, the group handles its timeouts, as in the broker."""
        end = self.mono_ms + delta_ms
        while (deadline := self.group.next_deadline()) is not None and deadline <= end:
            self.mono_ms = max(self.mono_ms, deadline)
            self.take(self.group.expire(self.now))
        self.mono_ms = end

    def take(self, outcome: ClassicOutcome) -> None:
        if outcome.record is not None:
            self.records.append(outcome.record)
            self.group.apply(outcome.record)
        for reply in outcome.replies:
            assert isinstance(reply.request_key, int)
            assert reply.request_key not in self.replies, "a request has one reply"
            self.replies[reply.request_key] = reply.result

    def joined(self, request_key: int) -> JoinGroupResult:
        answer = self.replies[request_key]
        assert isinstance(answer, JoinGroupResult)
        return answer

    def synced(self, request_key: int) -> SyncGroupResult:
        answer = self.replies[request_key]
        assert isinstance(answer, SyncGroupResult)
        return answer

    def stable(self, *instance_ids: str | None, **changes: object) -> list[str]:
        """Make a stable group with one member for each argument (None: a dynamic member); each member's assignment is its own name. Return
        the member ids."""
        request_keys = [self.join(instance_id=instance_id, **changes) for instance_id in instance_ids]
        members = [member.member_id for member in self.group.members]
        for member_id in members:
            waiting = self.group.members[member_id].awaiting_join
            if waiting is None and len(members) > 1:
                member = self.group.members[member_id]
                request_keys.append(self.join(member_id, **({"protocols": member.protocols, "instance_id": member.instance_id} | changes)))
        self.settle()
        return members

    def settle(self) -> None:
        """Send a SyncGroup for every member, the leader's last. The leader's SyncGroup assigns each member its own name (as bytes)."""
        members = [member.member_id for member in self.group.members]
        leader = self.group.leader_id
        for member_id in sorted(members, key=lambda one: one == leader):
            self.sync(member_id, assignments={one: one.encode() for one in members})

    def _new_request_key(self) -> int:
        self._callers += 1
        return self._callers
