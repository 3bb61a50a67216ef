"""A quorum of controllers in memory that serves its metadata log to observers by the rules of Kafka's leader (`KafkaRaftClient`).

Tests make it elect, diverge, lose uncommitted records, make snapshots, and lose requests.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ottla.broker.cluster.features import METADATA_VERSION
from ottla.broker.cluster.image import MetadataImage
from ottla.broker.cluster.image_records import to_records
from ottla.broker.cluster.metadata_records import ConfigRecord, FeatureLevelRecord, MetadataRecord
from ottla.broker.cluster.raft_records import KRaftVersionRecord, Voter, VoterEndpoint, VotersRecord
from ottla.broker.cluster.record_frames import decode_record, encode_record
from ottla.broker.cluster.record_versions import version_of
from ottla.broker.cluster.snapshots import Snapshot, SnapshotId, write_snapshot
from ottla.broker.core.clock import Clock
from ottla.broker.core.timers import Timers
from ottla.broker.runtime.nodes.link import LinkBroken, Node
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages import k01_fetch as k01
from ottla.protocol.messages import k59_fetch_snapshot as k59
from ottla.protocol.messages.node_endpoint import NodeEndpoint
from ottla.protocol.records.record import SimpleRecord, build_batch, iter_records
from ottla.protocol.schema import encode
from tests.support.metadata_images import made_of

LEVEL = 30
LEADER_CHANGE_KEY, KRAFT_VERSION_KEY, VOTERS_KEY = b"\0\0\0\2", b"\0\0\0\5", b"\0\0\0\6"


@dataclass(frozen=True)
class LogEntry:
    """One batch in a controller's log."""

    base_offset: int
    end_offset: int
    epoch: int
    data: bytes
    control: bool

    def records(self) -> list[MetadataRecord]:
        return [] if self.control else [decode_record(record.value or b"")[0] for record in iter_records(self.data)]


@dataclass
class QuorumMember:
    """One controller. `entries` is its whole log without truncated entries; it serves those from offset `start` on (see `snapshot`)."""

    node: Node
    epoch: int = 0
    leader_id: int = -1
    entries: list[LogEntry] = field(default_factory=list)
    start: int = 0
    snapshots: dict[SnapshotId, bytes] = field(default_factory=dict)
    is_up: bool = True
    high_watermark: int = -1
    """The high watermark that the controller reports as leader: -1 until a record of its epoch is committed."""

    @property
    def end(self) -> int:
        return self.entries[-1].end_offset if self.entries else 0

    @property
    def last_epoch(self) -> int:
        return self.entries[-1].epoch if self.entries else 0

    def end_of_epoch(self, epoch: int) -> tuple[int, int]:
        """Return the log's greatest epoch that is at most `epoch`, and that epoch's end offset; (0, 0) if there is none."""
        known = [entry for entry in self.entries if entry.epoch <= epoch]
        return (known[-1].epoch, known[-1].end_offset) if known else (0, 0)

    def append(self, epoch: int, *records: MetadataRecord) -> None:
        self.append_value(epoch, *(encode_record(record, version_of(record, LEVEL)) for record in records))

    def append_value(self, epoch: int, *encoded: bytes) -> None:
        base = self.end
        values = [SimpleRecord(None, value, 1000 + base) for value in encoded]
        self._append(epoch, values or [SimpleRecord(LEADER_CHANGE_KEY, b"", 1000)], control=not values)

    def append_kraft_version(self, epoch: int, level: int) -> None:
        self._append(epoch, [SimpleRecord(KRAFT_VERSION_KEY, encode(KRaftVersionRecord(0, level), 0), 1000)], control=True)

    def append_voters(self, epoch: int, *voters: Node) -> None:
        named = VotersRecord(0, [Voter(node_id, bytes(16), [VoterEndpoint("CONTROLLER", host, port)]) for node_id, host, port in voters])
        self._append(epoch, [SimpleRecord(VOTERS_KEY, encode(named, 0), 1000)], control=True)

    def _append(self, epoch: int, records: list[SimpleRecord], *, control: bool) -> None:
        data = build_batch(records, base_offset=self.end, leader_epoch=epoch, control=control)
        self.entries.append(LogEntry(self.end, self.end + len(records), epoch, data, control))


