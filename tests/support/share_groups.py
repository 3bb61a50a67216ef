"""Drives the share groups of one coordinator partition as the runtime does: appends, applies, and advances the time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ottla.broker.core.rejected import Rejected
from ottla.broker.groups.consumer_heartbeat import HeartbeatResult
from ottla.broker.groups.coordinator import GroupCoordinator, GroupsConfig
from ottla.broker.groups.group_records import GroupRecord, decode_record, encode_record
from ottla.broker.groups.share_group import ShareGroup, ShareMember
from ottla.broker.groups.share_group_update import ShareConfig
from ottla.broker.groups.share_groups import Initialization
from ottla.broker.groups.share_heartbeat import ShareHeartbeat
from ottla.broker.groups.states import Now
from ottla.protocol.error_codes import ErrorCode
from tests.support.consumer_groups import WALL_MS, FakeTopics


class ShareDriver:
    """Sends requests to the share group "g" on the test's clock, and applies the records that they return. Every record is encoded and
    decoded before it is applied."""

    def __init__(self, topics: FakeTopics | None = None, **config: Any) -> None:
        self.topics = FakeTopics(t=2) if topics is None else topics
        self.config = GroupsConfig(share=ShareConfig(**({"assignment_interval_ms": 0} | config)))
        self.machine = GroupCoordinator(self.config, self.topics)
        self.mono_ms = 0
        self.log: list[tuple[bytes, bytes | None]] = []
        self.last = Initialization(0, {})
        """The share partitions that the response to the last heartbeat asks to initialize at the share coordinator."""

    @property
    def now(self) -> Now:
        return Now(self.mono_ms, WALL_MS + self.mono_ms)

    @property
    def group(self) -> ShareGroup:
        return self.machine.shares.existing("g")

    def member(self, member_id: str) -> ShareMember:
        return self.group.members[member_id]

    def take(self, records: Sequence[GroupRecord]) -> list[str]:
        """Append and apply records; return their kinds, with a minus for a tombstone."""
        kinds = []
        for record in records:
            key, value = encode_record(record)
            self.log.append((key, value))
            decoded = decode_record(key, value)
            assert decoded == record
            self.machine.apply(record, len(self.log) - 1)
            kinds.append(type(record.key).__name__.removesuffix("Key").removeprefix("ShareGroup") + ("" if value else "-"))
        return kinds

    def beat(self, member_id: str, epoch: int, **changes: Any) -> HeartbeatResult:
        """Send one ShareGroupHeartbeat of a member, and return the response. Raises Rejected."""
        beat = ShareHeartbeat(group_id="g", member_id=member_id, epoch=epoch, **changes)
        effects = self.machine.shares.heartbeat(beat, self.now)
        answer, self.last = effects.response
        self.kinds = self.take(effects.records)
        return answer

    def join(self, member_id: str, topics: Iterable[str] = ("t",), **changes: Any) -> HeartbeatResult:
        """Send the first heartbeat of a member that subscribes to `topics`, and return the response."""
        return self.beat(member_id, 0, topic_names=frozenset(topics), **changes)

    def initialized(self) -> None:
        """Tell the group coordinator that the share coordinator has initialized the partitions in `last`."""
        partitions: dict[bytes, frozenset[int]] = {}
        for topic_id, partition in self.last.start_offsets:
            partitions[topic_id] = partitions.get(topic_id, frozenset()) | {partition}
        self.take(self.machine.shares.mark_initialized("g", partitions, self.now).records)

    def settled(self, *member_ids: str) -> None:
        """Join these members, initialize the partitions, and let every member adopt its target assignment."""
        for member_id in member_ids:
            self.join(member_id)
            if self.last.start_offsets:
                self.initialized()
        for _ in range(2):
            for member_id in member_ids:
                self.beat(member_id, self.member(member_id).epoch)

    def refused(self, member_id: str, epoch: int, **changes: Any) -> ErrorCode:
        """Send a ShareGroupHeartbeat that must fail, and return its error."""
        try:
            answer = self.beat(member_id, epoch, **changes)
        except Rejected as rejected:
            return rejected.code
        raise AssertionError(f"the heartbeat was accepted: {answer}")

    def replayed(self) -> ShareGroup | None:
        """Return a new group that has replayed the log, None if the group was deleted."""
        machine = GroupCoordinator(self.config, self.topics)
        for offset, (key, value) in enumerate(self.log):
            record = decode_record(key, value)
            assert record is not None
            machine.apply(record, offset)
        group = machine.groups.get("g")
        assert group is None or isinstance(group, ShareGroup)
        return group
