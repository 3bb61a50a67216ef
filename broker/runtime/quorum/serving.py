"""Serves the metadata log of a single-voter quorum to observers: Fetch, FetchSnapshot, DescribeQuorum.

Source: Kafka's KafkaRaftClient (handleFetchRequest, tryCompleteFetchRequest, handleFetchSnapshotRequest, handleDescribeQuorumRequest),
RaftLog.validateOffsetAndEpoch, LeaderState.updateReplicaState.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from ottla.broker.cluster.snapshots import BOOTSTRAP_SNAPSHOT, SnapshotId
from ottla.broker.cluster.topic_ids import METADATA_TOPIC_ID
from ottla.broker.cluster.topic_names import CLUSTER_METADATA
from ottla.broker.core.clock import Clock
from ottla.broker.core.timers import Timers
from ottla.broker.runtime.quorum.sole_voter import SoleVoter
from ottla.broker.runtime.upkeep.timer_driver import wait_at_most
from ottla.broker.storage.log_values import Isolation
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages import k01_fetch as k01
from ottla.protocol.messages import k55_describe_quorum as k55
from ottla.protocol.messages import k59_fetch_snapshot as k59
from ottla.protocol.messages.node_endpoint import NodeEndpoint
from ottla.protocol.messages.quorum import Listener
from ottla.protocol.messages.quorum import NodeEndpoint as QuorumEndpoint

OBSERVER_SESSION_MS: Final = 300_000
"""An observer that has not fetched for this many milliseconds is not listed by DescribeQuorum any more."""
OBSERVERS_MAX: Final = 2_000
"""The most observers that DescribeQuorum lists. If there are more, the one that has not fetched for the longest time is forgotten."""
BYTES_AT_ONCE: Final = 8 << 20
"""Maximum bytes of the log in one response, whatever the request allows; no batch is larger."""


class ReplicaKey(NamedTuple):
    """The identity of an observer or voter: its node id, and the id of its metadata directory."""

    node_id: int
    directory_id: bytes


@dataclass(slots=True)
class ObserverProgress:
    """How far an observer has fetched the metadata log. `end_offset` is the observer's log end offset. Times are wall-clock milliseconds,
    -1 if the observer has never fetched or caught up.
    """

    end_offset: int = -1
    fetched_ms: int = -1
    caught_up_ms: int = -1
    leader_end_offset: int = -1
    """The end of the records that the leader could serve (its high watermark) at the observer's last fetch."""

    def fetched(self, offset: int, leader_end_offset: int, now_ms: int) -> None:
        """Record a fetch from `offset`, which proves that the observer has every record before that offset. The observer has caught up if
        `offset` has reached `leader_end_offset`.
        """
        if offset >= leader_end_offset:
            self.caught_up_ms = max(self.caught_up_ms, now_ms)
        elif offset >= self.leader_end_offset >= 0:
            self.caught_up_ms = max(self.caught_up_ms, self.fetched_ms)
        self.end_offset, self.fetched_ms, self.leader_end_offset = offset, now_ms, leader_end_offset


