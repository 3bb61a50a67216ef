"""Random sequences of events in a streams group on an unreliable network: heartbeats and responses are lost, members fall silent, topics
are created and deleted, and the coordinator restarts. The threads of each of two processes share task state, so no process may have a task
twice."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import Enum
from itertools import combinations
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ottla.broker.core.rejected import Rejected
from ottla.broker.groups.modern import ModernState
from ottla.broker.groups.streams_group import StreamsGroup
from ottla.broker.groups.streams_heartbeat import StreamsHeartbeatResult
from ottla.broker.groups.streams_member import StreamsMember
from ottla.broker.streams.tasks import TaskSet
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k88_streams_group_heartbeat import Topology
from ottla.protocol.messages.streams_group import Subtopology, TopicInfo
from tests.support.consumer_groups import FakeTopics
from tests.support.streams_groups import StreamsDriver, owning

TOPOLOGY = Topology(
    0,
    [
        Subtopology("counts", ["t"], state_changelog_topics=[TopicInfo("log")]),
        Subtopology("filters", ["u"]),
    ],
)
REFUSALS = {ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.INVALID_REQUEST}
"""INVALID_REQUEST: the member owns a task of a partition that was deleted."""
indexes = st.integers(0, 7)


class Fate(Enum):
    """What the network does to a heartbeat."""

    ANSWERED = "answered"
    REQUEST_LOST = "request lost"
    ANSWER_LOST = "answer lost"


@dataclass
class Thread:
    """A member that behaves like Kafka Streams: it processes `owned`, and reports it with all fields after a lost response and after
    applying new tasks."""

    member_id: str
    process_id: str
    epoch: int = 0
    owned: TaskSet = field(default_factory=TaskSet)
    target: TaskSet = field(default_factory=TaskSet)
    is_full: bool = True
    confirmed: TaskSet = field(default_factory=TaskSet)
    """The tasks of the last report that the coordinator took."""

    def begin_anew(self) -> None:
        self.epoch, self.owned, self.target, self.is_full, self.confirmed = 0, TaskSet(), TaskSet(), True, TaskSet()

    def apply(self) -> None:
        """Apply the assigned tasks: close the revoked ones and open the new ones."""
        if self.owned != self.target:
            self.owned, self.is_full = self.target, True


class StreamsGroupLife(RuleBasedStateMachine):
    @initialize(standbys=st.integers(0, 2))
    def begin(self, standbys: int) -> None:
        self.driver = StreamsDriver(FakeTopics(t=3, u=2, log=3), num_standby_replicas=standbys)
        self.threads: list[Thread] = []
        self.names = 0

    # --- what threads do --------------------------------------------------------------------------------------------------------

    @precondition(lambda self: len(self.threads) < 5)
    @rule(process=st.sampled_from(["p", "q", "r"]))
    def arrive(self, process: str) -> None:
        self.names += 1
        self.threads.append(Thread(f"m{self.names}", process))
        self.send(self.threads[-1], Fate.ANSWERED)

    @precondition(lambda self: self.threads)
    @rule(index=indexes, fate=st.sampled_from([Fate.ANSWERED, Fate.ANSWERED, *Fate]), applies=st.booleans())
    def beat(self, index: int, fate: Fate, applies: bool) -> None:
        thread = self.threads[index % len(self.threads)]
        if applies:
            thread.apply()
        self.send(thread, fate)

    @rule()
    def turn(self) -> None:
        """Let every thread apply its assigned tasks and send a heartbeat."""
        for thread in self.threads:
            thread.apply()
            self.send(thread, Fate.ANSWERED)

    @precondition(lambda self: self.threads)
    @rule(index=indexes, leaves=st.booleans())
    def end(self, index: int, leaves: bool) -> None:
        """Let the thread leave, or its process die."""
        thread = self.threads.pop(index % len(self.threads))
        if leaves and thread.epoch > 0:
            self.handle(thread, {"epoch": -1})

    # --- what happens to them ---------------------------------------------------------------------------------------------------

    @rule(delta_ms=st.sampled_from([1_000, 1_000, 5_000, 31_000, 46_000]))
    def pass_time(self, delta_ms: int) -> None:
        self.driver.pass_ms(delta_ms)

    @rule(source=st.sampled_from(["t", "u"]), partitions=st.sampled_from([0, 2, 3, 4]))
    def change_topic(self, source: str, partitions: int) -> None:
        self.driver.topics.set(source, partitions)
        if source == "t":
            self.driver.topics.set("log", partitions)

    @rule(standbys=st.integers(0, 2))
    def configure(self, standbys: int) -> None:
        self.driver.configure(num_standby_replicas=standbys)

    @rule()
    def restart(self) -> None:
        self.driver.restart()

    @rule()
    def come_to_rest(self) -> None:
        """Let all threads send heartbeats without other events, then check that the group is at rest."""
        self.driver.topics.set("t", 3)
        self.driver.topics.set("log", 3)
        self.driver.topics.set("u", 2)
        for _ in range(24):
            self.driver.pass_ms(5_000)
            self.turn()
        if self.threads:
            self.check_rest()

    def check_rest(self) -> None:
        group = self.driver.group
        assert group.state is ModernState.STABLE
        assert group.members.keys() == {thread.member_id for thread in self.threads}
        active = Counter(task for member in group.members.values() for task in flat(member.assigned.active))
        assert active == Counter([("counts", n) for n in range(3)] + [("filters", n) for n in range(2)]), "each task is active once"
        processes = {member.process_id for member in group.members.values()}
        wanted = min(self.driver.config.streams.num_standby_replicas, len(processes) - 1)
        standby = Counter(task for member in group.members.values() for task in flat(member.assigned.standby))
        assert standby == Counter({("counts", n): wanted for n in range(3) if wanted}), "each stateful task has its standby tasks"
        for thread in self.threads:
            assert thread.owned == group.members[thread.member_id].assigned

    # --- heartbeats -------------------------------------------------------------------------------------------------------------

    def send(self, thread: Thread, fate: Fate) -> None:
        fields: dict[str, Any] = {"epoch": thread.epoch}
        if thread.is_full:
            fields |= {"rebalance_timeout_ms": 30_000, "process_id": thread.process_id} | owning(thread.owned)
        if thread.epoch == 0:
            fields["topology"] = TOPOLOGY
        if fate is Fate.REQUEST_LOST:
            thread.is_full = True
            return
        answer = self.handle(thread, fields)
        if fate is Fate.ANSWER_LOST:
            thread.is_full = True
        elif isinstance(answer, ErrorCode):
            thread.begin_anew()
        else:
            thread.epoch, thread.is_full = answer.epoch, False
            thread.target = answer.tasks if answer.tasks is not None else thread.target

    def handle(self, thread: Thread, fields: dict[str, Any]) -> StreamsHeartbeatResult | ErrorCode:
        try:
            answer = self.driver.beat(thread.member_id, **fields)
        except Rejected as refused:
            if refused.code not in REFUSALS:
                raise
            thread.confirmed = TaskSet()
            return refused.code
        thread.confirmed = thread.owned if "active_tasks" in fields else thread.confirmed
        return answer

    # --- invariants -------------------------------------------------------------------------------------------------------------

    def members(self) -> dict[str, StreamsMember]:
        group = self.driver.machine.groups.get("g")
        return group.members if isinstance(group, StreamsGroup) else {}

    @invariant()
    def no_task_has_two_owners_that_have_acknowledged_it(self) -> None:
        present = [thread for thread in self.threads if thread.member_id in self.members()]
        for one, other in combinations(present, 2):
            assert not flat(one.confirmed.active) & flat(other.confirmed.active), (one, other)
            if one.process_id == other.process_id:
                assert not every(one.confirmed) & every(other.confirmed), (one, other)

    @invariant()
    def no_active_task_is_given_away_before_it_is_revoked(self) -> None:
        active = Counter(task for member in self.members().values() for task in flat(member.held_tasks().active))
        assert all(count == 1 for count in active.values()), active

    @invariant()
    def no_process_has_a_task_twice(self) -> None:
        held = Counter((member.process_id, task) for member in self.members().values() for task in every_listed(member.held_tasks()))
        assert all(count == 1 for count in held.values()), held

    @invariant()
    def a_member_has_all_that_it_has_acknowledged(self) -> None:
        for thread in self.threads:
            member = self.members().get(thread.member_id)
            assert member is None or thread.confirmed.is_subset_of(member.held_tasks()), (thread, member)

    @invariant()
    def a_replay_gives_the_same_group(self) -> None:
        replayed = self.driver.replayed()
        assert (replayed.members if replayed else {}) == self.members()


def flat(tasks: Any) -> set[tuple[str, int]]:
    return {(subtopology_id, partition) for subtopology_id, partitions in tasks.items() for partition in partitions}


def every_listed(tasks: TaskSet) -> list[tuple[str, int]]:
    return [task for kind in tasks.kinds() for task in flat(kind)]


def every(tasks: TaskSet) -> set[tuple[str, int]]:
    return set(every_listed(tasks))


TestStreamsGroupLife = StreamsGroupLife.TestCase
TestStreamsGroupLife.settings = settings(max_examples=150, stateful_step_count=40, print_blob=True)
