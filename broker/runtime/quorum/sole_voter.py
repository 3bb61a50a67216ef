"""The one voter of a quorum of one: it elects itself, and what it has on disk is committed.

Rules that hold inside:
- A start is an election: a new epoch, which is on disk before anything is said in it, and a LeaderChange that opens it.
- What is appended is told to nobody before it is on disk; from then on it is committed, and is told in the order of the log.
- What stands in the log when it is opened is committed: nobody else could have said otherwise.

Source: KAFKA KafkaRaftClient, LeaderState.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from ottla.broker.cluster.image_feed import ImageFeed, Quorum
from ottla.broker.cluster.observer_state import Election
from ottla.broker.cluster.raft_records import (
    ElectionVoter,
    KRaftVersionFeature,
    KRaftVersionRecord,
    LeaderChangeMessage,
    Voter,
    VoterEndpoint,
    VotersRecord,
    control_batch,
)
from ottla.broker.cluster.record_frames import encode_record
from ottla.broker.cluster.record_versions import version_of
from ottla.broker.cluster.topic_ids import id_text
from ottla.broker.core.membership import MORE_VOTERS
from ottla.broker.runtime.nodes.snapshot_maker import SnapshotMaker, SnapshotRhythm
from ottla.broker.storage.errors import LogDirRefused
from ottla.broker.storage.partition_log import Origin
from ottla.broker.storage.quorum_state import read_election, write_election
from ottla.broker.storage.raft_log import MetadataRetention, RaftLog
from ottla.protocol.records.record import SimpleRecord, build_batch

if TYPE_CHECKING:
    from ottla.broker.cluster.metadata_loader import Published
    from ottla.broker.cluster.metadata_records import MetadataRecord
    from ottla.broker.core.clock import Clock
    from ottla.broker.runtime.replicas.flusher import Flusher
    from ottla.broker.storage.partition_log import PartitionLog

RECORDS_AT_ONCE: Final = 10_000
"""Records of one batch (Kafka's `QuorumController.MAX_RECORDS_PER_BATCH`)."""
_KRAFT_VERSIONS: Final = KRaftVersionFeature(0, 1)


class Identity(NamedTuple):
    """Who the voter is, and where it is reached: its listeners for the others, the first one first."""

    cluster_id: str
    node_id: int
    directory_id: bytes
    endpoints: Sequence[VoterEndpoint]


class SoleVoter:
    """`log` is partition 0 of `__cluster_metadata`. `is_named`: controller.quorum.voters names this node.

    `on_published` is told of one committed image after the other.
    """

    def __init__(
        self,
        log: PartitionLog,
        me: Identity,
        *,
        is_named: bool,
        clock: Clock,
        flusher: Flusher,
        on_published: Callable[[Published], object],
        retention: MetadataRetention | None = None,
        rhythm: SnapshotRhythm | None = None,
    ) -> None:
        self.me = me
        self.epoch = 0
        self.raft_log = RaftLog(log, retention, now_ms=clock.now_ms())
        self._is_named = is_named
        self._clock = clock
        self._flusher = flusher
        self._on_published = on_published
        self._feed = ImageFeed()
        self._maker = SnapshotMaker(self.raft_log, self._feed, flusher, clock, rhythm or SnapshotRhythm())
        self._committed: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._news: dict[asyncio.Future[None], None] = {}  # in the order in which they asked
        self._syncing = False

    @property
    def end_offset(self) -> int:
        """The offset of the next record, on disk or not."""
        return self.raft_log.end_offset

    @property
    def high_watermark(self) -> int:
        """How far the log is committed."""
        return self.raft_log.high_watermark

    @property
    def quorum(self) -> Quorum:
        """What the log says of the quorum."""
        return self._feed.quorum

    @property
    def in_transaction(self) -> bool:
        """Whether the log ends inside a transaction of metadata."""
        return self._feed.in_transaction

    # --- start -------------------------------------------------------------------------------------------------------------------

    def open(self) -> None:
        """Reads the log, and begins an epoch of its own. The loop stands still meanwhile.

        Raises LogDirRefused where this node is not the quorum's one voter, ProtocolError for a damaged log, OSError.
        """
        log = self.raft_log.log
        log.flush()
        log.advance_high_watermark(log.log_end_offset)
        newest = self.raft_log.snapshots.newest
        if newest is not None:
            self._tell(self._feed.load_snapshot(newest, self.raft_log.snapshots.read(newest), self.end_offset))
        self._load()
        self._check_is_the_voter()
        self._begin_epoch()

    def _check_is_the_voter(self) -> None:
        quorum, me = self.quorum, self.me
        if quorum.kraft_version == 0:
            if not self._is_named:
                directory = self.raft_log.log.directory.parent
                raise LogDirRefused(
                    f"{directory} names no voters: format it with --standalone, or give controller.quorum.voters={me.node_id}@HOST:PORT"
                )
            return
        named = [] if quorum.voters is None else [(voter.voter_id, voter.voter_directory_id) for voter in quorum.voters.voters]
        if named != [(me.node_id, me.directory_id)]:
            given = ", ".join(f"{node}-{id_text(directory)}" for node, directory in named) or "none"
            here = f"{me.node_id}-{id_text(me.directory_id)}"
            raise LogDirRefused(f"the voters of this quorum are {given}, and this node is {here}: {MORE_VOTERS}")

    def _begin_epoch(self) -> None:
        log, node = self.raft_log.log, self.me.node_id
        before = read_election(log.files, log.directory) or Election()
        self.epoch = max(before.epoch, self.raft_log.last_epoch) + 1
        write_election(log.files, log.directory, Election(self.epoch, node), self.quorum.kraft_version, [node])
        elected = LeaderChangeMessage(0, node, [ElectionVoter(node)], [ElectionVoter(node)])
        now_ms = self._clock.now_ms()
        self._write(control_batch([elected, *self._voters_to_tell()], self.end_offset, self.epoch, now_ms))
        log.flush()
        self._on_disk(self.end_offset)

    def _voters_to_tell(self) -> list[KRaftVersionRecord | VotersRecord]:
        """Where voters can change, the log says who they are: at its beginning, and when this one is reached elsewhere."""
        quorum, me = self.quorum, self.me
        if quorum.kraft_version == 0:
            return []
        voters = VotersRecord(0, [Voter(me.node_id, me.directory_id, list(me.endpoints), _KRAFT_VERSIONS)])
        if self.end_offset > 0 and voters == quorum.voters:
            return []
        return [KRaftVersionRecord(0, quorum.kraft_version), voters]

    # --- writing -----------------------------------------------------------------------------------------------------------------

    def append(self, records: Sequence[MetadataRecord], metadata_level: int) -> int:
        """Appends records, written at this level, and begins to sync them. The offset of the first.

        As many as fit into a batch are there whole after a crash, or not at all. Raises Rejected, OSError; the process has to end then.
        """
        base_offset, now_ms = self.end_offset, self._clock.now_ms()
        for start in range(0, len(records), RECORDS_AT_ONCE):
            values = (encode_record(record, version_of(record, metadata_level)) for record in records[start : start + RECORDS_AT_ONCE])
            listed = [SimpleRecord(None, value, now_ms) for value in values]
            self._write(build_batch(listed, base_offset=self.end_offset, leader_epoch=self.epoch))
        self._sync()
        return base_offset

    def committed(self) -> asyncio.Future[None]:
        """Done when everything that is in the log now is committed and told."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self.high_watermark >= self.end_offset:
            done.set_result(None)
        else:
            self._committed.append((self.end_offset, done))
        return done

    def news(self) -> asyncio.Future[None]:
        """Done when more is committed than now; to be cancelled where nobody waits any more."""
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._news[waiting] = None
        waiting.add_done_callback(lambda _: self._news.pop(waiting, None))
        return waiting

    def _write(self, batch: bytes) -> None:
        self.raft_log.log.append(batch, origin=Origin.COORDINATOR, leader_epoch=self.epoch, now_ms=self._clock.now_ms())

    def _sync(self) -> None:
        if self._syncing or self.high_watermark >= self.end_offset:
            return
        self._syncing = True
        try:
            self._flusher.flush(self.raft_log.log, self._synced)
        except OSError as error:
            self._flusher.fail(error)

    def _synced(self, end_offset: int) -> None:
        self._syncing = False
        self._on_disk(end_offset)
        self._sync()

    def _on_disk(self, end_offset: int) -> None:
        self.raft_log.log.advance_high_watermark(end_offset)
        self._load()
        while self._committed and self._committed[0][0] <= end_offset:
            _resolve(self._committed.popleft()[1])
        for waiting in list(self._news):
            _resolve(waiting)

    def _load(self) -> None:
        for batches in self._unread():
            self._tell(self._feed.load(batches, self.high_watermark))

    def _unread(self) -> Iterator[bytes]:
        while batches := self.raft_log.committed(self._feed.next_offset):
            yield batches

    def _tell(self, news: Sequence[Published]) -> None:
        for published in news:
            self._on_published(published)
            self._maker.published(published)


def _resolve(waiting: asyncio.Future[None]) -> None:
    if not waiting.done():
        waiting.set_result(None)
