"""The only voter of a single-voter quorum: it elects itself, and its records are committed as soon as they are on disk.

Invariants:
- Each start is an election: the new epoch is on disk before any record is written in it, and its first record is a LeaderChange.
- No record is served before it is on disk. Then it is committed, and passed to the broker and other components in log order.
- Every record found in the log at the start is committed, because no other voter could have decided otherwise.

Source: Kafka's KafkaRaftClient, LeaderState.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from ottla.broker.cluster.election import Election
from ottla.broker.cluster.image import MetadataImage
from ottla.broker.cluster.image_feed import ImageFeed, Quorum
from ottla.broker.cluster.metadata_loader import Published
from ottla.broker.cluster.metadata_records import MetadataRecord
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
from ottla.broker.cluster.record_frames import decode_record, encode_record
from ottla.broker.cluster.record_versions import version_of
from ottla.broker.cluster.registrations import InconsistentRecord
from ottla.broker.cluster.snapshots import BATCH_BYTES_MAX, BOOTSTRAP_SNAPSHOT
from ottla.broker.core.clock import Clock
from ottla.broker.core.rejected import Rejected
from ottla.broker.core.role_settings import MORE_VOTERS
from ottla.broker.runtime.nodes.snapshot_generator import SnapshotGenerator, SnapshotPolicy
from ottla.broker.runtime.replicas.flusher import Flusher
from ottla.broker.storage.errors import LogDirRefused
from ottla.broker.storage.partition_log import Origin, PartitionLog
from ottla.broker.storage.quorum_state import read_election, write_election
from ottla.broker.storage.raft_log import MetadataRetention, RaftLog
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.records.batch import split_batches
from ottla.protocol.records.record import SimpleRecord, build_batch, iter_records
from ottla.protocol.uuids import encode_uuid

RECORDS_AT_ONCE: Final = 10_000
"""The most metadata records in one batch (Kafka's `QuorumController.MAX_RECORDS_PER_BATCH`)."""
_KRAFT_VERSIONS: Final = KRaftVersionFeature(0, 1)


class Identity(NamedTuple):
    """The identity of the quorum's only voter: cluster id, node id, directory id, and its controller listeners, the default listener
    first."""

    cluster_id: str
    node_id: int
    directory_id: bytes
    endpoints: Sequence[VoterEndpoint]


class ReadMetadata(NamedTuple):
    """A metadata log that was read before the `SoleVoter` was created: the `ImageFeed` that has read it, and the images to publish."""

    feed: ImageFeed
    published: Sequence[Published]


def read_metadata(log: RaftLog, feed: ImageFeed) -> ReadMetadata:
    """Read the whole metadata log of a quorum's only voter into `feed`. All records of the log are committed. Blocks the calling thread.

    Raises LogDirRefused if the log's records contradict each other, ProtocolError or Rejected if the log is damaged, and OSError if it
    cannot be read.
    """
    if log.log.recovery_point < log.end_offset:
        log.log.flush()
    log.log.advance_high_watermark(log.end_offset)
    published: list[Published] = []
    try:
        newest = log.snapshots.newest
        if newest is not None:
            read = log.snapshots.read(newest)
            if newest == BOOTSTRAP_SNAPSHOT:
                read.records = []  # bootstrap records of the formatting: the activation writes them to the log, which other nodes fetch
            published += feed.load_snapshot(newest, read, log.end_offset)
        for batches in _unread(log, feed):
            published += feed.load(batches, log.high_watermark)
    except InconsistentRecord as error:
        raise LogDirRefused(f"{log.log.directory}: {error}") from error
    return ReadMetadata(feed, published)


def _unread(log: RaftLog, feed: ImageFeed) -> Iterator[bytes]:
    while batches := log.committed(feed.next_offset):
        yield batches


class SoleVoter:
    """The quorum's only voter, which is always the leader, and its log. `log` is partition 0 of `__cluster_metadata`. `is_named` is true if
    controller.quorum.voters names this node.

    `on_published` is called with each committed metadata image, in log order. `open` reads the log, unless `read` has its content already.
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
        policy: SnapshotPolicy | None = None,
        read: ReadMetadata | None = None,
    ) -> None:
        self.me = me
        self.epoch = 0
        self.raft_log = RaftLog(log, retention, now_ms=clock.now_ms())
        self._is_named = is_named
        self._clock = clock
        self._flusher = flusher
        self._on_published = on_published
        self._read_ahead = read
        self._feed = ImageFeed() if read is None else read.feed
        self._snapshot_generator = SnapshotGenerator(self.raft_log, self._feed, flusher, clock, policy or SnapshotPolicy())
        self._committed: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._high_watermark_waiters: dict[asyncio.Future[None], None] = {}  # a dict, because it keeps the order of the calls
        self._syncing = self._ended = False

    @property
    def end_offset(self) -> int:
        """The offset of the next record of the metadata log, whether the records before it are on disk or not."""
        return self.raft_log.end_offset

    @property
    def high_watermark(self) -> int:
        """The metadata log's high watermark: every record below it is on disk, and so committed."""
        return self.raft_log.high_watermark

    @property
    def quorum(self) -> Quorum:
        """The quorum's voters and kraft.version, from the control records of the log."""
        return self._feed.quorum

    @property
    def is_standalone(self) -> bool:
        """Whether no other node can reach this voter, because it has no listener: the controller of a standalone node."""
        return not self.me.endpoints

    @property
    def image(self) -> MetadataImage:
        """The metadata image of all committed records of the log, except those of an open metadata transaction (KIP-868)."""
        return self._feed.image

    @property
    def in_transaction(self) -> bool:
        """Whether the metadata log ends inside a metadata transaction (KIP-868), which was begun but neither ended nor aborted."""
        return self._feed.in_transaction

    # --- start -------------------------------------------------------------------------------------------------------------------

    def open(self) -> None:
        """Read the log and begin a new leader epoch. The records of the new epoch are committed only by the next sync. Blocks the event
        loop.

        Raises LogDirRefused if this node is not the quorum's only voter or the log's records contradict each other, ProtocolError or
        Rejected if the log is damaged, and OSError if it cannot be read or written.
        """
        self._notify((self._read_ahead or read_metadata(self.raft_log, self._feed)).published)
        if not self.is_standalone:
            self._check_is_the_voter()
        self._begin_epoch()

    def _check_is_the_voter(self) -> None:
        quorum, me = self.quorum, self.me
        if quorum.kraft_version == 0:
            if not self._is_named:
                directory = self.raft_log.log.directory.parent
                raise LogDirRefused(
                    f"the metadata log in {directory} names no voters: set controller.quorum.voters={me.node_id}@HOST:PORT, the address of "
                    "this controller, in place of controller.quorum.bootstrap.servers, here and on every broker"
                )
            return
        named = [] if quorum.voters is None else [(voter.voter_id, voter.voter_directory_id) for voter in quorum.voters.voters]
        if named != [(me.node_id, me.directory_id)]:
            given = ", ".join(f"{node}-{encode_uuid(directory)}" for node, directory in named) or "none"
            here = f"{me.node_id}-{encode_uuid(me.directory_id)}"
            raise LogDirRefused(f"the voters of this quorum are {given}, and this node is {here}: {MORE_VOTERS}")

    def _begin_epoch(self) -> None:
        log, node = self.raft_log.log, self.me.node_id
        before = read_election(log.files, log.directory) or Election()
        self.epoch = max(before.epoch, self.raft_log.last_epoch) + 1
        if not self.is_standalone:  # a standalone node needs no quorum-state file, because its log contains the last epoch
            write_election(log.files, log.directory, Election(self.epoch, node), self.quorum.kraft_version, [node])
        elected = LeaderChangeMessage(0, node, [ElectionVoter(node)], [ElectionVoter(node)])
        now_ms = self._clock.now_ms()
        self._write(control_batch([elected, *self._voters_to_tell()], self.end_offset, self.epoch, now_ms))

    def _voters_to_tell(self) -> list[KRaftVersionRecord | VotersRecord]:
        """Return the KRaftVersion and Voters records to write at the start of this epoch. There are none at kraft.version 0, on a
        standalone node, or if the log already names this voter with the same endpoints.
        """
        quorum, me = self.quorum, self.me
        if quorum.kraft_version == 0 or self.is_standalone:
            return []
        voters = VotersRecord(0, [Voter(me.node_id, me.directory_id, list(me.endpoints), _KRAFT_VERSIONS)])
        if self.end_offset > 0 and voters == quorum.voters:
            return []
        return [KRaftVersionRecord(0, quorum.kraft_version), voters]

    # --- writing -----------------------------------------------------------------------------------------------------------------

    def append(self, records: Sequence[MetadataRecord], metadata_level: int) -> int:
        """Append records, encoded at the level `metadata_level` of metadata.version, in batches of at most RECORDS_AT_ONCE. Return the
        first record's offset. The caller must then call `sync` or `commit`, because the records are not on disk yet.

        Raises Rejected if no record was written, with RECORD_LIST_TOO_LARGE if a batch would exceed BATCH_BYTES_MAX: nodes with small
        segments could not write it. Raises OSError if a batch after the first one failed: then the process must end.
        """
        base_offset, now_ms = self.end_offset, self._clock.now_ms()
        values = [SimpleRecord(None, encode_record(record, version_of(record, metadata_level)), now_ms) for record in records]
        batches = [
            build_batch(values[start : start + RECORDS_AT_ONCE], base_offset=base_offset + start, leader_epoch=self.epoch)
            for start in range(0, len(values), RECORDS_AT_ONCE)
        ]
        if (size := max(map(len, batches), default=0)) > BATCH_BYTES_MAX:
            text = f"The total record(s) size of {size} exceeds the maximum allowed batch size of {BATCH_BYTES_MAX}"
            raise Rejected(ErrorCode.RECORD_LIST_TOO_LARGE, text)
        for number, batch in enumerate(batches):
            try:
                self._write(batch)
            except Rejected as error:
                if number == 0:
                    raise
                raise OSError(f"only {number} of {len(batches)} batches of records could be written: {error}") from error
        return base_offset

    def sync(self) -> None:
        """Sync the metadata log, which commits all records in it. Blocks, so use it only during startup. Raises FsyncFailed if the sync
        fails, and another OSError if it cannot begin.
        """
        self.raft_log.log.flush()
        self._on_disk(self.end_offset)

    def commit(self) -> asyncio.Future[None]:
        """Start to sync the log. Return a future that is done when all records that are in the log now are committed and passed to
        `on_published`."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self.high_watermark >= self.end_offset:
            done.set_result(None)
        else:
            self._committed.append((self.end_offset, done))
            self._sync()
        return done

    def end(self) -> None:
        """Stop committing records of the metadata log, because the log is being closed."""
        self._ended = True

    def when_high_watermark_moves(self) -> asyncio.Future[None]:
        """Return a future that is done when the metadata log's high watermark increases. A caller that stops waiting must cancel the
        future."""
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._high_watermark_waiters[waiting] = None
        waiting.add_done_callback(lambda _: self._high_watermark_waiters.pop(waiting, None))
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
        if self._ended:
            return
        self._syncing = False
        self._on_disk(end_offset)
        self._sync()

    def _on_disk(self, end_offset: int) -> None:
        self.raft_log.log.advance_high_watermark(end_offset)
        self._load()
        while self._committed and self._committed[0][0] <= end_offset:
            _resolve(self._committed.popleft()[1])
        for waiting in list(self._high_watermark_waiters):
            _resolve(waiting)

    def records(self) -> Iterator[MetadataRecord]:
        """Yield the committed metadata records of the log, from its beginning or, if a snapshot has replaced the beginning, after the
        snapshot. Raises Rejected if the log is damaged."""
        offset = self.raft_log.start_offset
        while batches := self.raft_log.committed(offset):
            for position, header in split_batches(batches):
                offset = header.next_offset
                if not header.is_control:
                    for record in iter_records(memoryview(batches)[position : position + header.size_bytes]):
                        yield decode_record(record.value or b"")[0]

    def _load(self) -> None:
        for batches in _unread(self.raft_log, self._feed):
            self._notify(self._feed.load(batches, self.high_watermark))

    def _notify(self, news: Sequence[Published]) -> None:
        for published in news:
            self._on_published(published)
            self._snapshot_generator.published(published)


def _resolve(waiting: asyncio.Future[None]) -> None:
    if not waiting.done():
        waiting.set_result(None)