class MemoryQuorum:
    """A quorum of `size` controllers with ids from `first` on. `answers` counts the responses."""

    def __init__(self, clock: Clock, timers: Timers, size: int = 3, first: int = 1) -> None:
        self.clock = clock
        self.timers = timers
        self.members = {n: QuorumMember(Node(n, f"c{n}", 9093)) for n in range(first, first + size)}
        self.high_watermark = 0
        self.loses: Callable[[], bool] = lambda: False
        self.requests: list[tuple[int, Any]] = []
        self.answers = 0
        self.fetch_bytes = self.snapshot_bytes = 1 << 20
        self._waiting: dict[asyncio.Event, None] = {}

    @property
    def bootstrap(self) -> list[Node]:
        return [Node(-1, member.node.host, member.node.port) for member in self.members.values()]

    @property
    def leader(self) -> QuorumMember:
        return max(self.members.values(), key=lambda member: (member.leader_id == member.node.node_id, member.epoch))

    # --- changes that tests make ---------------------------------------------------------------------------------------------------

    def elect(self, node_id: int) -> None:
        """Make the controller the leader; its epoch begins with a LeaderChange. A cluster's first leader also writes the metadata level."""
        winner = self.members[node_id]
        epoch = max(member.epoch for member in self.members.values()) + 1
        for member in self.members.values():
            if member.is_up:
                member.epoch, member.leader_id = epoch, node_id
        first = not winner.entries
        winner.append(epoch)
        winner.high_watermark = -1
        if first:
            winner.append(epoch, FeatureLevelRecord(METADATA_VERSION, LEVEL))
        self.wake()

    def can_win(self, node_id: int) -> bool:
        one = self.members[node_id]
        votes = [m for m in self.members.values() if m.is_up and (m.last_epoch, m.end) <= (one.last_epoch, one.end)]
        return one.is_up and 2 * len(votes) > len(self.members)

    def write(self, *records: MetadataRecord) -> None:
        self.leader.append(self.leader.epoch, *records)
        self.wake()

    def put(self, name: str, value: str) -> None:
        self.write(ConfigRecord(2, "topic", name, value))

    def unset(self, name: str) -> None:
        self.write(ConfigRecord(2, "topic", name, None))

    def replicate(self, node_id: int) -> None:
        """Copy the leader's log to this controller, and commit what a majority has."""
        leader, member = self.leader, self.members[node_id]
        if member.is_up:
            member.epoch, member.leader_id = leader.epoch, leader.leader_id
            member.entries = list(leader.entries)
            member.start, member.snapshots = leader.start, dict(leader.snapshots)
        ends = [_common_end(leader, each) for each in self.members.values()]
        reached = sorted(ends)[(len(ends) - 1) // 2]
        if any(entry.epoch == leader.epoch for entry in leader.entries if entry.end_offset <= reached):
            assert reached >= self.high_watermark
            self.high_watermark = leader.high_watermark = reached
            self.wake()

    def commit(self) -> None:
        for node_id in self.members:
            self.replicate(node_id)

    def snapshot(self, *, drop_log: bool) -> SnapshotId:
        """Let the leader make a snapshot of what is committed, and return its id; with `drop_log`, remove that part of the log."""
        leader = self.leader
        contained = [entry for entry in leader.entries if entry.end_offset <= self.high_watermark]
        made = SnapshotId(self.high_watermark, contained[-1].epoch)
        content = Snapshot(1000, list(to_records(self.image(self.high_watermark))))
        leader.snapshots[made] = b"".join(write_snapshot(content, made.epoch, LEVEL, 5000))
        if drop_log:
            leader.start = made.end_offset
        self.wake()
        return made

    def image(self, end_offset: int) -> MetadataImage:
        return made_of(*(record for entry in self.leader.entries if entry.end_offset <= end_offset for record in entry.records()))

    def committed_bytes(self, start: int, end: int) -> bytes:
        return b"".join(entry.data for entry in self.leader.entries if start <= entry.base_offset and entry.end_offset <= end)

    def wake(self) -> None:
        """Complete the pending fetches, which wait for new records."""
        for event in list(self._waiting):
            event.set()

    # --- requests --------------------------------------------------------------------------------------------------------------------

    def connect(self, node: Node) -> MemoryLink:
        """Return a link to the controller at the node's address, or, if there is none, to a controller that is down."""
        nobody = QuorumMember(node, is_up=False)
        return MemoryLink(self, next((member for member in self.members.values() if member.node[1:] == node[1:]), nobody))

    async def answer(self, member: QuorumMember, request: Any, timeout_ms: int) -> Any:
        self.requests.append((member.node.node_id, request))
        if not member.is_up:
            raise LinkBroken("refused")
        if self.loses():
            await self._wait(timeout_ms)
            raise LinkBroken("no answer in time")
        response = self._serve(member, request)
        if isinstance(request, k01.FetchRequest) and self._is_empty(request, response):
            await self._wait(request.max_wait_ms, self._waiting)
            if not member.is_up:
                raise LinkBroken("hung up")
            response = self._serve(member, request)
        self.answers += 1
        return response

    async def _wait(self, ms: int, among: dict[asyncio.Event, None] | None = None) -> None:
        """Wait for `ms`. With `among`, the set of pending fetches, add this wait to it, so that `wake` ends it early."""
        event = asyncio.Event()
        timer = self.timers.schedule(self.clock.mono_ms() + ms, event.set)
        waiting = {} if among is None else among
        waiting[event] = None
        try:
            await event.wait()
        finally:
            timer.cancel()
            waiting.pop(event, None)

    def _is_empty(self, request: k01.FetchRequest, response: k01.FetchResponse) -> bool:
        (data,) = response.responses[0].partitions
        requested = request.topics[0].partitions[0]
        special = data.error_code or data.diverging_epoch.epoch >= 0 or data.snapshot_id.epoch >= 0
        return not special and not data.records and data.high_watermark <= requested.high_watermark

    def _serve(self, member: QuorumMember, request: Any) -> Any:
        if isinstance(request, k01.FetchRequest):
            data = self._fetch(member, request.topics[0].partitions[0])
            data.current_leader = k01.LeaderIdAndEpoch(member.leader_id, member.epoch)
            nodes = [NodeEndpoint(*self.members[member.leader_id].node)] if member.leader_id > 0 else []
            return k01.FetchResponse(responses=[k01.FetchableTopicResponse(partitions=[data])], node_endpoints=nodes)
        part = self._snapshot_part(member, request.topics[0].partitions[0], min(request.max_bytes, self.snapshot_bytes))
        part.current_leader = k59.LeaderIdAndEpoch(member.leader_id, member.epoch)
        return k59.FetchSnapshotResponse(topics=[k59.TopicSnapshotPart("__cluster_metadata", [part])])

    def _fetch(self, member: QuorumMember, requested: k01.FetchPartition) -> k01.PartitionData:
        error = _refusal(member, requested.current_leader_epoch)
        if error:
            return k01.PartitionData(error_code=error, high_watermark=-1)
        answer = k01.PartitionData(high_watermark=member.high_watermark)
        epoch, end = member.end_of_epoch(requested.last_fetched_epoch)
        newest = max(member.snapshots, default=None)
        if newest is not None and (requested.fetch_offset < member.start or requested.fetch_offset == 0):
            answer.snapshot_id = k01.SnapshotId(newest.end_offset, newest.epoch)
        elif requested.fetch_offset and (epoch != requested.last_fetched_epoch or end < requested.fetch_offset):
            answer.diverging_epoch = k01.EpochEndOffset(epoch, end)
        else:
            following = [entry.data for entry in member.entries if entry.base_offset >= requested.fetch_offset]
            answer.records = b"".join(following)[: max(self.fetch_bytes, *(len(data) for data in following[:1]), 0)]
        return answer

    def _snapshot_part(self, member: QuorumMember, partition_snapshot: k59.PartitionSnapshot, max_bytes: int) -> k59.PartitionSnapshotPart:
        error = _refusal(member, partition_snapshot.current_leader_epoch)
        content = member.snapshots.get(SnapshotId(partition_snapshot.snapshot_id.end_offset, partition_snapshot.snapshot_id.epoch))
        if error or content is None:
            return k59.PartitionSnapshotPart(error_code=error or ErrorCode.SNAPSHOT_NOT_FOUND)
        part = content[partition_snapshot.position : partition_snapshot.position + max_bytes]
        return k59.PartitionSnapshotPart(
            snapshot_id=partition_snapshot.snapshot_id, size=len(content), position=partition_snapshot.position, unaligned_records=part
        )


class MemoryLink:
    """One link from an observer to a controller of the quorum. After `close`, no further request may be sent."""

    def __init__(self, quorum: MemoryQuorum, member: QuorumMember) -> None:
        self._quorum = quorum
        self._member = member
        self._closed = False

    async def call(self, request: Any, *, timeout_ms: int, version: int | None = None) -> Any:
        assert not self._closed
        await asyncio.sleep(0)
        return await self._quorum.answer(self._member, request, timeout_ms)

    def versions(self, api_key: int) -> tuple[int, int] | None:
        return (0, 18)

    def close(self) -> None:
        self._closed = True


def _common_end(one: QuorumMember, other: QuorumMember) -> int:
    end = 0
    for mine, theirs in zip(one.entries, other.entries, strict=False):
        if mine != theirs:
            break
        end = mine.end_offset
    return end


def _refusal(member: QuorumMember, epoch: int) -> int:
    if epoch < member.epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if epoch > member.epoch:
        return ErrorCode.UNKNOWN_LEADER_EPOCH
    return ErrorCode.NONE if member.leader_id == member.node.node_id else ErrorCode.NOT_LEADER_OR_FOLLOWER