class QuorumServing:
    """Answers Fetch, FetchSnapshot and DescribeQuorum for the metadata log, at the leader of a single-voter quorum."""

    def __init__(self, voter: SoleVoter, clock: Clock, timers: Timers) -> None:
        self._voter = voter
        self._clock = clock
        self._timers = timers
        self._progress: dict[ReplicaKey, ObserverProgress] = {}
        self.stopping = False
        """True once this node shuts down and gives up the leadership; requests are then rejected with BROKER_NOT_AVAILABLE."""

    # --- Fetch -------------------------------------------------------------------------------------------------------------------

    def fetch(
        self, request: k01.FetchRequest, on_closed: MutableMapping[object, Callable[[], object]]
    ) -> k01.FetchResponse | Awaitable[k01.FetchResponse]:
        """Return the response to a Fetch of the metadata log, or an awaitable of the response that waits for new records, at most for the
        request's max wait time, and until the connection is closed. `on_closed` are the callbacks of the connection's end. Errors are in
        the response; nothing is raised."""
        if request.cluster_id not in {None, self._voter.me.cluster_id}:
            return k01.FetchResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID)
        fetch_partition = _only_partition(request)
        if fetch_partition is None:
            return k01.FetchResponse(error_code=ErrorCode.INVALID_REQUEST)
        if (
            request.max_wait_ms < 0
            or fetch_partition.fetch_offset < 0
            or not 0 <= fetch_partition.last_fetched_epoch <= fetch_partition.current_leader_epoch
        ):
            return self._response(k01.PartitionData(error_code=ErrorCode.INVALID_REQUEST, high_watermark=-1))
        data = self._read(request, fetch_partition)
        if request.max_wait_ms == 0 or not _is_empty(data) or fetch_partition.high_watermark < data.high_watermark:
            return self._response(data)
        advanced = self._voter.when_high_watermark_moves()
        on_closed[advanced] = advanced.cancel
        advanced.add_done_callback(lambda _: on_closed.pop(advanced, None))
        return self._fetch_later(request, fetch_partition, advanced)

    async def _fetch_later(
        self, request: k01.FetchRequest, fetch_partition: k01.FetchPartition, advanced: asyncio.Future[None]
    ) -> k01.FetchResponse:
        try:
            await wait_at_most(self._timers, self._clock, request.max_wait_ms, [advanced])
        finally:
            advanced.cancel()
        return self._response(self._read(request, fetch_partition))

    def _read(self, request: k01.FetchRequest, fetch_partition: k01.FetchPartition) -> k01.PartitionData:
        voter, log = self._voter, self._voter.raft_log
        if (error := self._epoch_error(fetch_partition.current_leader_epoch)) is not None:
            return k01.PartitionData(error_code=error, high_watermark=-1)
        data = k01.PartitionData(high_watermark=voter.high_watermark, log_start_offset=log.start_offset, records=b"")
        newest, offset = log.snapshots.newest, fetch_partition.fetch_offset
        epoch, end_offset = log.end_offset_for_epoch(fetch_partition.last_fetched_epoch)
        if newest not in {None, BOOTSTRAP_SNAPSHOT} and newest is not None and (offset == 0 or self._is_before_log(fetch_partition)):
            data.snapshot_id = k01.SnapshotId(newest.end_offset, newest.epoch)
        elif offset > 0 and (epoch != fetch_partition.last_fetched_epoch or end_offset < offset):
            data.diverging_epoch = k01.EpochEndOffset(epoch, end_offset)
        else:
            data.records = self._records(offset, request.max_bytes)
            state = request.replica_state
            key = ReplicaKey(request.replica_id if request.replica_id >= 0 else state.replica_id, fetch_partition.replica_directory_id)
            if key.node_id >= 0:
                self._progress_of(key).fetched(offset, voter.high_watermark, self._clock.now_ms())
        return data

    def _progress_of(self, key: ReplicaKey) -> ObserverProgress:
        if key not in self._progress and len(self._progress) >= OBSERVERS_MAX:
            del self._progress[min(self._progress, key=lambda known: self._progress[known].fetched_ms)]
        return self._progress.setdefault(key, ObserverProgress())

    def _is_before_log(self, fetch_partition: k01.FetchPartition) -> bool:
        """Return whether the requested records were deleted from the log, so that only a snapshot contains them."""
        log = self._voter.raft_log
        oldest = log.snapshots.ids[0]
        if log.start_offset == 0:
            return False
        before = fetch_partition.fetch_offset < log.start_offset or fetch_partition.last_fetched_epoch < oldest.epoch
        return before or (fetch_partition.fetch_offset == log.start_offset and fetch_partition.last_fetched_epoch != oldest.epoch)

    def _records(self, offset: int, max_bytes: int) -> bytes:
        """Return committed record batches of the metadata log from `offset` on, about `max_bytes` at most. Uncommitted records are never
        served, because they may still be lost.
        """
        log = self._voter.raft_log
        if offset >= log.high_watermark:
            return b""
        read_bytes_max = min(max(max_bytes, 0), BYTES_AT_ONCE)
        return log.log.read(offset, read_bytes_max, isolation=Isolation.READ_UNCOMMITTED, min_one_batch=True).records

    def _epoch_error(self, epoch: int) -> ErrorCode | None:
        if epoch < self._voter.epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if epoch > self._voter.epoch:
            return ErrorCode.UNKNOWN_LEADER_EPOCH
        return ErrorCode.BROKER_NOT_AVAILABLE if self.stopping else None

    def _response(self, data: k01.PartitionData) -> k01.FetchResponse:
        me = self._voter.me
        data.current_leader = k01.LeaderIdAndEpoch(me.node_id, self._voter.epoch)
        topic = k01.FetchableTopicResponse(CLUSTER_METADATA, METADATA_TOPIC_ID, [data])
        at = me.endpoints[0]
        return k01.FetchResponse(responses=[topic], node_endpoints=[NodeEndpoint(me.node_id, at.host, at.port)])

    # --- FetchSnapshot -----------------------------------------------------------------------------------------------------------

    def fetch_snapshot(self, request: k59.FetchSnapshotRequest) -> k59.FetchSnapshotResponse:
        """Return the response to FetchSnapshot: the requested part of a metadata snapshot, or an error such as SNAPSHOT_NOT_FOUND."""
        if request.cluster_id not in {None, self._voter.me.cluster_id}:
            return k59.FetchSnapshotResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID)
        places = [(topic.name, partition) for topic in request.topics for partition in topic.partitions]
        if len(places) != 1:
            return k59.FetchSnapshotResponse(error_code=ErrorCode.INVALID_REQUEST)
        ((name, requested),) = places
        me, at = self._voter.me, self._voter.me.endpoints[0]
        if (name, requested.partition) == (CLUSTER_METADATA, 0):
            part = self._part(requested, request.max_bytes)
            part.current_leader = k59.LeaderIdAndEpoch(me.node_id, self._voter.epoch)
        else:
            part = k59.PartitionSnapshotPart(error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        part.index = requested.partition
        endpoints = [QuorumEndpoint(me.node_id, at.host, at.port)]
        return k59.FetchSnapshotResponse(topics=[k59.TopicSnapshotPart(name, [part])], node_endpoints=endpoints)

    def _part(self, partition_snapshot: k59.PartitionSnapshot, max_bytes: int) -> k59.PartitionSnapshotPart:
        if (error := self._epoch_error(partition_snapshot.current_leader_epoch)) is not None:
            return k59.PartitionSnapshotPart(error_code=error)
        log = self._voter.raft_log
        snapshot = SnapshotId(partition_snapshot.snapshot_id.end_offset, partition_snapshot.snapshot_id.epoch)
        if snapshot == BOOTSTRAP_SNAPSHOT or not log.has_snapshot(snapshot):
            return k59.PartitionSnapshotPart(error_code=ErrorCode.SNAPSHOT_NOT_FOUND)
        size = log.snapshots.size_bytes(snapshot)
        if not 0 <= partition_snapshot.position < size:
            return k59.PartitionSnapshotPart(error_code=ErrorCode.POSITION_OUT_OF_RANGE)
        data = log.snapshots.read_part(
            snapshot, partition_snapshot.position, min(max(max_bytes, 0), BYTES_AT_ONCE, size - partition_snapshot.position)
        )
        return k59.PartitionSnapshotPart(
            snapshot_id=partition_snapshot.snapshot_id, size=size, position=partition_snapshot.position, unaligned_records=data
        )

    # --- DescribeQuorum ----------------------------------------------------------------------------------------------------------

    def describe(self, request: k55.DescribeQuorumRequest) -> k55.DescribeQuorumResponse:
        """Return the response to DescribeQuorum: the leader, which is the only voter, and the observers with their progress."""
        places = [(topic.topic_name, partition.partition_index) for topic in request.topics for partition in topic.partitions]
        if places != [(CLUSTER_METADATA, 0)]:
            return not_the_metadata(request)
        voter, me, now_ms = self._voter, self._voter.me, self._clock.now_ms()
        directory = me.directory_id if voter.quorum.kraft_version or voter.is_standalone else bytes(16)
        leader = k55.ReplicaState(me.node_id, directory, voter.high_watermark, now_ms, now_ms)
        partition = k55.PartitionResult(
            leader_id=me.node_id,
            leader_epoch=voter.epoch,
            high_watermark=voter.high_watermark,
            current_voters=[leader],
            observers=[k55.ReplicaState(*key, at.end_offset, at.fetched_ms, at.caught_up_ms) for key, at in self._observers(now_ms)],
        )
        own = voter.image.brokers[me.node_id].listeners.items() if voter.is_standalone else [(at.name, at) for at in me.endpoints]
        listeners = [Listener(name, at.host, at.port) for name, at in own]
        return k55.DescribeQuorumResponse(topics=[k55.TopicResult(CLUSTER_METADATA, [partition])], nodes=[k55.Node(me.node_id, listeners)])

    def _observers(self, now_ms: int) -> list[tuple[ReplicaKey, ObserverProgress]]:
        silent = [key for key, progress in self._progress.items() if now_ms - progress.fetched_ms >= OBSERVER_SESSION_MS]
        for key in silent:
            del self._progress[key]
        return list(self._progress.items())


def not_the_metadata(request: k55.DescribeQuorumRequest) -> k55.DescribeQuorumResponse:
    """Return a DescribeQuorum response that rejects every requested partition as unknown, because `__cluster_metadata` is the only one with
    a quorum.
    """
    code, text = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition."
    topics = [
        k55.TopicResult(topic.topic_name, [k55.PartitionResult(each.partition_index, code, text) for each in topic.partitions])
        for topic in request.topics
    ]
    return k55.DescribeQuorumResponse(topics=topics)


def _only_partition(request: k01.FetchRequest) -> k01.FetchPartition | None:
    """Return the request's entry for partition 0 of the metadata log; None if the request names any other partition. The topic may be given
    by name or, from version 13 on, by id.
    """
    if len(request.topics) != 1 or len(request.topics[0].partitions) != 1:
        return None
    topic, partition = request.topics[0], request.topics[0].partitions[0]
    named = topic.topic_id == METADATA_TOPIC_ID or topic.topic == CLUSTER_METADATA
    return partition if named and partition.partition == 0 else None


def _is_empty(data: k01.PartitionData) -> bool:
    """Return whether the response to a Fetch may be held back until there are new records: it has no error, records, divergence or
    snapshot.
    """
    return not (data.error_code or data.records or data.diverging_epoch.epoch >= 0 or data.snapshot_id.end_offset >= 0)
