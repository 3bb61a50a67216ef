"""Replicates the cluster's metadata log and publishes its committed records to the broker.

Invariants:
- One task fetches from the quorum and writes the local copy of the log. Another task reads the committed part of that copy and passes
  metadata images to the broker. So replication continues while the broker applies an image slowly, or waits for the quorum.
- Metadata images are passed to the broker in log order, one at a time.
- A record or response that cannot be applied ends the broker; none is skipped.
- The copy is synced once a minute. Nothing depends on its durability: after a power loss the missing records are fetched again.

`cluster/observer_state.py` decides what to request and what a response means; `cluster/image_feed.py` builds the images.
Source: Kafka's KafkaRaftClient, MetadataLoader.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Final

from ottla.broker.cluster.election import Election
from ottla.broker.cluster.image_feed import ImageFeed
from ottla.broker.cluster.metadata_loader import Published
from ottla.broker.cluster.observer_state import (
    Action,
    AppendRecords,
    BeginDownload,
    DropDownload,
    LogWarning,
    Observer,
    ObserverLimits,
    ObserverState,
    QuorumFault,
    QuorumNode,
    SaveElection,
    SendRequest,
    TruncateTo,
    WaitUntil,
    WritePart,
)
from ottla.broker.cluster.snapshots import SnapshotId
from ottla.broker.core.rejected import Rejected
from ottla.broker.core.state_lines import StateLines
from ottla.broker.runtime.nodes.link import Connect, Link, LinkBroken, Node, UnsupportedByPeer
from ottla.broker.runtime.nodes.snapshot_generator import SnapshotGenerator, SnapshotPolicy
from ottla.broker.runtime.replicas.flusher import Flusher
from ottla.broker.runtime.upkeep.nursery import Nursery, OnFailure
from ottla.broker.runtime.upkeep.timer_driver import pause
from ottla.broker.storage.partition_log import PartitionLog
from ottla.broker.storage.quorum_state import read_election, write_election
from ottla.broker.storage.raft_log import MetadataRetention, RaftLog
from ottla.broker.storage.snapshot_files import PartialSnapshot
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.records.errors import RecordsError

UPKEEP_MS: Final = 60_000
"""Milliseconds between the checks for segments and snapshots of the metadata log that can be deleted, as in Kafka's
RaftMetadataLogCleanerManager."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ObserverSettings:
    """The settings of an observer that replicates the metadata log.

    `request_timeout_ms` is the lesser of controller.quorum.request.timeout.ms and controller.quorum.fetch.timeout.ms; if a response takes
    longer, the observer asks another voter for the leader. `controller_listener` is the first of controller.listener.names.
    """

    request_timeout_ms: int = 2_000
    controller_listener: str = "CONTROLLER"
    limits: ObserverLimits = field(default_factory=ObserverLimits)
    retention: MetadataRetention = field(default_factory=MetadataRetention)
    snapshots: SnapshotPolicy = field(default_factory=SnapshotPolicy)


