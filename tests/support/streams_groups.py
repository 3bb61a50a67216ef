"""Drives the streams groups of one coordinator partition as the runtime does: appends, applies, and advances the time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ottla.broker.core.rejected import Rejected
from ottla.broker.groups.coordinator import GroupCoordinator, GroupsConfig
from ottla.broker.groups.group_records import GroupRecord, decode_record, encode_record
from ottla.broker.groups.states import Now
from ottla.broker.groups.streams_group import StreamsGroup
from ottla.broker.groups.streams_group_update import StreamsConfig
from ottla.broker.groups.streams_heartbeat import StreamsHeartbeatResult
from ottla.broker.groups.streams_member import StreamsMember
from ottla.broker.streams.tasks import Tasks, TaskSet, sorted_tasks
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k88_streams_group_heartbeat import StreamsGroupHeartbeatRequest, Topology
from ottla.protocol.messages.streams_group import Subtopology, TaskIds, TopicInfo
from tests.support.consumer_groups import WALL_MS, FakeTopics


def topology(sources: Sequence[str] = ("t",), changelogs: Sequence[str] = (), epoch: int = 0) -> Topology:
    """Return a topology of one subtopology `0`."""
    return Topology(epoch, [Subtopology("0", list(sources), state_changelog_topics=[TopicInfo(name) for name in changelogs])])


def task_ids(tasks: Tasks) -> list[TaskIds]:
    return [TaskIds(*one) for one in sorted_tasks(tasks)]


def owning(tasks: TaskSet) -> dict[str, list[TaskIds]]:
    """Return the heartbeat fields that report these tasks as owned."""
    return {"active_tasks": task_ids(tasks.active), "standby_tasks": task_ids(tasks.standby), "warmup_tasks": task_ids(tasks.warmup)}


def active(*partitions: int) -> TaskSet:
    """Return active tasks of subtopology `0`."""
    return TaskSet({"0": frozenset(partitions)} if partitions else {})


class StreamsDriver:
    """Sends requests to the streams group "g" on the test's clock, and applies the records that they return. Every record is encoded and
    decoded before it is applied. Each member has its own process id."""

    def __init__(self, topics: FakeTopics | None = None, **config: Any) -> None:
        self.topics = FakeTopics(t=2) if topics is None else topics
        defaults = {"assignment_interval_ms": 0, "initial_rebalance_delay_ms": 0}
        self.config = GroupsConfig(streams=StreamsConfig(**(defaults | config)))
        self.machine = GroupCoordinator(self.config, self.topics, streams_config=lambda _: self.config.streams)
        self.mono_ms = 0
        self.log: list[tuple[bytes, bytes | None]] = []
        self.kinds: list[str] = []
        """The kinds of records that the last operation wrote, with a minus for a tombstone."""

    def configure(self, **changes: Any) -> None:
        """Change the broker's settings of streams groups."""
        self.config = replace(self.config, streams=replace(self.config.streams, **changes))

    @property
    def now(self) -> Now:
        return Now(self.mono_ms, WALL_MS + self.mono_ms)

    @property
    def group(self) -> StreamsGroup:
        return self.machine.streams.existing("g")

    def member(self, member_id: str) -> StreamsMember:
        return self.group.members[member_id]

    def take(self, records: Sequence[GroupRecord]) -> None:
        """Append the records of an operation to the log, and apply them."""
        self.kinds = []
        for record in records:
            key, value = encode_record(record)
            self.log.append((key, value))
            assert decode_record(key, value) == record
            self.machine.apply(record, len(self.log) - 1)
            self.kinds.append(type(record.key).__name__.removesuffix("Key").removeprefix("StreamsGroup") + ("" if value else "-"))

    def beat(self, member_id: str, epoch: int, **changes: Any) -> StreamsHeartbeatResult:
        """Send one StreamsGroupHeartbeat of a member, and return the response. Raises Rejected."""
        fields: dict[str, Any] = {"group_id": "g", "member_id": member_id, "member_epoch": epoch}
        beat = StreamsGroupHeartbeatRequest(**(fields | changes))
        effects = self.machine.streams.heartbeat(beat, "c", "/h", self.now)
        self.take(effects.records)
        return effects.response

    def join(self, member_id: str, **changes: Any) -> StreamsHeartbeatResult:
        """Send the first heartbeat of a member, and return the response."""
        fields: dict[str, Any] = {"rebalance_timeout_ms": 30_000, "process_id": f"p-{member_id}", "topology": topology()}
        return self.beat(member_id, 0, **(fields | owning(TaskSet()) | changes))

    def confirm(self, member_id: str) -> StreamsHeartbeatResult:
        """Send a heartbeat of a member that owns exactly what it is assigned, and return the response."""
        member = self.member(member_id)
        return self.beat(member_id, member.epoch, **owning(member.assigned))

    def settle(self) -> None:
        """Let every member adopt its assigned tasks and confirm them in heartbeats, until no assignment changes."""
        for _ in range(10):
            before = dict(self.group.members)
            for member_id in before:
                self.confirm(member_id)
            if self.group.members == before:
                return
        raise AssertionError("the group does not come to rest")

    def refused(self, member_id: str, epoch: int, **changes: Any) -> ErrorCode:
        """Send a StreamsGroupHeartbeat that must fail, and return its error."""
        try:
            answer = self.beat(member_id, epoch, **changes)
        except Rejected as rejected:
            return rejected.code
        raise AssertionError(f"the heartbeat was accepted: {answer}")

    def pass_ms(self, delta_ms: int) -> None:
        """Advance the time by `delta_ms`. At each deadline on the way, the groups handle their timeouts, as in the broker."""
        self.mono_ms += delta_ms
        self.take(self.machine.expire_members("g", self.now).records)

    def assigned(self) -> Mapping[str, TaskSet]:
        return {member_id: member.assigned for member_id, member in self.group.members.items()}

    def restart(self) -> None:
        """Continue with a new coordinator that has loaded the group from its log."""
        self.machine = self._loaded()
        self.machine.on_loaded(self.now)

    def replayed(self) -> StreamsGroup | None:
        """Return the group as it is after a replay of its log."""
        group = self._loaded().groups.get("g")
        assert group is None or isinstance(group, StreamsGroup)
        return group

    def _loaded(self) -> GroupCoordinator:
        machine = GroupCoordinator(self.config, self.topics, streams_config=lambda _: self.config.streams)
        for offset, (key, value) in enumerate(self.log):
            record = decode_record(key, value)
            assert record is not None
            machine.apply(record, offset)
        return machine
