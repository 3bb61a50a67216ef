"""Drives the groups of one coordinator partition as the runtime does: appends, applies, and advances the time. The test defines the
topics."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

from ottla.broker.core.rejected import Rejected
from ottla.broker.groups.classic import ClassicGroup, LeavingMember, SyncRequest
from ottla.broker.groups.classic_join import JoinRequest
from ottla.broker.groups.classic_members import JoinProtocol
from ottla.broker.groups.consumer import ConsumerGroup
from ottla.broker.groups.consumer_group_update import ConsumerConfig
from ottla.broker.groups.consumer_heartbeat import Heartbeat, HeartbeatResult
from ottla.broker.groups.consumer_member import Assignment, ConsumerMember
from ottla.broker.groups.coordinator import GroupCoordinator, GroupsConfig
from ottla.broker.groups.embedded_protocol import ConsumerProtocolSubscription, TopicPartition
from ottla.broker.groups.group_records import GroupRecord, decode_record, encode_record
from ottla.broker.groups.results import JoinGroupResult, Reply, SyncGroupResult
from ottla.broker.groups.states import Now
from ottla.broker.groups.topics_view import TopicInfo
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.schema import encode_prefixed

WALL_MS = 1_700_000_000_000


def topic_id(name: str) -> bytes:
    return name.encode().ljust(16, b"\0")


class FakeTopics:
    """A stand-in for a `TopicsView`, through which group coordinators see the topics. Tests can change its topics."""

    def __init__(self, **partitions: int) -> None:
        self.version = 1
        self.creation_version = 1
        self._topics = {name: TopicInfo(name, topic_id(name), count) for name, count in partitions.items()}

    def set(self, name: str, partitions: int) -> None:
        """Create or grow a topic; delete it with 0 partitions."""
        self.version += 1
        self.creation_version += name not in self._topics and partitions > 0
        if partitions:
            self._topics[name] = TopicInfo(name, topic_id(name), partitions)
        else:
            self._topics.pop(name, None)

    def by_name(self, name: str) -> TopicInfo | None:
        return self._topics.get(name)

    def by_id(self, wanted: bytes) -> TopicInfo | None:
        return next((info for info in self._topics.values() if info.topic_id == wanted), None)

    def names(self) -> Iterable[str]:
        return list(self._topics)


def subscription(*topics: str, owned: Assignment | None = None, version: int = 3) -> bytes:
    """Encode a classic consumer's subscription, with its owned partitions."""
    partitions = [TopicPartition(one.rstrip(b"\0").decode(), sorted(of)) for one, of in (owned or {}).items()]
    return encode_prefixed(ConsumerProtocolSubscription(list(topics), None, partitions), version)


