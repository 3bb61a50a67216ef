"""Decides how an observer follows the metadata log: the next request and the node to send it to, and the actions that a response requires.

Invariants:
- One request is in flight at a time; a response belongs to the last request.
- A node that failed, or whose response was useless, is not contacted during a backoff. If that node is the leader, another node is asked,
  because there may be a new leader.
- A response with an older epoch is ignored. If a response has a newer epoch, only its leader is used.
- No record below the high watermark is ever truncated. A response that requires such a truncation, or a second leader in one epoch, breaks
  the protocol (`QuorumFault`), and the broker stops.

Source: Kafka's KafkaRaftClient (pollFollowerAsObserver, handleFetchResponse, handleFetchSnapshotResponse, maybeHandleCommonResponse),
RequestManager; KIP-595, KIP-630, KIP-853.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final, NamedTuple, Protocol

from ottla.broker.cluster.election import NO_LEADER, Election
from ottla.broker.cluster.snapshots import SnapshotId
from ottla.broker.cluster.topic_ids import METADATA_TOPIC_ID
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages import k59_fetch_snapshot as k59
from ottla.protocol.messages.k01_fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData, ReplicaState
from ottla.protocol.schema import Buffer

METADATA_TOPIC: Final = "__cluster_metadata"

_SUPERSEDED: Final = frozenset({ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER})


class QuorumFault(Exception):
    """The quorum violated the Raft protocol, for instance with two leaders in one epoch: the broker must stop."""


class QuorumNode(NamedTuple):
    """A quorum node and its address; `node_id` is -1 for a bootstrap server, whose id is unknown."""

    node_id: int
    host: str
    port: int


class Observer(NamedTuple):
    """This observer: its node id, the id of its metadata directory, and its cluster id."""

    node_id: int
    directory_id: bytes
    cluster_id: str


class ObserverLimits(NamedTuple):
    """The settings controller.quorum.retry.backoff.ms, .fetch.max.bytes and .fetch.snapshot.max.bytes, and how long a fetch may wait.

    A node that does not answer is skipped for twice as long each time, up to `backoff_max_ms`, like Kafka's reconnect backoff.
    """

    backoff_ms: int = 20
    backoff_max_ms: int = 500
    fetch_max_bytes: int = 1 << 20
    snapshot_max_bytes: int = 1 << 20
    fetch_wait_ms: int = 500


class ObservedLog(Protocol):
    """The methods of `ottla.broker.storage.raft_log.RaftLog` that an observer's decisions use."""

    @property
    def end_offset(self) -> int: ...

    @property
    def high_watermark(self) -> int: ...

    @property
    def last_epoch(self) -> int: ...

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]: ...

    def has_snapshot(self, snapshot: SnapshotId) -> bool: ...


class SendRequest(NamedTuple):
    """The action to send a request to a node, and then to call `handle_response` with the response, or `failed` if there is none."""

    peer: QuorumNode
    request: FetchRequest | k59.FetchSnapshotRequest


class WaitUntil(NamedTuple):
    """The action to send no request before a time in monotonic ms."""

    until_ms: int


class SaveElection(NamedTuple):
    """The action to write the election state to disk, before any other action."""

    election: Election


class AppendRecords(NamedTuple):
    """The action to append batches to the log, except those of an epoch greater than `epoch` (KAFKA-18723), and then to call `appended`
    with the leader's high watermark.
    """

    records: Buffer
    epoch: int
    high_watermark: int


class TruncateTo(NamedTuple):
    """The action to delete the metadata log's records from `offset` on."""

    offset: int


class BeginDownload(NamedTuple):
    """The action to start the download of a snapshot. When it is complete, the log begins at the snapshot's end offset."""

    snapshot: SnapshotId


class WritePart(NamedTuple):
    """The action to write the next bytes of the snapshot that is being downloaded. After the last ones, complete the snapshot atomically,
    delete the log's records so that it restarts at the snapshot's end offset, and call `appended` with that offset.
    """

    data: Buffer
    is_last: bool


class DropDownload(NamedTuple):
    """The action to discard the snapshot that is being downloaded."""


class LogWarning(NamedTuple):
    """The action to log a warning for the operator."""

    text: str


Action = SaveElection | AppendRecords | TruncateTo | BeginDownload | WritePart | DropDownload | LogWarning


@dataclass(slots=True)
class _Download:
    snapshot: SnapshotId
    position: int = 0


