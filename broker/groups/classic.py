"""A classic consumer group as a pure state machine, one generation after the other.

Invariants:

* Time is an argument; `expire` must be called at or after `next_deadline()`. Nothing here waits: for a pending request the group stores
  its `PendingRequestKey`, the key by which the runtime finds the client, and later returns a `Reply` for it.
* Membership between two generations is not persisted ("soft state") and changes at once. Generation, protocol, leader, members and
  assignments are persisted: an operation returns them as a `GroupMetadataValue` in `ClassicOutcome.record`, and they change only in
  `apply`, which loading the log uses, too.
* A record is written when the leader's assignment arrives, when a generation begins without members, and when a static member returns
  under a new id without a rebalance. If it cannot be written, `on_write_failed` makes the members rejoin; there is nothing to roll back.
* Every request gets exactly one reply. If a later request of the same member replaces a pending one, the older request gets
  REBALANCE_IN_PROGRESS (Kafka leaves it unanswered).

The processing of JoinGroup is in `classic_join`. Source: Kafka's GroupMetadataManager.classicGroup*, ClassicGroup; KIP-345,
KIP-394.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ottla.broker.groups import subscriptions
from ottla.broker.groups.classic_members import ClassicMembers, JoinProtocol, Member
from ottla.broker.groups.group_records import GroupMetadataValue, MemberMetadata
from ottla.broker.groups.results import JoinedMember, JoinGroupResult, PendingRequestKey, Reply, SyncGroupResult
from ottla.broker.groups.states import VALID_TRANSITIONS, ClassicState, Now
from ottla.protocol.error_codes import ErrorCode

CONSUMER_PROTOCOL_TYPE = "consumer"
NEW_MEMBER_JOIN_TIMEOUT_MS = 5 * 60 * 1000
"""The session timeout of a new member during its first join. If the join is still pending then, its client has disconnected or has joined
again under another member id (Kafka's classicGroupNewMemberJoinTimeoutMs)."""

NOBODY_JOINED_RETRY_MS = 1_000
"""The minimum time by which the join phase is extended if it ends before any member of a group of static members has joined. Without it, a
rebalance timeout of 0 from a client would make the group extend the phase in a loop."""


@dataclass(frozen=True, slots=True)
class ClassicConfig:
    """The settings of a classic group, under Kafka's names without `group.`; times in ms. `max_size` is the largest number of members."""

    initial_rebalance_delay_ms: int = 0
    max_size: int = 2**31 - 1


@dataclass(slots=True)
class ClassicOutcome:
    """An operation's result. The runtime appends `record` (if it is not None) to the log and applies it to the group, and sends `replies`
    when the record is durable.
    """

    replies: list[Reply] = field(default_factory=list)
    record: GroupMetadataValue | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncRequest:
    """A SyncGroup request, independent of its version. `protocol_type` and `protocol_name` are None if the request has none. `assignments`,
    by member id, are used only if the group leader sent them.
    """

    member_id: str
    instance_id: str | None = None
    generation: int
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignments: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LeavingMember:
    """A member to remove, named by its member id, or by instance id alone (an administrator's request)."""

    member_id: str
    instance_id: str | None = None


class ClassicGroup:
    """One group of the classic protocol. `generation` starts at 0; the first completed join makes it 1."""

    def __init__(self, group_id: str, config: ClassicConfig) -> None:
        self.group_id = group_id
        self.config = config
        self.state = ClassicState.EMPTY
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.state_timestamp_ms: int | None = None
        self.members = ClassicMembers()
        self.pending: dict[str, int] = {}
        """Member ids that the group has assigned (MEMBER_ID_REQUIRED, KIP-394) and whose clients have not joined with them yet. The value
        is the time, in monotonic ms, at which the id is forgotten.
        """
        self.subscribed_topics: frozenset[str] | None = None
        """The topics of all members' subscriptions. None if they are unknown, because the protocol type is not `consumer`, or a
        subscription cannot be decoded."""
        self.replacement: Member | None = None
        """A static member that has rejoined under a new member id, as long as the record that stores it is being written. `apply` then
        replaces the member with the old id by it."""
        self._pending_sync: set[str] = set()
        self._join_deadline_ms: int | None = None
        self._sync_deadline_ms: int | None = None
        self._initial_delay_left_ms: int | None = None
        self._joined_during_initial_delay = False

    # --- queries --------------------------------------------------------------------------------------------------------------

    @property
    def leader_id(self) -> str | None:
        return self.members.leader_id

    @property
    def is_empty(self) -> bool:
        return self.state is ClassicState.EMPTY

    @property
    def is_simple(self) -> bool:
        """Whether the group is a simple group in Kafka's sense: it only stores offsets, because it never had a member."""
        return self.protocol_type is None and self.is_empty and not self.pending

    @property
    def uses_consumer_protocol(self) -> bool:
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    def is_subscribed_to(self, topic: str) -> bool:
        """Return whether a member subscribes to `topic`. If the subscriptions are unknown, return True for protocol type `consumer`."""
        return self.uses_consumer_protocol if self.subscribed_topics is None else topic in self.subscribed_topics

    def check_member(self, member_id: str, instance_id: str | None) -> ErrorCode:
        """Return NONE if the group has this member, UNKNOWN_MEMBER_ID if not, FENCED_INSTANCE_ID if another member has the instance id."""
        if instance_id is not None:
            holder = self.members.static_member_id(instance_id)
            if holder is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if holder != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return ErrorCode.NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    def supports_protocols(self, protocol_type: str, names: set[str]) -> bool:
        if self.is_empty:
            return bool(protocol_type) and bool(names)
        return self.protocol_type == protocol_type and self.members.supports(names)

    def joined_members(self) -> tuple[JoinedMember, ...]:
        """Return every member with its subscription under the chosen protocol, for the JoinGroup response to the leader."""
        return tuple(JoinedMember(m.member_id, m.instance_id, m.metadata(self.protocol_name)) for m in self.members)

    def current_generation(self, member_id: str) -> JoinGroupResult:
        """Return a JoinGroup response for the current generation, addressed to `member_id`. Only the response to the group leader lists the
        members."""
        return JoinGroupResult(
            member_id=member_id,
            generation=self.generation,
            protocol_type=self.protocol_type,
            protocol_name=self.protocol_name,
            leader=self.leader_id or "",
            members=self.joined_members() if member_id == self.leader_id else (),
        )

    def next_deadline(self) -> int | None:
        """Return the monotonic time in ms of the earliest deadline, at which `expire` has to be called; None if there is no deadline. It
        need not be called again after a heartbeat, which only postpones deadlines."""
        deadlines = [m.session_deadline_ms for m in self.members if m.session_deadline_ms is not None]
        deadlines += self.pending.values()
        deadlines += [deadline for deadline in (self._join_deadline_ms, self._sync_deadline_ms) if deadline is not None]
        return min(deadlines, default=None)

    # --- operations -----------------------------------------------------------------------------------------------------------

    def sync(self, request: SyncRequest, request_key: PendingRequestKey, now: Now) -> ClassicOutcome:
        """Process a SyncGroup. The returned outcome has the reply if there is an error or the group is stable; the leader's SyncGroup
        returns the record with the assignments, and the replies to all pending SyncGroups. Until then a member's request stays pending
        under `request_key`."""
        error = self._check_sync(request)
        if error is not ErrorCode.NONE:
            return ClassicOutcome([Reply(request_key, SyncGroupResult(error=error))])
        member = self.members[request.member_id]
        self._pending_sync.discard(member.member_id)
        if not self._pending_sync:
            self._sync_deadline_ms = None
        self.reset_session(member, now)
        if self.state is ClassicState.STABLE:
            return ClassicOutcome([Reply(request_key, self._assignment_of(member.assignment))])
        outcome = ClassicOutcome()
        self._supersede(member.awaiting_sync, SyncGroupResult(error=ErrorCode.REBALANCE_IN_PROGRESS), outcome)
        member.awaiting_sync = request_key
        if member.member_id == self.leader_id:
            self._assign(request.assignments, now, outcome)
        return outcome

    def heartbeat(self, member_id: str, instance_id: str | None, generation: int, now: Now) -> ErrorCode:
        """Extend the member's session and return NONE, or REBALANCE_IN_PROGRESS if the member must rejoin. Do not extend the session, and
        return the error, if the group is deleted, the member or instance id is wrong, or `generation` is not the current one."""
        if self.state is ClassicState.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        error = self.check_member(member_id, instance_id)
        if error is not ErrorCode.NONE:
            return error
        if generation != self.generation:
            return ErrorCode.ILLEGAL_GENERATION
        self.reset_session(self.members[member_id], now)
        return ErrorCode.REBALANCE_IN_PROGRESS if self.state is ClassicState.PREPARING_REBALANCE else ErrorCode.NONE

    def leave(self, leaving: list[LeavingMember], now: Now) -> tuple[list[ErrorCode], ClassicOutcome]:
        """Remove the members that `leaving` names; if any was removed, the others must rejoin. Return an error code for each named member,
        in the same order, and the outcome with the record and replies to send."""
        outcome = ClassicOutcome()
        if self.state is ClassicState.DEAD:
            return [ErrorCode.COORDINATOR_NOT_AVAILABLE] * len(leaving), outcome
        errors = [self._leave_one(one, outcome) for one in leaving]
        if ErrorCode.NONE in errors:
            if self.state in {ClassicState.STABLE, ClassicState.COMPLETING_REBALANCE}:
                self.prepare_rebalance(now, outcome)
            else:
                self.maybe_complete_join(now, outcome)
        return errors, outcome

    def check_offset_commit(self, member_id: str, instance_id: str | None, generation: int, *, transactional: bool) -> ErrorCode:
        """Return NONE if a client with these ids and this generation may commit offsets, otherwise the error (Kafka's
        ClassicGroup.validateOffsetCommit). `transactional` is true for TxnOffsetCommit, which may have neither ids nor a generation."""
        if self.state is ClassicState.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if generation < 0 and self.is_empty:
            return ErrorCode.NONE
        if generation >= 0 or member_id or instance_id is not None:
            error = self.check_member(member_id, instance_id)
            if error is not ErrorCode.NONE:
                return error
            if generation != self.generation:
                return ErrorCode.ILLEGAL_GENERATION
        elif not transactional:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if not transactional and self.state is ClassicState.COMPLETING_REBALANCE:
            return ErrorCode.REBALANCE_IN_PROGRESS
        return ErrorCode.NONE

    def extend_session_by_commit(self, member_id: str, now: Now) -> None:
        """Extend the member's session, because an offset commit counts as a heartbeat. An unknown member is ignored."""
        member = self.members.get(member_id)
        if member is not None:
            self.reset_session(member, now)

    def expire(self, now: Now) -> ClassicOutcome:
        """Process the group's deadlines that have passed: first sessions, and member ids that no client has joined with (`pending`), then
        the join phase, then the sync phase."""
        outcome = ClassicOutcome()
        due = [
            (m.session_deadline_ms, m.member_id)
            for m in self.members
            if m.session_deadline_ms is not None and m.session_deadline_ms <= now.mono_ms
        ]
        due += [(deadline, member_id) for member_id, deadline in self.pending.items() if deadline <= now.mono_ms]
        for _, member_id in sorted(due):
            self._expire_member(member_id, now, outcome)
        if self._join_deadline_ms is not None and self._join_deadline_ms <= now.mono_ms:
            self._expire_join(now, outcome)
        if self._sync_deadline_ms is not None and self._sync_deadline_ms <= now.mono_ms:
            self._expire_sync(now, outcome)
        return outcome

    def offset_expiry_base(self, commit_timestamp_ms: int) -> int | None:
        """Return the time in wall clock ms from which an offset's retention is counted, or None while the offset cannot expire.

        It is the commit's time for a group that only stores offsets, and for a topic to which a stable group of consumers no longer
        subscribes. For a group without members it is the time at which the last member left, or the commit's time if that is unknown.
        """
        if self.protocol_type is None:
            return commit_timestamp_ms
        if self.is_empty:
            return commit_timestamp_ms if self.state_timestamp_ms is None else self.state_timestamp_ms
        if self.uses_consumer_protocol and self.subscribed_topics is not None and self.state is ClassicState.STABLE:
            return commit_timestamp_ms
        return None

    # --- persistence ----------------------------------------------------------------------------------------------------------

    def record(self, assignments: Mapping[str, bytes], now: Now) -> GroupMetadataValue:
        """Return the group's record for the log, with the present generation, members and leader. `assignments` has the members' encoded
        assignments by member id."""
        return self._record_of(list(self.members), self.leader_id, assignments, now)

    def record_replacing(self, old_member_id: str, member: Member, now: Now) -> GroupMetadataValue:
        """Return the group's record for the log, of the same generation, in which `member` replaces the member `old_member_id`. `member`
        already has the old member's assignment."""
        members = [member if m.member_id == old_member_id else m for m in self.members]
        leader = member.member_id if self.leader_id == old_member_id else self.leader_id
        return self._record_of(members, leader, {m.member_id: m.assignment for m in members}, now)

    def apply(self, value: GroupMetadataValue) -> None:
        """Replace the group's state by the state in a record, both for a live operation and while the log is loaded. Known members keep the
        state that records do not have, such as session deadlines.

        A record without generation and members only shows that a new group exists. It is ignored if a member has joined meanwhile.
        """
        if not value.generation and not value.members and (self.generation or len(self.members)):
            return
        self.generation = value.generation
        self.protocol_type = value.protocol_type or None
        self.protocol_name = value.protocol
        self.state_timestamp_ms = None if value.current_state_timestamp == -1 else value.current_state_timestamp
        self._install(value)
        self.state = ClassicState.STABLE if value.members else ClassicState.EMPTY
        self.subscribed_topics = self._read_subscriptions()

    def on_loaded(self, now: Now) -> ClassicOutcome:
        """Start the members' timers after the group was loaded from the log: every member gets a full session. A group over its size limit
        rebalances.
        """
        outcome = ClassicOutcome()
        for member in self.members:
            self.reset_session(member, now)
        if len(self.members) > self.config.max_size:
            self.prepare_rebalance(now, outcome)
        return outcome

    def on_write_failed(self, now: Now) -> ClassicOutcome:
        """Recover from the failed write of the last operation's record. If the group was waiting for assignments, members must rejoin."""
        outcome = ClassicOutcome()
        self.replacement = None
        if self.state is ClassicState.COMPLETING_REBALANCE:
            self.prepare_rebalance(now, outcome)
        return outcome

    def fail_all_pending_requests(self, error: ErrorCode) -> ClassicOutcome:
        """Complete all pending JoinGroup and SyncGroup requests with an error, because another broker becomes the group's coordinator, or
        the group is deleted or converted to another type.
        """
        outcome = ClassicOutcome()
        for member in self.members:
            self.fail_pending_requests(member, error, member.member_id, outcome)
        return outcome

    def mark_dead(self) -> None:
        """Mark the group as deleted (state Dead); later requests to this object get COORDINATOR_NOT_AVAILABLE."""
        self.state = ClassicState.DEAD
        self.pending.clear()

    # --- rebalance, the common part of the operations ---------------------------------------------------------------------------

    def reset_session(self, member: Member, now: Now, timeout_ms: int | None = None) -> None:
        member.session_deadline_ms = now.mono_ms + (member.session_timeout_ms if timeout_ms is None else timeout_ms)

    def prepare_or_complete(self, now: Now, outcome: ClassicOutcome) -> None:
        """Start a rebalance after a change of membership. If a rebalance is already running, end its join phase if all members have
        joined."""
        if ClassicState.PREPARING_REBALANCE in VALID_TRANSITIONS[self.state]:
            self.prepare_rebalance(now, outcome)
        else:
            self.maybe_complete_join(now, outcome)

    def prepare_rebalance(self, now: Now, outcome: ClassicOutcome) -> None:
        """Begin the join phase, in which all members must rejoin. In an empty group it lasts at least
        group.initial.rebalance.delay.ms, so that more members can join."""
        if self.state is ClassicState.COMPLETING_REBALANCE:
            self._fail_syncs(ErrorCode.REBALANCE_IN_PROGRESS, now, outcome)
        self._pending_sync.clear()
        self._sync_deadline_ms = None
        is_initial = self.is_empty
        self._move(ClassicState.PREPARING_REBALANCE, now)
        if is_initial and self.config.initial_rebalance_delay_ms > 0:
            delay = self.config.initial_rebalance_delay_ms
            self._join_deadline_ms = now.mono_ms + delay
            self._initial_delay_left_ms = max(self.members.rebalance_timeout_ms() - delay, 0)
            self._joined_during_initial_delay = False
        elif is_initial or self._everybody_joined():
            self._complete_join(now, outcome)
        else:
            self._join_deadline_ms = now.mono_ms + self.members.rebalance_timeout_ms()

    def maybe_complete_join(self, now: Now, outcome: ClassicOutcome) -> None:
        if self.state is ClassicState.PREPARING_REBALANCE and self._initial_delay_left_ms is None and self._everybody_joined():
            self._complete_join(now, outcome)

    def note_new_member(self) -> None:
        """Record that a member has joined. If the initial rebalance delay of an empty group is running, the delay is then extended."""
        if self._initial_delay_left_ms is not None:
            self._joined_during_initial_delay = True

    def forget_pending_sync(self, member_id: str) -> None:
        self._pending_sync.discard(member_id)

    def await_join(self, member: Member, request_key: PendingRequestKey, outcome: ClassicOutcome) -> None:
        self._supersede(member.awaiting_join, JoinGroupResult(error=ErrorCode.REBALANCE_IN_PROGRESS, member_id=member.member_id), outcome)
        member.awaiting_join = request_key

    def fail_pending_requests(self, member: Member, error: ErrorCode, join_member_id: str, outcome: ClassicOutcome) -> None:
        """Complete the member's pending JoinGroup and SyncGroup, if any, with `error`: add the replies to `outcome`. `join_member_id` is
        the member id in the JoinGroup response."""
        self._supersede(member.awaiting_join, JoinGroupResult(error=error, member_id=join_member_id), outcome)
        self._supersede(member.awaiting_sync, SyncGroupResult(error=error), outcome)
        member.awaiting_join = member.awaiting_sync = None

    # --- internals ------------------------------------------------------------------------------------------------------------

    def _move(self, state: ClassicState, now: Now) -> None:
        assert state in VALID_TRANSITIONS[self.state], f"{self.state} to {state} is not a legal move"
        self.state = state
        self.state_timestamp_ms = now.wall_ms

    def _everybody_joined(self) -> bool:
        return not self.pending and all(member.awaiting_join is not None for member in self.members)

    def _complete_join(self, now: Now, outcome: ClassicOutcome) -> None:
        """End the join phase: remove dynamic members that have not joined, and begin the next generation. If only static members are left
        and none of them has joined, extend the join phase instead."""
        self._join_deadline_ms = self._initial_delay_left_ms = None
        for absent in [m for m in self.members if m.awaiting_join is None and m.instance_id is None]:
            self.members.remove(absent.member_id)
        if len(self.members) and not self.members.elect_joined_leader():
            self._join_deadline_ms = now.mono_ms + max(self.members.rebalance_timeout_ms(), NOBODY_JOINED_RETRY_MS)
            return
        self.generation += 1
        if not len(self.members):
            self.protocol_name = None
            self._move(ClassicState.EMPTY, now)
            self.subscribed_topics = self._read_subscriptions()
            outcome.record = self.record({}, now)
            return
        self.protocol_name = self.members.select_protocol()
        self.subscribed_topics = self._read_subscriptions()
        self._move(ClassicState.COMPLETING_REBALANCE, now)
        for member in self.members:
            if member.awaiting_join is not None:
                outcome.replies.append(Reply(member.awaiting_join, self.current_generation(member.member_id)))
                member.awaiting_join = None
            member.is_new = False
            self.reset_session(member, now)
            self._pending_sync.add(member.member_id)
        self._sync_deadline_ms = now.mono_ms + self.members.rebalance_timeout_ms()

    def _check_sync(self, request: SyncRequest) -> ErrorCode:
        if self.state is ClassicState.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        error = self.check_member(request.member_id, request.instance_id)
        if error is not ErrorCode.NONE:
            return error
        if request.generation != self.generation:
            return ErrorCode.ILLEGAL_GENERATION
        given = ((request.protocol_type, self.protocol_type), (request.protocol_name, self.protocol_name))
        if any(sent is not None and known is not None and sent != known for sent, known in given):
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        return ErrorCode.REBALANCE_IN_PROGRESS if self.state is ClassicState.PREPARING_REBALANCE else ErrorCode.NONE

    def _assignment_of(self, assignment: bytes) -> SyncGroupResult:
        return SyncGroupResult(protocol_type=self.protocol_type, protocol_name=self.protocol_name, assignment=assignment)

    def _assign(self, assignments: Mapping[str, bytes], now: Now, outcome: ClassicOutcome) -> None:
        """Add to `outcome` the record with the leader's assignments, and the replies to all pending SyncGroups. A member that the leader
        assigned nothing gets an empty assignment."""
        outcome.record = self.record(assignments, now)
        for member in self.members:
            if member.awaiting_sync is not None:
                outcome.replies.append(Reply(member.awaiting_sync, self._assignment_of(assignments.get(member.member_id, b""))))
                member.awaiting_sync = None
                self.reset_session(member, now)

    def _fail_syncs(self, error: ErrorCode, now: Now, outcome: ClassicOutcome) -> None:
        for member in self.members:
            member.assignment = b""
            if member.awaiting_sync is not None:
                outcome.replies.append(Reply(member.awaiting_sync, SyncGroupResult(error=error)))
                member.awaiting_sync = None
                self.reset_session(member, now)

    def _leave_one(self, leaving: LeavingMember, outcome: ClassicOutcome) -> ErrorCode:
        member_id = leaving.member_id
        if not member_id:
            holder = None if leaving.instance_id is None else self.members.static_member_id(leaving.instance_id)
            if holder is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            member_id = holder
        elif member_id in self.pending:
            del self.pending[member_id]
            return ErrorCode.NONE
        else:
            error = self.check_member(member_id, leaving.instance_id)
            if error is not ErrorCode.NONE:
                return error
        self._remove(member_id, outcome)
        return ErrorCode.NONE

    def _remove(self, member_id: str, outcome: ClassicOutcome) -> None:
        """Remove a member, and complete its pending requests with UNKNOWN_MEMBER_ID, so that a live client joins again."""
        member = self.members.remove(member_id)
        if member is not None:
            self.fail_pending_requests(member, ErrorCode.UNKNOWN_MEMBER_ID, "", outcome)
        self._pending_sync.discard(member_id)

    def _expire_member(self, member_id: str, now: Now, outcome: ClassicOutcome) -> None:
        if self.pending.get(member_id, now.mono_ms + 1) <= now.mono_ms:
            del self.pending[member_id]
            self.maybe_complete_join(now, outcome)
            return
        member = self.members.get(member_id)
        if member is None or member.session_deadline_ms is None or member.session_deadline_ms > now.mono_ms:
            return
        if member.must_not_expire():
            member.session_deadline_ms = None
            return
        self._remove(member_id, outcome)
        if self.state in {ClassicState.STABLE, ClassicState.COMPLETING_REBALANCE}:
            self.prepare_rebalance(now, outcome)
        else:
            self.maybe_complete_join(now, outcome)

    def _expire_join(self, now: Now, outcome: ClassicOutcome) -> None:
        left = self._initial_delay_left_ms
        if left and self._joined_during_initial_delay:
            delay = min(self.config.initial_rebalance_delay_ms, left)
            self._joined_during_initial_delay = False
            self._join_deadline_ms = now.mono_ms + delay
            self._initial_delay_left_ms = left - delay
        else:
            self._complete_join(now, outcome)

    def _expire_sync(self, now: Now, outcome: ClassicOutcome) -> None:
        """Remove the members that have joined but have not sent SyncGroup in time, and start a rebalance."""
        self._sync_deadline_ms = None
        for member_id in sorted(self._pending_sync):
            self._remove(member_id, outcome)
        self.prepare_rebalance(now, outcome)

    @staticmethod
    def _supersede(request_key: PendingRequestKey | None, result: JoinGroupResult | SyncGroupResult, outcome: ClassicOutcome) -> None:
        if request_key is not None:
            outcome.replies.append(Reply(request_key, result))

    def _record_of(self, members: list[Member], leader: str | None, assignments: Mapping[str, bytes], now: Now) -> GroupMetadataValue:
        return GroupMetadataValue(
            protocol_type=self.protocol_type or "",
            generation=self.generation,
            protocol=self.protocol_name,
            leader=leader,
            current_state_timestamp=now.wall_ms,
            members=[member.to_record(self.protocol_name, assignments.get(member.member_id, b"")) for member in members],
        )

    def _install(self, value: GroupMetadataValue) -> None:
        """Replace the group's members by those of the record. A known member keeps its session deadline and pending requests."""
        before, self.members = self.members, ClassicMembers()
        replacement, self.replacement = self.replacement, None
        for written in value.members:
            member = before.get(written.member_id)
            if member is None and replacement is not None and replacement.member_id == written.member_id:
                member = replacement
            self.members.add(_member_from(written, value.protocol, member))
        self.members.leader_id = value.leader
        self._pending_sync &= {written.member_id for written in value.members}
        if not self._pending_sync:
            self._sync_deadline_ms = None
        self.pending = {member_id: deadline for member_id, deadline in self.pending.items() if member_id not in self.members}

    def _read_subscriptions(self) -> frozenset[str] | None:
        if not self.uses_consumer_protocol:
            return None
        return subscriptions.union_of_topics(member.metadata(self.protocol_name) for member in self.members)


def _member_from(written: MemberMetadata, protocol: str | None, known: Member | None) -> Member:
    """Return the member that the record entry `written` describes. `protocol` is the generation's chosen protocol, the only one that the
    record has. A record of version 0 has no rebalance timeout; the session timeout is used instead.

    `known` is the same member before the record, None if it is new. Its session deadline and pending requests are kept, as are its other
    protocols if its subscription is unchanged.
    """
    chosen = JoinProtocol(protocol or "", bytes(written.subscription))
    persisted = Member(
        member_id=written.member_id,
        instance_id=written.group_instance_id,
        client_id=written.client_id,
        client_host=written.client_host,
        rebalance_timeout_ms=written.session_timeout if written.rebalance_timeout == -1 else written.rebalance_timeout,
        session_timeout_ms=written.session_timeout,
        protocols=(chosen,),
        assignment=bytes(written.assignment),
    )
    if known is None:
        return persisted
    return replace(
        persisted,
        protocols=known.protocols if chosen in known.protocols else persisted.protocols,
        is_new=known.is_new,
        session_deadline_ms=known.session_deadline_ms,
        awaiting_join=known.awaiting_join,
        awaiting_sync=known.awaiting_sync,
    )