class MetadataObserver:
    """Replicates the metadata log as an observer of the quorum, and passes its committed records to the broker as metadata images.

    `log` is partition 0 of `__cluster_metadata`; its directory also holds the snapshots and `quorum-state`. `me` is the identity of this
    node, and `bootstrap` the nodes to contact first: controller.quorum.bootstrap.servers with ids of -1, or controller.quorum.voters.
    `on_published` is awaited for each metadata image in turn; of the first image, all contents count as changes. `truncation_checkpoint` is
    that of the log's data directory (`LogDir.truncation_checkpoint`). Raises LogDirRefused for a directory without a complete log, and
    OSError if the files cannot be read.
    """

    def __init__(
        self,
        log: PartitionLog,
        me: Observer,
        bootstrap: Sequence[Node],
        *,
        connect: Connect,
        nursery: Nursery,
        flusher: Flusher,
        random: Random,
        on_published: Callable[[Published], Awaitable[None]],
        truncation_checkpoint: Callable[[], Callable[[], None] | None] = lambda: None,
        settings: ObserverSettings | None = None,
    ) -> None:
        self._settings = settings or ObserverSettings()
        self._connect = connect
        self._nursery = nursery
        self._clock = clock = nursery.clock
        self._flusher = flusher
        self._on_published = on_published
        self._truncation_checkpoint = truncation_checkpoint
        self._log = RaftLog(log, self._settings.retention, now_ms=clock.now_ms())
        self._feed = ImageFeed()
        self._snapshot_generator = SnapshotGenerator(self._log, self._feed, flusher, clock, self._settings.snapshots)
        self._saved = read_election(log.files, log.directory)
        peers = [QuorumNode(*node) for node in bootstrap]
        self._state = ObserverState(me, peers, self._log, self._saved or Election(), random=random, limits=self._settings.limits)
        self._partial: PartialSnapshot | None = None
        self._at: QuorumNode | None = None
        self._link: Link | None = None
        self._lines = StateLines(logger, clock.mono_ms)
        self._high_watermark_advanced = asyncio.Event()
        self.on_controller: Callable[[], object] = lambda: None
        """Called when the property `controller` has changed, because another node leads the quorum now."""
        self.applied_offset = -1
        """The offset of the last record of the metadata log that the broker has applied; -1 before the first image."""

    @property
    def controller(self) -> Node | None:
        """The node that leads the metadata quorum (the active controller); None while the leader or its address is unknown."""
        return None if self._state.leader is None else Node(*self._state.leader)

    @property
    def end_offset(self) -> int:
        """The end offset of the local copy of the metadata log, which includes uncommitted records."""
        return self._log.end_offset

    @property
    def kraft_version(self) -> int:
        """The finalized level of kraft.version, according to the part of the metadata log that was read."""
        return self._feed.quorum.kraft_version

    @property
    def high_watermark(self) -> int | None:
        """The high watermark of the metadata log; None until the leader has sent it."""
        return self._state.high_watermark

    def start(self) -> None:
        """Start to replicate the metadata log and to pass its committed records to the broker. Call this once, on the event loop.

        When the broker stops, the observer does not sync the last records; the code that closes the log does.
        """
        self._nursery.at_close(self._close, self._hang_up)
        self._nursery.every("upkeep of the cluster's metadata log", UPKEEP_MS, self._upkeep)
        self._nursery.start("replication of the cluster's metadata", self._follow, OnFailure.LOST)
        self._nursery.start("publication of the cluster's metadata", self._publish, OnFailure.LOST)

    def _close(self) -> None:
        self._hang_up()
        self._drop_partial()

    # --- asking ------------------------------------------------------------------------------------------------------------------

    async def _follow(self) -> None:
        await self._save_election()
        while True:
            step = self._state.next_step(self._clock.mono_ms())
            if isinstance(step, WaitUntil):
                await pause(self._nursery.timers, self._clock, step.until_ms - self._clock.mono_ms())
            else:
                await self._ask(step)

    async def _ask(self, step: SendRequest) -> None:
        peer = step.peer
        try:
            response = await self._link_to(peer).call(step.request, timeout_ms=self._settings.request_timeout_ms)
        except (LinkBroken, UnsupportedByPeer) as error:
            self._state.failed(peer, self._clock.mono_ms())
            self._log_trouble(f"{peer.host}:{peer.port} does not serve the cluster's metadata: {error}")
            return
        before = self.controller
        actions = self._state.handle_response(peer, response, self._clock.mono_ms())
        if self.controller != before:
            self.on_controller()
        for action in actions:
            await self._carry_out(action, peer)

    def _link_to(self, peer: QuorumNode) -> Link:
        if self._link is None or self._at != peer:
            self._hang_up()
            self._at, self._link = peer, self._connect(Node(*peer))
        return self._link

    def _hang_up(self) -> None:
        if self._link is not None:
            self._link.close()
        self._link = None

    async def _carry_out(self, action: Action, peer: QuorumNode) -> None:
        match action:
            case SaveElection():
                await self._save_election()
            case AppendRecords():
                self._append(action, peer)
            case TruncateTo(offset):
                logger.info("The metadata log is truncated to offset %d, where it diverges from the leader's", offset)
                self._log.truncate_to(offset, self._clock.now_ms())
                if (checkpoint := self._truncation_checkpoint()) is not None:  # before the log grows again
                    await self._flusher.run(checkpoint)
            case BeginDownload(snapshot):
                self._partial = self._log.snapshots.begin(snapshot)
            case WritePart():
                await self._write_part(action)
            case DropDownload():
                self._drop_partial()
            case LogWarning(text):
                self._log_trouble(text)

    async def _save_election(self) -> None:
        election, level, voters = self._state.election, self.kraft_version, list(self._state.voters)
        if self._saved != election:
            log = self._log.log
            await self._flusher.run(lambda: write_election(log.files, log.directory, election, level, voters))
            self._saved = election

    def _append(self, action: AppendRecords, peer: QuorumNode) -> None:
        try:
            self._log.append(action.records, action.epoch, self._clock.now_ms())
        except (Rejected, RecordsError) as error:
            if isinstance(error, Rejected) and error.code is not ErrorCode.CORRUPT_MESSAGE:
                raise
            self._state.back_off(peer, self._clock.mono_ms())
            self._log_trouble(f"records of the metadata log from {peer.host}:{peer.port} cannot be appended: {error}")
            return
        self._lines.all_ended("The cluster's metadata is replicated again")
        self._commit(action.high_watermark)

    def _commit(self, high_watermark: int) -> None:
        reached = self._state.appended(high_watermark)
        if reached is not None:
            self._log.log.advance_high_watermark(reached)
            self._high_watermark_advanced.set()

    async def _write_part(self, part: WritePart) -> None:
        assert self._partial is not None
        partial_snapshot = self._partial
        partial_snapshot.write(part.data)
        if part.is_last:
            self._partial = None  # the thread owns it from here on, so nothing else may drop it
            await self._flusher.run(partial_snapshot.freeze)
            self._log.snapshots.add(partial_snapshot.snapshot)
            if not self._log.restart_at_newest_snapshot(self._clock.now_ms()):
                raise QuorumFault(f"{partial_snapshot.snapshot} was sent although the log already ends at {self._log.end_offset}")
            self._commit(self._log.end_offset)

    def _drop_partial(self) -> None:
        if self._partial is not None:
            self._partial.drop()
        self._partial = None

    def _log_trouble(self, trouble: str) -> None:
        self._lines.report(trouble, logging.WARNING, "%s", trouble)

    # --- publishing --------------------------------------------------------------------------------------------------------------

    async def _publish(self) -> None:
        newest = self._log.snapshots.newest
        if newest is not None:
            await self._notify_broker(await self._load_snapshot(newest))
        while True:
            self._high_watermark_advanced.clear()
            await self._notify_broker(await self._load())
            if self._feed.next_offset >= self._log.high_watermark:
                await self._high_watermark_advanced.wait()
            await asyncio.sleep(0)

    async def _load(self) -> list[Published]:
        """Read the next committed records from the local copy of the metadata log, or the newest snapshot if they were deleted from the
        log. Return the images to publish.
        """
        newest = self._log.snapshots.newest
        if newest is not None and self._feed.next_offset < self._log.start_offset:
            return await self._load_snapshot(newest)
        return self._feed.load(self._log.committed(self._feed.next_offset), self._state.committed)

    async def _load_snapshot(self, snapshot: SnapshotId) -> list[Published]:
        try:
            read = await self._flusher.run(partial(self._log.snapshots.read, snapshot))
        except FileNotFoundError:
            if self._log.has_snapshot(snapshot):
                raise
            return []  # deleted meanwhile, because a newer snapshot exists
        return self._feed.load_snapshot(snapshot, read, self._state.committed)

    async def _notify_broker(self, news: list[Published]) -> None:
        self._note_voters()
        for published in news:
            await self._on_published(published)
            self.applied_offset = published.provenance.offset
            self._snapshot_generator.published(published)

    def _note_voters(self) -> None:
        voters = self._feed.quorum.voters
        if voters is not None:
            name = self._settings.controller_listener
            at = [(voter.voter_id, endpoint) for voter in voters.voters for endpoint in voter.endpoints if endpoint.name == name]
            self._state.update_voters({voter: QuorumNode(voter, endpoint.host, endpoint.port) for voter, endpoint in at})

    # --- upkeep ------------------------------------------------------------------------------------------------------------------

    async def _upkeep(self) -> None:
        now_ms = self._clock.now_ms()
        self._log.clean(now_ms)
        for remove in self._log.due_deletions(now_ms):
            await self._flusher.run(remove)
        await self._flusher.flush(self._log.log, lambda _: None)
