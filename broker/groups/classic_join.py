"""JoinGroup of a classic group, with all its cases and errors.

The checks have this order (Kafka's GroupMetadataManager.classicGroupJoinToClassicGroup):

1. the group's size, 2. the group is not dead, 3. the protocols match, 4. the member's identity.

A member without a member id gets one. A dynamic member becomes a member only when it sends a second JoinGroup with that id (KIP-394). A
static member is identified by its instance id and replaces the member that had it (KIP-345), without a rebalance if the group is stable
and would choose the same protocol.
"""

from dataclasses import dataclass, replace

from ottla.broker.core import limits
from ottla.broker.groups.classic import NEW_MEMBER_JOIN_TIMEOUT_MS, ClassicGroup, ClassicOutcome
from ottla.broker.groups.classic_members import JoinProtocol, Member
from ottla.broker.groups.results import JoinGroupResult, PendingRequestKey, Reply
from ottla.broker.groups.states import ClassicState, Now
from ottla.broker.groups.topics_view import MayDescribe, every_topic
from ottla.protocol.error_codes import ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinRequest:
    """A JoinGroup request, independent of its version. Timeouts are in ms.

    `new_member_id` is a random id that the broker has generated; a member that sends no id gets it.
    """

    member_id: str
    new_member_id: str
    instance_id: str | None = None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: tuple[JoinProtocol, ...]
    require_known_member_id: bool = False
    can_skip_assignment: bool = False
    may_describe: MayDescribe = every_topic

    def protocol_names(self) -> set[str]:
        return {protocol.name for protocol in self.protocols}


def join(group: ClassicGroup, request: JoinRequest, request_key: PendingRequestKey, now: Now) -> ClassicOutcome:
    """Process a JoinGroup. The reply is in the returned outcome if the request is answered at once; otherwise it is in the outcome of the
    later operation that ends the join phase, under `request_key`."""
    attempt = _Join(group, request, request_key, now)
    attempt.run()
    return attempt.outcome


class _Join:
    """One JoinGroup that is being processed: the group, the request, and the outcome so far."""

    def __init__(self, group: ClassicGroup, request: JoinRequest, request_key: PendingRequestKey, now: Now) -> None:
        self.group = group
        self.request = request
        self.request_key = request_key
        self.now = now
        self.outcome = ClassicOutcome()

    def run(self) -> None:
        group, request = self.group, self.request
        error, answer_id = _refusal(group, request)
        if error is not ErrorCode.NONE:
            if error is ErrorCode.GROUP_MAX_SIZE_REACHED:
                self._remove_rejected_member()
            self._answer(JoinGroupResult(error=error, member_id=answer_id))
        elif not request.member_id:
            self._join_without_id()
        elif request.member_id in group.pending:
            del group.pending[request.member_id]
            self._add(request.member_id)
        else:
            self._rejoin(group.members[request.member_id])

    def _answer(self, result: JoinGroupResult) -> None:
        self.outcome.replies.append(Reply(self.request_key, result))

    def _remove_rejected_member(self) -> None:
        """Remove the member whose JoinGroup is rejected because the group is full."""
        self.group.pending.pop(self.request.member_id, None)
        member = self.group.members.remove(self.request.member_id)
        if member is not None:
            self.group.fail_pending_requests(member, ErrorCode.GROUP_MAX_SIZE_REACHED, "", self.outcome)

    def _join_without_id(self) -> None:
        group, request = self.group, self.request
        if request.instance_id is not None:
            holder = group.members.static_member_id(request.instance_id)
            if holder is not None:
                self._replace_static(group.members[holder])
            else:
                self._add(request.new_member_id)
        elif request.require_known_member_id:
            if len(group.pending) >= limits.PENDING_MEMBERS:
                del group.pending[next(iter(group.pending))]  # the oldest; its client gets UNKNOWN_MEMBER_ID and asks for another id
            group.pending[request.new_member_id] = self.now.mono_ms + request.session_timeout_ms
            self._answer(JoinGroupResult(error=ErrorCode.MEMBER_ID_REQUIRED, member_id=request.new_member_id))
        else:
            self._add(request.new_member_id)

    def _add(self, member_id: str) -> None:
        group = self.group
        member = _member_of(self.request, member_id)
        member.is_new = True
        member.awaiting_join = self.request_key
        if not len(group.members):
            group.protocol_type = self.request.protocol_type
        group.members.add(member)
        group.note_new_member()
        group.reset_session(member, self.now, NEW_MEMBER_JOIN_TIMEOUT_MS)
        group.prepare_or_complete(self.now, self.outcome)

    def _rejoin(self, member: Member) -> None:
        """Process the rejoin of a member. If nothing has changed, repeat the last response, because it may have been lost. A change of the
        member's protocols, or a rejoin of a stable group's leader, starts a rebalance.
        """
        group, request = self.group, self.request
        repeats = request.protocols == member.protocols and (
            group.state is ClassicState.COMPLETING_REBALANCE or (group.state is ClassicState.STABLE and member.member_id != group.leader_id)
        )
        if repeats:
            group.reset_session(member, self.now)
            self._answer(group.current_generation(member.member_id))
            return
        group.members.set_protocols(member, request.protocols)
        member.rebalance_timeout_ms = request.rebalance_timeout_ms
        member.session_timeout_ms = request.session_timeout_ms
        group.await_join(member, self.request_key, self.outcome)
        group.prepare_or_complete(self.now, self.outcome)

    def _replace_static(self, old: Member) -> None:
        """Replace a static member that returns without its member id, after a restart. The old id is fenced at once (KIP-345)."""
        group, request = self.group, self.request
        group.fail_pending_requests(old, ErrorCode.FENCED_INSTANCE_ID, old.member_id, self.outcome)
        member = replace(
            old,
            member_id=request.new_member_id,
            protocols=request.protocols,
            rebalance_timeout_ms=request.rebalance_timeout_ms,
            session_timeout_ms=request.session_timeout_ms,
        )
        group.reset_session(member, self.now)
        if group.state is ClassicState.STABLE and _protocol_if_replaced(group, old, member) == group.protocol_name:
            group.replacement = member
            self.outcome.record = group.record_replacing(old.member_id, member, self.now)
            self._answer(_answer_to_replacement(group, request, old, member))
            return
        member.awaiting_join = self.request_key
        group.members.replace(old.member_id, member)
        group.forget_pending_sync(old.member_id)
        group.prepare_or_complete(self.now, self.outcome)


