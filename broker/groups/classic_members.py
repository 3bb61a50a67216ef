"""The members of one classic group, with their leader and the protocols that all of them support.

Invariants:

* A member id is in the group once; an instance id names exactly one member.
* `leader_id` is None or names a member.
* A protocol can be chosen only if every member supports it; each member votes for the first such protocol in its own list (Kafka's
  ClassicGroup.selectProtocol).
* A `PendingRequestKey` identifies a request whose response is delayed; a member has at most one for its join and one for its sync.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from ottla.broker.groups.group_records import MemberMetadata
from ottla.broker.groups.results import PendingRequestKey


class JoinProtocol(NamedTuple):
    """One protocol from a JoinGroup: `name` is an assignor, and `metadata` is the member's subscription in bytes that only the clients
    interpret."""

    name: str
    metadata: bytes


@dataclass(slots=True, kw_only=True)
class Member:
    """One member of a classic group. Timeouts are in ms; `session_deadline_ms` is monotonic, None without a timer."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: tuple[JoinProtocol, ...]
    assignment: bytes = b""
    is_new: bool = False
    session_deadline_ms: int | None = None
    awaiting_join: PendingRequestKey | None = None
    awaiting_sync: PendingRequestKey | None = None

    def metadata(self, protocol: str | None) -> bytes:
        """Return the member's subscription under `protocol`; empty if the member does not support the protocol."""
        return next((offered.metadata for offered in self.protocols if offered.name == protocol), b"")

    def to_record(self, protocol: str | None, assignment: bytes) -> MemberMetadata:
        """Return the member as it is stored in the group's record, with its subscription under the chosen protocol."""
        return MemberMetadata(
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            client_id=self.client_id,
            client_host=self.client_host,
            rebalance_timeout=self.rebalance_timeout_ms,
            session_timeout=self.session_timeout_ms,
            subscription=self.metadata(protocol),
            assignment=assignment,
        )

    def protocol_names(self) -> set[str]:
        return {offered.name for offered in self.protocols}

    def vote(self, candidates: set[str]) -> str:
        return next(offered.name for offered in self.protocols if offered.name in candidates)

    def must_not_expire(self) -> bool:
        """Return whether the member's session must not expire now, because its JoinGroup or SyncGroup is pending and its client cannot send
        heartbeats meanwhile.

        During the first join of a new member the session may expire: a client that disconnects then never learns its member id, so it
        cannot return as this member.
        """
        return not self.is_new and (self.awaiting_join is not None or self.awaiting_sync is not None)


class ClassicMembers:
    """The members of a classic group, by id and by instance id, with the leader and the number of members that support each protocol."""

    def __init__(self) -> None:
        self.leader_id: str | None = None
        self._members: dict[str, Member] = {}
        self._static: dict[str, str] = {}
        self._support: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._members)

    def __iter__(self) -> Iterator[Member]:
        return iter(self._members.values())

    def __contains__(self, member_id: str) -> bool:
        return member_id in self._members

    def get(self, member_id: str) -> Member | None:
        return self._members.get(member_id)

    def __getitem__(self, member_id: str) -> Member:
        return self._members[member_id]

    def static_member_id(self, instance_id: str) -> str | None:
        return self._static.get(instance_id)

    def add(self, member: Member) -> None:
        """Add a member to the group; the first one becomes the leader."""
        assert member.member_id not in self._members, "a member id is in the group once"
        if member.instance_id is not None:
            assert member.instance_id not in self._static, "an instance id names one member"
            self._static[member.instance_id] = member.member_id
        self._members[member.member_id] = member
        self._support.update(member.protocol_names())
        if self.leader_id is None:
            self.leader_id = member.member_id

    def remove(self, member_id: str) -> Member | None:
        """Remove a member and return it, None if the id is unknown. If it led, the longest-standing remaining member becomes the leader."""
        member = self._members.pop(member_id, None)
        if member is None:
            return None
        self._forget_support(member)
        if member.instance_id is not None:
            del self._static[member.instance_id]
        if self.leader_id == member_id:
            self.leader_id = next(iter(self._members), None)
        return member

    def set_protocols(self, member: Member, protocols: tuple[JoinProtocol, ...]) -> None:
        self._forget_support(member)
        member.protocols = protocols
        self._support.update(member.protocol_names())

    def replace(self, old_member_id: str, member: Member) -> None:
        """Put `member` in the place of the member `old_member_id`, which leaves; if that one led the group, `member` does."""
        was_leader = self.leader_id == old_member_id
        self.remove(old_member_id)
        self.add(member)
        if was_leader:
            self.leader_id = member.member_id

    def elect_joined_leader(self) -> bool:
        """Keep the leader if it has joined, otherwise make the first member that has joined the leader. Return False if none has joined
        (Kafka's maybeElectNewJoinedLeader)."""
        if self.leader_id is not None and self._members[self.leader_id].awaiting_join is not None:
            return True
        joined = next((member.member_id for member in self if member.awaiting_join is not None), None)
        if joined is None:
            return False
        self.leader_id = joined
        return True

    def supports(self, protocol_names: set[str]) -> bool:
        """Return whether at least one of these protocols is supported by every member."""
        return any(self._support[name] == len(self._members) for name in protocol_names)

    def select_protocol(self) -> str:
        """Return the protocol for the next generation. Each member votes for the first protocol in its list that all members support; the
        one with the most votes wins, on a tie the one that was voted for first.

        There is always such a protocol, because a member can join only if it shares a protocol with all others.
        """
        everyone = len(self._members)
        candidates = {name for name, count in self._support.items() if count == everyone}
        votes = Counter(member.vote(candidates) for member in self)
        return votes.most_common(1)[0][0]

    def rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self), default=0)

    def _forget_support(self, member: Member) -> None:
        self._support.subtract(member.protocol_names())
        self._support = +self._support