class GroupsDriver:
    """Drives a group coordinator on a test's clock: sends requests, applies the records that they return, and expires members. Each record
    is encoded and decoded before it is applied."""

    def __init__(self, topics: FakeTopics | None = None, **config: Any) -> None:
        self.topics = FakeTopics(t=4) if topics is None else topics
        self.config = GroupsConfig(consumer=ConsumerConfig(**({"assignment_interval_ms": 0} | config)))
        self.machine = GroupCoordinator(self.config, self.topics)
        self.mono_ms = 0
        self.log: list[tuple[bytes, bytes | None]] = []
        self.replies: dict[int, JoinGroupResult | SyncGroupResult] = {}
        self.refuses_writes = False
        self.resolves = True
        """Whether regular expressions are resolved right after the request that makes this necessary. If False, a test calls `resolve`."""
        self.last_request_key = 0
        """The key in `replies` for the response to the latest JoinGroup or SyncGroup."""

    @property
    def now(self) -> Now:
        return Now(self.mono_ms, WALL_MS + self.mono_ms)

    @property
    def group(self) -> ConsumerGroup:
        group = self.machine.groups["g"]
        assert isinstance(group, ConsumerGroup)
        return group

    @property
    def classic(self) -> ClassicGroup:
        group = self.machine.groups["g"]
        assert isinstance(group, ClassicGroup)
        return group

    def member(self, member_id: str) -> ConsumerMember:
        return self.group.members[member_id]

    # --- the consumer protocol ------------------------------------------------------------------------------------------------

    def beat(self, member_id: str, epoch: int, **changes: Any) -> HeartbeatResult:
        """Send one ConsumerGroupHeartbeat of a member, and return the response. Raises Rejected."""
        effects = self.machine.consumer_heartbeat(Heartbeat(group_id="g", member_id=member_id, epoch=epoch, **changes), self.now)
        answer, replies = effects.response
        self.take(effects.records, replies)
        return answer

    def join(self, member_id: str, topics: Iterable[str] = ("t",), **changes: Any) -> HeartbeatResult:
        """Send the first heartbeat of a member that subscribes to `topics`, and return the response."""
        fields: dict[str, Any] = {"topic_names": frozenset(topics), "rebalance_timeout_ms": 30_000, "owned": {}}
        return self.beat(member_id, 0, **(fields | changes))

    def refused(self, member_id: str, epoch: int, **changes: Any) -> ErrorCode:
        """Send a ConsumerGroupHeartbeat that must fail, and return its error."""
        try:
            answer = self.beat(member_id, epoch, **changes)
        except Rejected as rejected:
            return rejected.code
        raise AssertionError(f"accepted: {answer}")

    # --- the classic protocol -------------------------------------------------------------------------------------------------

    def classic_join(self, member_id: str = "", **changes: Any) -> JoinGroupResult | None:
        """Send a JoinGroup; return the response, or None while it is pending."""
        fields: dict[str, Any] = {
            "member_id": member_id,
            "new_member_id": f"classic-{self.last_request_key}",
            "client_id": "c",
            "client_host": "/127.0.0.1",
            "session_timeout_ms": 10_000,
            "rebalance_timeout_ms": 30_000,
            "protocol_type": "consumer",
            "protocols": (JoinProtocol("range", subscription("t")),),
        }
        self.last_request_key += 1
        request_key = self.last_request_key
        effects = self.machine.join("g", JoinRequest(**(fields | changes)), request_key, self.now)
        self.take(effects.records, effects.response)
        answer = self.replies.get(request_key)
        assert answer is None or isinstance(answer, JoinGroupResult)
        return answer

    def joined(self, member_id: str = "", **changes: Any) -> JoinGroupResult:
        """Send a JoinGroup that must succeed at once, and return the response."""
        answer = self.classic_join(member_id, **changes)
        assert answer is not None
        assert answer.error is ErrorCode.NONE, answer.error
        return answer

    def classic_sync(self, member_id: str, generation: int, **changes: Any) -> SyncGroupResult | None:
        """Send a SyncGroup; return the response, or None while it waits for the leader's SyncGroup."""
        self.last_request_key += 1
        effects = self.machine.sync(
            "g", SyncRequest(member_id=member_id, generation=generation, **changes), self.last_request_key, self.now
        )
        self.take(effects.records, effects.response)
        answer = self.replies.get(self.last_request_key)
        assert answer is None or isinstance(answer, SyncGroupResult)
        return answer

    def sync(self, member_id: str, generation: int, **changes: Any) -> SyncGroupResult:
        """Send a SyncGroup that must be answered at once, and return the response."""
        answer = self.classic_sync(member_id, generation, **changes)
        assert answer is not None
        return answer

    def classic_beat(self, member_id: str, generation: int) -> ErrorCode:
        return self.machine.heartbeat("g", member_id, None, generation, self.now)

    def classic_leave(self, *leaving: LeavingMember) -> list[ErrorCode]:
        errors, effects = self.machine.leave("g", list(leaving), self.now)
        self.take(effects.records, effects.response)
        return errors

    # --- time and the log -----------------------------------------------------------------------------------------------------

    def pass_ms(self, delta_ms: int) -> None:
        """Advance the time by `delta_ms`. At each deadline on the way, the group handles its timeouts, as in the broker."""
        end = self.mono_ms + delta_ms
        while (deadline := self.machine.next_deadline("g")) is not None and deadline <= end:
            self.mono_ms = max(self.mono_ms, deadline)
            effects = self.machine.expire_members("g", self.now)
            self.take(effects.records, effects.response)
        self.mono_ms = end

    def restored(self) -> GroupCoordinator:
        """Return a coordinator that was restored from the log, as after a restart."""
        machine = GroupCoordinator(self.config, self.topics)
        for offset, (key, value) in enumerate(self.log):
            record = decode_record(key, value)
            assert record is not None
            machine.apply(record, offset)
        return machine

    def restart(self) -> None:
        self.machine = self.restored()
        self.machine.on_loaded(self.now)

    def take(self, records: Sequence[GroupRecord], replies: Sequence[Reply]) -> None:
        """Append and apply the records of an operation, and store its replies to earlier requests in `replies`."""
        if self.refuses_writes and records:
            self.machine.on_write_failed("g", self.now)
            raise Rejected(ErrorCode.NOT_COORDINATOR)
        for record in records:
            key, value = encode_record(record)
            self.log.append((key, value))
            back = decode_record(key, value)
            assert back == record
            self.machine.apply(record, len(self.log) - 1)
        replies = [*replies, *self.machine.after_append("g", self.now)]
        for reply in replies:
            assert isinstance(reply.request_key, int)
            assert reply.request_key not in self.replies, "a request has one reply"
            self.replies[reply.request_key] = reply.result
        if self.resolves:
            self.resolve()

    def resolve(self) -> bool:
        """Run the planned resolution of regular expressions; return whether there was one."""
        resolution = self.machine.next_resolution("g")
        if resolution is None:
            return False
        for _ in resolution.steps(self.topics, self.now.wall_ms):
            pass
        effects = self.machine.end_resolution(resolution, self.now)
        with suppress(Rejected):  # the log rejects it: a later heartbeat plans another resolution
            self.take(effects.records, effects.response)
        return True


def facts_of(group: ConsumerGroup) -> dict[str, Any]:
    """Return all persistent state of a group, to compare two groups."""
    names = ("epoch", "metadata_hash", "assignment_epoch", "members", "targets", "resolved", "state")
    held = {
        (topic, partition): group.holder(topic, partition)
        for member in group.members.values()
        for topic, partition in member.held_partitions()
    }
    return {name: getattr(group, name) for name in names} | {"held": held}