class _LeaderHint(NamedTuple):
    """The error, epoch and leader in a response, with the leader's address if it is known."""

    error: int
    epoch: int
    leader_id: int
    endpoint: QuorumNode | None


class ObserverState:
    """The state of a node that replicates the metadata log without a vote. `election` is the quorum state that was read from disk.
    `bootstrap` are the controllers in the settings: with node ids from controller.quorum.voters, or with ids of -1 from
    controller.quorum.bootstrap.servers.
    """

    def __init__(
        self,
        me: Observer,
        bootstrap: Sequence[QuorumNode],
        log: ObservedLog,
        election: Election,
        *,
        random: Random,
        limits: ObserverLimits | None = None,
    ) -> None:
        self._me = me
        self._bootstrap = bootstrap
        self._log = log
        self._random = random
        self._limits = limits or ObserverLimits()
        self._download: _Download | None = None
        self._backoff_until_ms: dict[QuorumNode, int] = {}
        self._failures: dict[QuorumNode, int] = {}
        self.voters: Mapping[int, QuorumNode] = {peer.node_id: peer for peer in bootstrap if peer.node_id >= 0}
        """The addresses of the quorum's voters by node id: from the settings or, once the log has one, from its newest VotersRecord."""
        self.epoch = election.epoch
        self.leader_id = election.leader_id
        if election.epoch < log.last_epoch:
            self.epoch, self.leader_id = log.last_epoch, NO_LEADER
        self.leader: QuorumNode | None = self.voters.get(self.leader_id)
        """The quorum's leader with its address; None while the leader or its address is unknown."""
        self.committed: int | None = None
        """The leader's high watermark in its last response; None before the first response."""
        self.high_watermark: int | None = None
        """The high watermark of this copy of the log: the leader's, limited to the end of this copy. None before the first call of
        `appended`."""

    @property
    def election(self) -> Election:
        """The newest epoch and leader that this node knows. The caller keeps the same state on disk (`SaveElection`)."""
        return Election(self.epoch, self.leader_id)

    def update_voters(self, voters: Mapping[int, QuorumNode]) -> None:
        """Replace the quorum's voters by `voters` (by node id), which the log names. If the leader was known only by its id, its address is
        taken from them.
        """
        self.voters = voters
        if self.leader is None:
            self.leader = voters.get(self.leader_id)

    # --- requests ------------------------------------------------------------------------------------------------------------------

    def next_step(self, now_ms: int) -> SendRequest | WaitUntil:
        """Return the next request, or the time until which no request can be sent because all nodes are in backoff."""
        self._backoff_until_ms = {peer: until for peer, until in self._backoff_until_ms.items() if until > now_ms}
        if self.leader is not None and self.leader not in self._backoff_until_ms:
            return SendRequest(self.leader, self._fetch() if self._download is None else self._fetch_snapshot(self._download))
        first = self._random.randrange(len(self._bootstrap))
        for peer in (*self._bootstrap[first:], *self._bootstrap[:first]):
            if peer not in self._backoff_until_ms:
                return SendRequest(peer, self._fetch())
        return WaitUntil(min(self._backoff_until_ms.values()))

    def _fetch(self) -> FetchRequest:
        partition = FetchPartition(
            partition=0,
            current_leader_epoch=self.epoch,
            fetch_offset=self._log.end_offset,
            last_fetched_epoch=self._log.last_epoch,
            replica_directory_id=self._me.directory_id,
            high_watermark=-1 if self.high_watermark is None else self.high_watermark,
        )
        return FetchRequest(
            cluster_id=self._me.cluster_id,
            replica_state=ReplicaState(self._me.node_id),
            max_wait_ms=self._limits.fetch_wait_ms,
            max_bytes=self._limits.fetch_max_bytes,
            topics=[FetchTopic("", METADATA_TOPIC_ID, [partition])],
        )

    def _fetch_snapshot(self, download: _Download) -> k59.FetchSnapshotRequest:
        part = k59.PartitionSnapshot(
            partition=0,
            current_leader_epoch=self.epoch,
            snapshot_id=k59.SnapshotId(*_numbers(download.snapshot)),
            position=download.position,
            replica_directory_id=self._me.directory_id,
        )
        return k59.FetchSnapshotRequest(
            self._me.cluster_id, self._me.node_id, self._limits.snapshot_max_bytes, [k59.TopicSnapshot(METADATA_TOPIC, [part])]
        )

    # --- responses -----------------------------------------------------------------------------------------------------------------

    def failed(self, peer: QuorumNode, now_ms: int) -> None:
        """Record that a request to `peer` got no response: do not contact it during a backoff that doubles with each failure."""
        times = self._failures[peer] = self._failures.get(peer, 0) + 1
        self._backoff_until_ms[peer] = now_ms + min(self._limits.backoff_ms << min(times - 1, 16), self._limits.backoff_max_ms)

    def back_off(self, peer: QuorumNode, now_ms: int) -> None:
        """Do not contact `peer` during a backoff (controller.quorum.retry.backoff.ms), because its response was useless."""
        self._backoff_until_ms[peer] = now_ms + self._limits.backoff_ms

    def handle_response(self, peer: QuorumNode, response: FetchResponse | k59.FetchSnapshotResponse, now_ms: int) -> list[Action]:
        """Return the actions that a response requires, in the order in which they must be performed. Raises `QuorumFault` if the response
        violates the Raft protocol, or denies this broker access to the metadata."""
        self._failures.pop(peer, None)
        if response.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            raise QuorumFault(f"{peer.host}:{peer.port} does not authorize this broker to read its metadata (super.users, CLUSTER_ACTION)")
        if response.error_code:
            return self._refused(peer, response.error_code, now_ms)
        part: PartitionData | k59.PartitionSnapshotPart | None
        if isinstance(response, FetchResponse):
            part = next((data for topic in response.responses for data in topic.partitions), None)
        else:
            part = next((data for of_topic in response.topics for data in of_topic.partitions), None)
        if part is None:
            return self._refused(peer, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, now_ms)
        leader = part.current_leader
        endpoints = [QuorumNode(node.node_id, node.host, node.port) for node in response.node_endpoints]
        hint = _LeaderHint(part.error_code, leader.leader_epoch, leader.leader_id, self._endpoint(leader.leader_id, endpoints))
        first, goes_on = self._learn_leader(peer, hint, now_ms)
        if not goes_on:
            return first
        if hint.error and hint.error != ErrorCode.SNAPSHOT_NOT_FOUND:
            return [*first, *self._refused(peer, hint.error, now_ms)]
        return [*first, *(self._fetched(peer, part, now_ms) if isinstance(part, PartitionData) else self._got_part(peer, part, now_ms))]

    def appended(self, high_watermark: int) -> int | None:
        """Return the new high watermark of this copy of the log after an append, given the leader's `high_watermark`; None if it has not
        moved.
        """
        reached = min(high_watermark, self._log.end_offset)
        if reached < 0 or (self.high_watermark is not None and reached <= self.high_watermark):
            return None
        self.high_watermark = reached
        return reached

    def _endpoint(self, leader_id: int, endpoints: Iterable[QuorumNode]) -> QuorumNode | None:
        return next((peer for peer in endpoints if peer.node_id == leader_id), None) or self.voters.get(leader_id)

    def _learn_leader(self, peer: QuorumNode, hint: _LeaderHint, now_ms: int) -> tuple[list[Action], bool]:
        """Process the leader and epoch in a response. Return the actions, and whether the caller may use the rest of the response.

        Raises `QuorumFault` for two leaders in one epoch, this node as leader, or INVALID_REQUEST.
        """
        if hint.epoch < self.epoch or hint.error == ErrorCode.UNKNOWN_LEADER_EPOCH:
            self.back_off(peer, now_ms)
            return [], False
        if hint.leader_id == self._me.node_id:
            raise QuorumFault(f"{peer.host}:{peer.port} names node {hint.leader_id} as the quorum's leader, but that is this broker")
        if hint.epoch == self.epoch and NO_LEADER not in {hint.leader_id, self.leader_id} and hint.leader_id != self.leader_id:
            raise QuorumFault(f"two leaders of the quorum in epoch {self.epoch}: {self.leader_id} and {hint.leader_id}")
        superseded = hint.epoch > self.epoch or hint.error in _SUPERSEDED
        followed = self.leader is not None
        actions = self._adopt(hint)
        if superseded:
            if not actions:
                self.back_off(peer, now_ms)
            return actions, False
        if hint.error == ErrorCode.INVALID_REQUEST:
            raise QuorumFault(f"{peer.host}:{peer.port} rejects the request for the cluster's metadata as invalid")
        if self.leader is None:
            self.back_off(peer, now_ms)
            return actions, False
        return actions, followed or not hint.error

    def _adopt(self, hint: _LeaderHint) -> list[Action]:
        """Follow the leader that a response names, if its epoch is newer or the epoch's leader was unknown. Return the actions to take,
        none if nothing is new.
        """
        if hint.epoch == self.epoch and (hint.leader_id == NO_LEADER or (self.leader is not None or hint.endpoint is None)):
            return []
        self.epoch, self.leader_id, self.leader = hint.epoch, hint.leader_id, hint.endpoint
        return [SaveElection(self.election), *self._drop_download()]

    def _drop_download(self) -> list[Action]:
        dropped: list[Action] = [] if self._download is None else [DropDownload()]
        self._download = None
        return dropped

    def _refused(self, peer: QuorumNode, error: int, now_ms: int) -> list[Action]:
        self.back_off(peer, now_ms)
        if error == ErrorCode.BROKER_NOT_AVAILABLE:
            return []
        return [LogWarning(f"{peer.host}:{peer.port} rejects the request for the cluster's metadata with error {_name(error)}")]

    # --- Fetch ---------------------------------------------------------------------------------------------------------------------

    def _fetched(self, peer: QuorumNode, data: PartitionData, now_ms: int) -> list[Action]:
        if data.high_watermark >= 0:
            self.committed = max(data.high_watermark, self.committed or 0)
        if data.diverging_epoch.epoch >= 0:
            return [TruncateTo(self._truncation(data.diverging_epoch.epoch, data.diverging_epoch.end_offset))]
        named = data.snapshot_id
        if named.epoch < 0 and named.end_offset < 0:
            return [AppendRecords(data.records or b"", self.epoch, data.high_watermark)]
        snapshot = SnapshotId(named.end_offset, named.epoch)
        if min(_numbers(snapshot)) < 0 or self._log.has_snapshot(snapshot):
            self.back_off(peer, now_ms)
            what = "not a snapshot" if min(_numbers(snapshot)) < 0 else "already here"
            return [LogWarning(f"{peer.host}:{peer.port} names {snapshot} as the snapshot to read instead of the log, which is {what}")]
        if self._download is not None and self._download.snapshot == snapshot:
            return []
        dropped = self._drop_download()
        self._download = _Download(snapshot)
        return [*dropped, BeginDownload(snapshot)]

    def _truncation(self, epoch: int, end_offset: int) -> int:
        """Return the offset at which this log must be truncated. In the leader's log, `epoch` ends at `end_offset` and is the newest epoch
        that both logs may have.

        Source: Kafka's RaftLog.truncateToEndOffset. Raises `QuorumFault` if the offset is below the high watermark.
        """
        own_epoch, own_end = self._log.end_offset_for_epoch(epoch)
        offset = min(own_end, end_offset) if epoch in {own_epoch, 0} else own_end
        committed = max(self._log.high_watermark, self.high_watermark or 0)
        if min(offset, end_offset) < committed:
            raise QuorumFault(f"the leader's log diverges at offset {min(offset, end_offset)}, below the high watermark {committed}")
        return offset

    # --- FetchSnapshot ---------------------------------------------------------------------------------------------------------------

    def _got_part(self, peer: QuorumNode, part: k59.PartitionSnapshotPart, now_ms: int) -> list[Action]:
        named = SnapshotId(part.snapshot_id.end_offset, part.snapshot_id.epoch)
        if part.error_code == ErrorCode.SNAPSHOT_NOT_FOUND or min(_numbers(named)) < 0:
            return self._drop_download()
        download = self._download
        if download is None or named != download.snapshot or part.position != download.position:
            raise QuorumFault(f"{peer.host}:{peer.port} sent byte {part.position} of {named.file_name}, but {download} was requested")
        download.position += len(part.unaligned_records)
        if download.position > part.size:
            raise QuorumFault(f"{peer.host}:{peer.port} sent {download.position} bytes of {named.file_name}, which has {part.size}")
        if download.position == part.size:
            self._download = None
            return [WritePart(part.unaligned_records, is_last=True)]
        if not part.unaligned_records:
            self.back_off(peer, now_ms)
        return [WritePart(part.unaligned_records, is_last=False)]


def _numbers(snapshot: SnapshotId) -> tuple[int, int]:
    return snapshot.end_offset, snapshot.epoch


def _name(error: int) -> str:
    try:
        return ErrorCode(error).name
    except ValueError:
        return str(error)
