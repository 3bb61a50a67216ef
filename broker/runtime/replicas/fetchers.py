"""The follower side of replication: num.replica.fetchers connections to each leader, over which partitions are fetched.

Invariants:
* `replication.fetch_plan` builds the requests and interprets the responses. This module performs the I/O and changes the logs.
* The leader's address is looked up in the metadata for each request. If there is none, the lookup is repeated after a back-off.
* A response is applied in the event loop turn in which it arrives, so nothing else can change its partitions in between. Afterwards the
  leader's log start and end offsets are requested (ListOffsets) for each partition with OFFSET_OUT_OF_RANGE.
* An error of one partition does not delay the others.
* After a truncation, a fetcher sends the next request only when the lowered checkpoints are on disk (`LogDir.truncation_checkpoint`).
* With flush.messages set, a fetcher sends the next request only when the fetched records are on disk, because the leader treats the fetch
  offset as the follower's log end.

Source: Kafka's AbstractFetcherManager, AbstractFetcherThread, ReplicaFetcherThread, RemoteLeaderEndPoint, UnifiedLog.append.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from ottla.broker.core.java_hash import fetcher_of
from ottla.broker.core.rejected import Rejected
from ottla.broker.core.state_lines import StateLines
from ottla.broker.replication.brokers import Brokers
from ottla.broker.replication.fetch_plan import FetchLimits, FetchPlan, FetchStep
from ottla.broker.replication.follower import Action, AppendFetched, FetchAction, RestartLog, TruncateLog
from ottla.broker.replication.follower_session import PartitionKey
from ottla.broker.replication.throttle import Throttle
from ottla.broker.runtime.nodes.link import Connect, Link, LinkBroken, Node, UnsupportedByPeer
from ottla.broker.runtime.replicas.flusher import Flusher
from ottla.broker.runtime.replicas.partition import Partition
from ottla.broker.runtime.upkeep.nursery import Nursery
from ottla.broker.storage.log_dir import LogDir
from ottla.broker.storage.log_values import EARLIEST, LATEST
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k01_fetch import FetchPartition, FetchRequest, FetchResponse, PartitionData
from ottla.protocol.messages.k02_list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsTopic,
)

logger = logging.getLogger(__name__)

NO_LEADER: Final = -1

_FETCH_SINCE_LEVEL: Final = ((27, 18), (21, 17), (19, 16), (10, 15), (9, 14))
_LIST_OFFSETS_SINCE_LEVEL: Final = ((29, 11), (25, 10), (21, 9), (9, 8))


def fetch_version(level: int) -> int:
    """Return the Fetch version that followers send at this metadata.version feature level (Kafka's MetadataVersion.fetchRequestVersion)."""
    return next((version for since, version in _FETCH_SINCE_LEVEL if level >= since), 13)


def list_offsets_version(level: int) -> int:
    """Return the ListOffsets version for this metadata.version feature level (Kafka's MetadataVersion.listOffsetRequestVersion)."""
    return next((version for since, version in _LIST_OFFSETS_SINCE_LEVEL if level >= since), 7)


@dataclass(slots=True)
class FetcherParameters:
    """Parameters that all replica fetchers of a broker share. `node` is this broker's id, `connect` opens a connection to another broker.

    `endpoint_of` returns a broker's inter-broker endpoint, or None if it has none. `metadata_level` returns the finalized feature level of
    metadata.version.
    """

    node: int
    brokers: Brokers
    connect: Connect
    endpoint_of: Callable[[int], Node | None]
    metadata_level: Callable[[], int]
    nursery: Nursery
    limits: FetchLimits
    request_timeout_ms: int
    """The timeout of a Fetch request: request.timeout.ms, as in Kafka's BrokerBlockingSender. Kafka uses replica.socket.timeout.ms only to
    connect."""
    log_dir: LogDir
    flusher: Flusher
    fetchers: int = 1
    """The number of fetchers, and so of connections, to each leader: num.replica.fetchers."""
    throttle: Throttle | None = None


class Fetchers:
    """The fetchers of all partitions that a broker follows. Each partition is fetched by at most one of them."""

    def __init__(self, parameters: FetcherParameters) -> None:
        self._parameters = parameters
        self._fetchers: dict[tuple[int, int], _Fetcher] = {}
        self._by_partition: dict[Partition, _Fetcher] = {}
        self._lines = StateLines(logger, parameters.nursery.clock.mono_ms)

    def follow(self, partition: Partition, leader: int) -> None:
        """Fetch the partition from broker `leader` in the partition's current leader epoch. If `leader` is -1, stop fetching the partition.

        Call this when the leader epoch changes. The leader and a hash of the partition select the fetcher, and thus the connection.
        """
        fetcher_id = leader, fetcher_of(partition.topic, partition.index, self._parameters.fetchers)
        fetcher = self._fetchers.get(fetcher_id)
        if fetcher is None or self._by_partition.get(partition) is not fetcher:
            self.forget(partition)
        if leader == NO_LEADER:
            return
        if fetcher is None:
            fetcher = self._fetchers[fetcher_id] = _Fetcher(leader, self._parameters, self._lines)
        self._by_partition[partition] = fetcher
        fetcher.follow(partition)

    def forget(self, partition: Partition) -> None:
        """Stop fetching the partition, because this broker leads it now, or it was removed."""
        fetcher = self._by_partition.pop(partition, None)
        if fetcher is None:
            return
        fetcher.forget(partition)
        if not fetcher.partitions:
            fetcher.stop()
            self._fetchers = {fetcher_id: other for fetcher_id, other in self._fetchers.items() if other is not fetcher}

    def is_fetched(self, partition: Partition) -> bool:
        """Return whether the partition is being fetched and its fetching has not failed in this leader epoch."""
        fetcher = self._by_partition.get(partition)
        return fetcher is not None and fetcher.fetches(partition)


def _key(partition: Partition) -> PartitionKey:
    return partition.log.topic_id, partition.index


class _Fetcher:
    """Fetches from one leader, over one connection, the partitions that are assigned to this fetcher by their hash."""

    def __init__(self, leader: int, parameters: FetcherParameters, lines: StateLines) -> None:
        self._leader = leader
        self._lines = lines
        self._parameters = parameters
        throttled = None if parameters.throttle is None else self._is_throttled
        self._plan = FetchPlan(parameters.node, parameters.brokers, parameters.limits, throttled)
        self.partitions: dict[PartitionKey, Partition] = {}
        self._unsynced: set[PartitionKey] = set()
        """Partitions that may need an fsync because of flush.messages. The next fetch is sent only after the fsync, because the fetch
        offset tells the leader that all records before it are stored."""
        self._endpoint: Node | None = None
        self._link: Link | None = None
        self._wakeup: asyncio.Future[None] | None = None
        self._job = parameters.nursery.start(f"fetching from broker {leader}", self._run)

    def follow(self, partition: Partition) -> None:
        key = _key(partition)
        self.partitions[key] = partition
        self._plan.follow(key, partition.log, partition.leader_epoch)
        partition.fetcher = partial(self._plan.log_start_changed, key)
        if partition.sync_is_due:
            self._unsynced.add(key)
        self._wake_up()

    def forget(self, partition: Partition) -> None:
        self.partitions.pop(_key(partition), None)
        partition.fetcher = None
        self._plan.forget(_key(partition))
        self._wake_up()

    def fetches(self, partition: Partition) -> bool:
        return _key(partition) in self._plan

    def stop(self) -> None:
        self._job.cancel()

    @property
    def _now_ms(self) -> int:
        return self._parameters.nursery.clock.mono_ms()

    # --- the loop ----------------------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        try:
            while True:
                with self._parameters.nursery.step("a round of fetches from broker %d", self._leader) as step:
                    await self._round()
                if step.error is not None:
                    self._plan.request_failed(self._now_ms)
        finally:
            self._hang_up()

    async def _round(self) -> None:
        now_ms = await self._until_synced()
        for key, cut in self._plan.truncations(now_ms):
            self._carry_out(key, cut)
        checkpoint = self._parameters.log_dir.truncation_checkpoint()
        if checkpoint is not None:  # before a truncated log grows again (Kafka's LogManager.truncateTo)
            await self._parameters.flusher.run(checkpoint)
            return  # the next round looks for truncations again, of partitions that were added meanwhile
        request = self._plan.next_request(now_ms)
        if request is None:
            await self._until_request_is_due()
            return
        response = await self._fetch(request)
        if response is None:
            self._plan.request_failed(self._now_ms)
        else:
            await self._carry_out_steps(self._plan.handle_response(response, self._now_ms))

    async def _until_request_is_due(self) -> None:
        self._wakeup = asyncio.get_running_loop().create_future()
        wakes_ms = self._plan.wakes_ms(self._now_ms)
        timer = None if wakes_ms is None else self._parameters.nursery.timers.schedule(wakes_ms, self._wake_up)
        try:
            await self._wakeup
        finally:
            self._wakeup = None
            if timer is not None:
                timer.cancel()

    def _wake_up(self) -> None:
        if self._wakeup is not None and not self._wakeup.done():
            self._wakeup.set_result(None)

    # --- requests ----------------------------------------------------------------------------------------------------------------

    async def _fetch(self, request: FetchRequest) -> FetchResponse | None:
        version = fetch_version(self._parameters.metadata_level())
        request.replica_id = request.replica_state.replica_id  # Fetch versions below 15 carry the replica id here
        try:
            response: FetchResponse = await self._connected().call(request, timeout_ms=self._parameters.request_timeout_ms, version=version)
        except (LinkBroken, UnsupportedByPeer) as error:
            line = "Broker %d cannot be fetched from, and is asked again until it can: %s"
            self._lines.report(("away", self._leader), logging.WARNING, line, self._leader, error)
            return None
        if self._lines:
            self._lines.ended(("away", self._leader), "Broker %d is fetched from", self._leader)
        return response

    def _connected(self) -> Link:
        endpoint = self._parameters.endpoint_of(self._leader)
        if endpoint != self._endpoint:
            self._hang_up()
            self._endpoint = endpoint
        if self._link is None:
            if endpoint is None:
                raise LinkBroken(f"no address of broker {self._leader} is known")
            self._link = self._parameters.connect(endpoint)
        return self._link

    def _hang_up(self) -> None:
        if self._link is not None:
            self._link.close()
            self._link = None

    async def _ask_offsets(self, key: PartitionKey, sent: FetchPartition) -> None:
        """Request the leader's log start and end offsets (ListOffsets) after OFFSET_OUT_OF_RANGE. Truncate or restart the local log if
        these offsets require it. `sent` is the partition's entry in the Fetch request.
        """
        try:
            end, start = [await self._offset(key, sent, which) for which in (LATEST, EARLIEST)]
        except (LinkBroken, UnsupportedByPeer):
            self._plan.handle_offsets_error(key, sent, ErrorCode.NETWORK_EXCEPTION, self._now_ms)
        except Rejected as refused:
            self._plan.handle_offsets_error(key, sent, refused.code, self._now_ms)
        else:
            action = self._plan.handle_offsets(key, sent, start, end, self._now_ms)
            if not isinstance(action, FetchAction):
                self._carry_out(key, action)

    async def _offset(self, key: PartitionKey, sent: FetchPartition, which: int) -> int:
        partition = self.partitions.get(key)
        if partition is None:
            raise Rejected(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        requested = ListOffsetsPartition(partition.index, sent.current_leader_epoch, which)
        request = ListOffsetsRequest(self._parameters.node, topics=[ListOffsetsTopic(partition.topic, [requested])])
        version = list_offsets_version(self._parameters.metadata_level())
        response = await self._connected().call(request, timeout_ms=self._parameters.request_timeout_ms, version=version)
        found: ListOffsetsPartitionResponse = response.topics[0].partitions[0]
        if found.error_code:
            raise Rejected(ErrorCode.of(found.error_code))
        return found.offset

    # --- responses ---------------------------------------------------------------------------------------------------------------

    async def _carry_out_steps(self, steps: Sequence[FetchStep]) -> None:
        out_of_range: list[tuple[PartitionKey, FetchPartition]] = []
        for key, data, action in steps:
            if action is FetchAction.ASK_OFFSETS:
                out_of_range.append((key, self._plan.session_partition(key)))
            elif action is FetchAction.FAIL:
                logger.info("Not fetching %s from broker %d until metadata is newer: %d", self._name(key), self._leader, data.error_code)
            elif not isinstance(action, FetchAction):
                self._carry_out(key, action, data)
        for key, sent in out_of_range:
            await self._ask_offsets(key, sent)

    async def _until_synced(self) -> int:
        """Wait until every fsync that flush.messages requires for a fetched partition is complete. Return the monotonic time in
        milliseconds.

        A partition in back-off, for example after a failed fsync, is skipped, and its fsync is retried after the back-off.
        """
        while True:
            now_ms = self._now_ms
            key = next((key for key in self._unsynced if key not in self._plan or not self._plan[key].is_delayed(now_ms)), None)
            if key is None:
                return now_ms
            self._unsynced.discard(key)
            if not await self._is_synced(key) and key in self._plan:
                self._unsynced.add(key)
                self._plan.back_off(key, self._now_ms)
                await asyncio.sleep(0)  # yield to the event loop even if the back-off is very short

    async def _is_synced(self, key: PartitionKey) -> bool:
        """Wait until the partition needs no fsync for flush.messages, or is no longer followed by this fetcher. Then return True. Return
        False as soon as an fsync cannot begin or has failed."""
        while key in self._plan and (partition := self.partitions.get(key)) is not None and partition.sync_is_due:
            sync = partition.flush()
            if sync is None or (sync.done() and (sync.cancelled() or sync.exception() is not None)):
                return False
            await asyncio.wait([sync])  # unlike `await sync`, a cancelled fetcher then leaves the sync running
        return True

    def _carry_out(self, key: PartitionKey, action: Action, data: PartitionData | None = None) -> None:
        """Apply an action of `replication.fetch_plan` (append, truncate or restart) to the partition's log. `data` is required for an
        action that appends. If the action fails, the partition is backed off or no longer fetched; nothing is raised.
        """
        partition = self.partitions.get(key)
        if partition is None or partition.removed or partition.leads:
            self._plan.forget(key)
            return
        with self._parameters.nursery.step("replication of %s from broker %d", self._name(key), self._leader) as step:
            try:
                self._apply(key, partition, action, data)
            except Rejected as refused:
                self._refused(key, refused)
        if step.error is not None:
            self._fail(key, step.error)
        if partition.sync_is_due:
            self._unsynced.add(key)

    def _apply(self, key: PartitionKey, partition: Partition, action: Action, data: PartitionData | None) -> None:
        if isinstance(action, AppendFetched):
            assert data is not None, "nothing to append"
            epoch = partition.append_fetched(data.records or b"", action.leader_epoch)
            partition.apply_leader_offsets(data.high_watermark, data.log_start_offset)
            self._plan.appended(key, epoch, data.high_watermark)
            if self._lines:
                self._lines.ended(("refused", key), "What broker %d sends of %s is appended", self._leader, self._name(key))
            self._note(partition, len(data.records or b""))
            return
        if isinstance(action, TruncateLog):
            partition.truncate(action.offset)
        elif isinstance(action, RestartLog):
            partition.restart(action.offset)
        self._plan.truncated(key)

    def _is_throttled(self, key: PartitionKey) -> bool:
        throttle, partition = self._parameters.throttle, self.partitions.get(key)
        if throttle is None or partition is None or not throttle.covers(partition.topic, partition.index):
            return False
        return throttle.is_exceeded(self._now_ms)

    def _note(self, partition: Partition, size: int) -> None:
        throttle = self._parameters.throttle
        if throttle is not None and throttle.covers(partition.topic, partition.index):
            throttle.record(size, self._now_ms)

    def _refused(self, key: PartitionKey, refused: Rejected) -> None:
        if refused.code is ErrorCode.KAFKA_STORAGE_ERROR:
            self._fail(key, refused)
            return
        line = "What broker %d sent of %s cannot be used, and is asked for again: %s"
        self._lines.report(("refused", key), logging.WARNING, line, self._leader, self._name(key), refused)
        self._plan.truncated(key)  # continue at the log end: the batches before the corrupt one were appended
        self._plan.back_off(key, self._now_ms)

    def _fail(self, key: PartitionKey, error: Exception) -> None:
        logger.error("%s is fetched no more until it has a new leader: %s", self._name(key), error)
        self._plan.fail(key)

    def _name(self, key: PartitionKey) -> str:
        partition = self.partitions.get(key)
        return f"{key[0].hex()}-{key[1]}" if partition is None else f"{partition.topic}-{partition.index}"
