"""Random sequences of events in a classic group: whatever its members, the clock and a failing disk do, the rules of the group hold, and a
replay of the log restores what members were told."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from ottla.broker.groups.classic import ClassicConfig, ClassicGroup, ClassicOutcome, LeavingMember, SyncRequest
from ottla.broker.groups.classic_join import JoinRequest, join
from ottla.broker.groups.classic_members import JoinProtocol
from ottla.broker.groups.group_records import GroupMetadataValue
from ottla.broker.groups.results import JoinGroupResult, PendingRequestKey, SyncGroupResult
from ottla.broker.groups.states import ClassicState, Now
from ottla.protocol.error_codes import ErrorCode
from tests.support.classic_groups import subscription

PROTOCOLS = [JoinProtocol(name, subscription(topic)) for name in ("range", "sticky") for topic in ("t", "u")]
protocol_lists = st.sampled_from(
    [(PROTOCOLS[0],), (PROTOCOLS[1],), (PROTOCOLS[0], PROTOCOLS[2]), (PROTOCOLS[3], PROTOCOLS[1]), (PROTOCOLS[2],)]
)
instance_ids = st.sampled_from([None, None, "i1", "i2"])
timeouts = st.sampled_from([6_000, 10_000, 40_000])


class GroupLife(RuleBasedStateMachine):
    """Members are addressed by their index, request keys are numbers, and Hypothesis decides which writes fail."""

    @initialize(delay_ms=st.sampled_from([0, 0, 3_000]), max_size=st.sampled_from([2, 100]))
    def begin(self, delay_ms: int, max_size: int) -> None:
        self.config = ClassicConfig(initial_rebalance_delay_ms=delay_ms, max_size=max_size)
        self.group = ClassicGroup("g", self.config)
        self.now = Now(0, 1_000_000)
        self.open: dict[PendingRequestKey, str] = {}
        self.request_keys = 0
        self.ids: list[str] = [""]
        self.log: list[GroupMetadataValue] = []
        self.generations: dict[int, str] = {}

    # --- what members do --------------------------------------------------------------------------------------------------------

    @rule(
        who=st.integers(0, 30),
        instance_id=instance_ids,
        protocols=protocol_lists,
        session_ms=timeouts,
        known=st.booleans(),
        skip=st.booleans(),
        disk_fails=st.booleans(),
    )
    def join(
        self,
        *,
        who: int,
        instance_id: str | None,
        protocols: tuple[JoinProtocol, ...],
        session_ms: int,
        known: bool,
        skip: bool,
        disk_fails: bool,
    ) -> None:
        request = JoinRequest(
            member_id=self.ids[who % len(self.ids)],
            new_member_id=f"m{len(self.ids)}-{self.request_keys}",
            instance_id=instance_id,
            client_id="c",
            client_host="/h",
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=session_ms * 2,
            protocol_type="consumer",
            protocols=protocols,
            require_known_member_id=known,
            can_skip_assignment=skip,
        )
        self.take(join(self.group, request, self.new_request_key("join"), self.now), disk_fails)

    @rule(who=st.integers(0, 30), stale=st.sampled_from([0, 0, 0, 1]), disk_fails=st.sampled_from([False, False, True]))
    def sync(self, who: int, stale: int, disk_fails: bool) -> None:
        assignments = {member.member_id: f"{self.group.generation}".encode() for member in self.group.members}
        request = SyncRequest(member_id=self.ids[who % len(self.ids)], generation=self.group.generation - stale, assignments=assignments)
        self.take(self.group.sync(request, self.new_request_key("sync"), self.now), disk_fails)

    @rule()
    def everybody_syncs(self) -> None:
        for member_id in sorted((member.member_id for member in self.group.members), key=lambda one: one == self.group.leader_id):
            if member_id in self.group.members:
                request = SyncRequest(member_id=member_id, generation=self.group.generation, assignments={member_id: b"x"})
                self.take(self.group.sync(request, self.new_request_key("sync"), self.now))

    @rule(who=st.integers(0, 30), instance_id=instance_ids)
    def heartbeat(self, who: int, instance_id: str | None) -> None:
        self.group.heartbeat(self.ids[who % len(self.ids)], instance_id, self.group.generation, self.now)

    @rule(who=st.integers(0, 30), instance_id=instance_ids, disk_fails=st.booleans())
    def leave(self, who: int, instance_id: str | None, disk_fails: bool) -> None:
        _, outcome = self.group.leave([LeavingMember(self.ids[who % len(self.ids)], instance_id)], self.now)
        self.take(outcome, disk_fails)

    @rule(delta_ms=st.sampled_from([1, 2_999, 3_000, 6_000, 20_000, 400_000]))
    def time_passes(self, delta_ms: int) -> None:
        end = self.now.mono_ms + delta_ms
        for _ in range(10_000):
            deadline = self.group.next_deadline()
            if deadline is None or deadline > end:
                break
            self.move_to(max(deadline, self.now.mono_ms))
            self.take(self.group.expire(self.now))
        else:
            raise AssertionError("the deadlines never end")
        self.move_to(end)

    @rule(delta_ms=st.sampled_from([50_000, 400_000]))
    def the_broker_hangs(self, delta_ms: int) -> None:
        self.move_to(self.now.mono_ms + delta_ms)
        self.take(self.group.expire(self.now))

    @rule()
    def the_broker_restarts(self) -> None:
        self.group = self.restored()
        self.open.clear()
        self.group.on_loaded(self.now)

    # --- the runtime's part -------------------------------------------------------------------------------------------------------

    def new_request_key(self, kind: str) -> int:
        self.request_keys += 1
        self.open[self.request_keys] = kind
        return self.request_keys

    def move_to(self, mono_ms: int) -> None:
        self.now = Now(mono_ms, 1_000_000 + mono_ms)

    def take(self, outcome: ClassicOutcome, disk_fails: bool = False) -> None:
        replies = list(outcome.replies)
        if outcome.record is not None and disk_fails:
            replies = [reply._replace(result=replace(reply.result, error=ErrorCode.NOT_COORDINATOR)) for reply in replies]
            replies += self.group.on_write_failed(self.now).replies
        elif outcome.record is not None:
            self.log.append(outcome.record)
            self.group.apply(outcome.record)
        for reply in replies:
            kind = self.open.pop(reply.request_key)
            assert isinstance(reply.result, JoinGroupResult if kind == "join" else SyncGroupResult)
            if isinstance(reply.result, JoinGroupResult):
                self.check_join(reply.result)

    def check_join(self, answer: JoinGroupResult) -> None:
        if answer.member_id and answer.member_id not in self.ids:
            self.ids.append(answer.member_id)
        if answer.error is not ErrorCode.NONE:
            assert answer.generation == -1 or answer.error is ErrorCode.NOT_COORDINATOR
            return
        assert answer.generation == self.group.generation, "one generation at a time"
        assert answer.protocol_name is not None
        assert self.generations.setdefault(answer.generation, answer.protocol_name) == answer.protocol_name or self.restarted_since()
        if answer.members:
            assert answer.member_id in {member.member_id for member in answer.members}

    def restarted_since(self) -> bool:
        """Return whether the current generation was not persisted; after a restart, another generation may get its number."""
        return not self.log or self.log[-1].generation < self.group.generation

    def restored(self) -> ClassicGroup:
        group = ClassicGroup("g", self.config)
        for record in self.log:
            group.apply(record)
        return group

    # --- what always holds ----------------------------------------------------------------------------------------------------------

    @invariant()
    def the_leader_is_a_member_and_a_group_without_members_has_none(self) -> None:
        if len(self.group.members):
            assert self.group.leader_id in self.group.members
        else:
            assert self.group.leader_id is None

    @invariant()
    def the_states_mean_what_they_say(self) -> None:
        group = self.group
        if group.state is ClassicState.EMPTY:
            assert not len(group.members)
        if group.state in {ClassicState.STABLE, ClassicState.COMPLETING_REBALANCE}:
            assert len(group.members)
            assert all(member.awaiting_join is None for member in group.members)
        if group.state is not ClassicState.COMPLETING_REBALANCE:
            assert all(member.awaiting_sync is None for member in group.members)

    @invariant()
    def every_ticket_still_open_is_held_by_exactly_one_member(self) -> None:
        held = [
            request_key
            for member in self.group.members
            for request_key in (member.awaiting_join, member.awaiting_sync)
            if request_key is not None
        ]
        assert sorted(map(str, held)) == sorted(map(str, self.open))

    @invariant()
    def whoever_waits_is_waited_for_by_a_deadline(self) -> None:
        if self.open or self.group.state in {ClassicState.PREPARING_REBALANCE, ClassicState.COMPLETING_REBALANCE}:
            assert self.group.next_deadline() is not None

    @invariant()
    def an_instance_id_names_the_one_member_that_has_it(self) -> None:
        for member in self.group.members:
            if member.instance_id is not None:
                assert self.group.members.static_member_id(member.instance_id) == member.member_id

    @invariant()
    def a_stable_group_is_what_the_log_says(self) -> None:
        if self.group.state is not ClassicState.STABLE:
            return
        restored = self.restored()
        for attribute in ("generation", "protocol_type", "protocol_name", "leader_id", "state", "state_timestamp_ms", "subscribed_topics"):
            assert getattr(restored, attribute) == getattr(self.group, attribute), attribute
        live = {
            m.member_id: (m.instance_id, m.assignment, m.metadata(self.group.protocol_name), m.session_timeout_ms)
            for m in self.group.members
        }
        assert {
            m.member_id: (m.instance_id, m.assignment, m.metadata(restored.protocol_name), m.session_timeout_ms) for m in restored.members
        } == live


TestGroupLife = GroupLife.TestCase
TestGroupLife.settings = settings(max_examples=150, stateful_step_count=40, print_blob=True)