def _refusal(group: ClassicGroup, request: JoinRequest) -> tuple[ErrorCode, str]:
    """Return the error with which the JoinGroup is rejected (NONE if it is accepted), and the member id for the error response."""
    if not _has_room(group, request.member_id):
        return ErrorCode.GROUP_MAX_SIZE_REACHED, ""
    if group.state is ClassicState.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE, request.member_id
    if not group.supports_protocols(request.protocol_type, request.protocol_names()):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL, request.member_id
    if not request.member_id:
        return ErrorCode.NONE, ""
    if request.member_id in group.pending:
        # Only dynamic members are ever pending; a request with an instance id is not from the client that got this id.
        return (ErrorCode.NONE if request.instance_id is None else ErrorCode.UNKNOWN_MEMBER_ID), request.member_id
    return group.check_member(request.member_id, request.instance_id), request.member_id


def _has_room(group: ClassicGroup, member_id: str) -> bool:
    """Return whether the size limit allows this member (Kafka's acceptJoiningMember).

    During the join phase only members with a pending JoinGroup count: if the limit was lowered, the members that rejoin last are rejected.
    """
    if group.state in {ClassicState.EMPTY, ClassicState.DEAD}:
        return True
    member = group.members.get(member_id)
    if group.state is ClassicState.PREPARING_REBALANCE:
        parked = sum(1 for other in group.members if other.awaiting_join is not None)
        return (member is not None and member.awaiting_join is not None) or parked < group.config.max_size
    return member is not None or len(group.members) < group.config.max_size


def _protocol_if_replaced(group: ClassicGroup, old: Member, member: Member) -> str:
    """Return the protocol that the group would choose if `member`'s protocols replaced those of `old`. The group stays unchanged."""
    before = old.protocols
    group.members.set_protocols(old, member.protocols)
    chosen = group.members.select_protocol()
    group.members.set_protocols(old, before)
    return chosen


def _answer_to_replacement(group: ClassicGroup, request: JoinRequest, old: Member, member: Member) -> JoinGroupResult:
    """Return the JoinGroup response to a static member that has replaced `old` without a rebalance. If it is the leader, it must not assign
    partitions again: newer clients get `skip_assignment` (KIP-814); older ones get the old leader's member id as the leader, so that they
    act as followers."""
    was_leader = old.member_id == group.leader_id
    skip = was_leader and request.can_skip_assignment
    members = group.joined_members() if skip else ()
    leader = member.member_id if skip else group.leader_id or ""
    return JoinGroupResult(
        member_id=member.member_id,
        generation=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        leader=leader,
        members=tuple(
            m._replace(member_id=member.member_id, metadata=member.metadata(group.protocol_name)) if m.member_id == old.member_id else m
            for m in members
        ),
        skip_assignment=skip,
    )


def _member_of(request: JoinRequest, member_id: str) -> Member:
    return Member(
        member_id=member_id,
        instance_id=request.instance_id,
        client_id=request.client_id,
        client_host=request.client_host,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        session_timeout_ms=request.session_timeout_ms,
        protocols=request.protocols,
    )
