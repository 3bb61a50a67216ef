"""Fetch (key 1), versions 4-18: returns stored record batches, immediately or after a long poll.

Guarantees:
* Partitions are read in the order of the request or, from version 7, of the session. The first partition with records returns at least one
  whole batch. Later ones are limited by the rest of max_bytes.
* A long poll ends with the append that reaches min_bytes, with an error, or after max_wait_ms. It does not start if a read ended at a
  segment boundary and the next segment has more records.
* An unknown isolation level or a negative size limit is INVALID_REQUEST. A negative leader epoch disables the epoch check.
* READ_COMMITTED responses list the aborted transactions. The broker filters no records; the client does.
* Followers read up to the log end, and only from the leader, which learns the follower's log end offset from the fetch offset. A
  fetch of a follower whose log diverges does not update that offset.
* Consumers may read from any replica from version 11 on, up to that replica's high watermark. With a rack-aware replica.selector.class, the
  leader redirects consumers of another rack to a follower in their rack.
* Checks run in this order: leader epoch, leadership, assigned replica, offset range, divergence (KAFKA Partition.fetchRecords).

A request in a session reads only the partitions that it lists and those that changed since the session's last response (fetch_sessions).
A requested partition (`CachedPartition`) is *quiet* if its last read reached the end of the records that the client may read, so that the
next read can return something new only after a change of the partition.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from ottla.broker.api.access import allowed_of_cluster, denied
from ottla.broker.api.context import Context
from ottla.broker.api.declaration import Api
from ottla.broker.api.services import ControllerServices, PartitionServices
from ottla.broker.core import limits
from ottla.broker.core.acl import Operation, Resource
from ottla.broker.core.rejected import Rejected
from ottla.broker.replication.progress import FollowerFetch
from ottla.broker.runtime.replicas.fetch_sessions import FINAL_EPOCH, CachedPartition, CachedPartitions, FetchContext, TopicKey
from ottla.broker.runtime.replicas.partition import Partition
from ottla.broker.storage.partition_log import Isolation
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k01_fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    PartitionData,
    SnapshotId,
)
from ottla.protocol.messages.node_endpoint import NodeEndpoint

if TYPE_CHECKING:
    Waiting = asyncio.Future[bool]

_ItemT = TypeVar("_ItemT")

API = Api(FetchRequest, array_limits={"topics.partitions": 30_000, "forgotten_topics_data.partitions": 100_000})

_UNREAD: Final[dict[int, int]] = {
    ErrorCode.UNKNOWN_TOPIC_ID: 1,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: 2,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: 2,
}
"""The errors of unread partitions, with their place in the response: after all partitions that were read come those with 1, then those with
2 (KAFKA KafkaApis.handleFetchRequest). Their list of aborted transactions is empty instead of null, as in Kafka."""

_ISOLATIONS = {0, 1}
_SAME_LOG, _NOBODY, _NO_SNAPSHOT = EpochEndOffset(), LeaderIdAndEpoch(), SnapshotId()
"""Default values that all responses share: making three objects for each partition takes a twentieth of a small fetch's time."""
_NOTHING: Final[frozenset[TopicKey]] = frozenset()

_REDIRECTING = {ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH}

REDIRECTED_SINCE: Final = 16
"""The first Fetch version whose responses contain the current leader (KIP-951)."""


ANY_REPLICA_SINCE: Final = 11
"""The first Fetch version in which consumers may fetch from followers (KIP-392)."""

ZSTD_SINCE: Final = 10
"""The first Fetch version whose clients know zstd (KIP-110)."""


_BATCH: Final = 50
"""The number of partitions that a very large fetch reads before other requests run: at 10 us per partition, 0.5 ms."""
_LIST_BATCH: Final = 2_000
"""The number of partitions that a very large fetch lists, or adds to the response, in one event loop turn. Each takes about 1 us."""


class _Requester(NamedTuple):
    """The sender of a fetch: a follower (`follows` is true, and `node` is its broker id) or a consumer (`node` is -1). `broker_epoch` is -1
    if the request has none. If `only_leader` is true, only the partition's leader may respond."""

    node: int
    broker_epoch: int
    isolation: Isolation
    only_leader: bool
    follows: bool = False


_CONSUMERS: Final = {
    (isolation, only_leader): _Requester(-1, -1, isolation, only_leader)
    for isolation in (Isolation.READ_UNCOMMITTED, Isolation.READ_COMMITTED)
    for only_leader in (False, True)
}


class _Read:
    """The results of one pass over a fetch's partitions, and whether they justify a response before the deadline."""

    __slots__ = ("bytes", "for_followers", "must_answer", "results", "unwatched")

    def __init__(self) -> None:
        self.results: list[tuple[CachedPartition, PartitionData]] = []
        self.unwatched: list[tuple[CachedPartition, Partition]] = []
        """The partitions that do not notify this fetch of changes yet: there is no fetch session, or the next read may differ without a
        change. Watching them begins when the fetch waits, or when a very large fetch lets other requests run."""
        self.for_followers: list[tuple[Partition, int]] = []
        self.bytes = 0
        self.must_answer = False


@API.on_controller(requires=Operation.CLUSTER_ACTION)
def handle_on_controller(ctx: Context[ControllerServices], request: FetchRequest) -> FetchResponse | Awaitable[FetchResponse]:
    """Return records of the metadata log to another node, up to the committed end of the log."""
    return ctx.services.serving.fetch(request, ctx.peer.on_closed)


@API.on_broker()
def handle(ctx: Context[PartitionServices], request: FetchRequest) -> FetchResponse | Awaitable[FetchResponse]:
    """Read the requested partitions and return their records. Only a fetch that has to wait, or names or reads very many partitions,
    becomes a task.
    """
    if len(request.topics) > limits.FETCHED_AT_ONCE or sum(len(topic.partitions) for topic in request.topics) > limits.FETCHED_AT_ONCE:
        return _handle_slowly(ctx, request)
    requester = _requester(ctx, request)
    try:
        fetch = _begin(ctx, request, _requested_partitions(request, ctx.version >= 13), requester)
    except Rejected as rejected:
        return FetchResponse(error_code=rejected.code)
    partitions = fetch.partitions
    if len(partitions) > limits.FETCHED_AT_ONCE:
        return _read_slowly(ctx, request, fetch, partitions, requester)
    read = _Read()
    _read_some(ctx, request, partitions, requester, read)
    if request.max_wait_ms <= 0 or _is_enough(ctx, request, fetch, read):
        return _respond(ctx, fetch, read, requester)
    deadline = ctx.services.clock.mono_ms() + request.max_wait_ms
    waiting = _enter_purgatory(ctx, request, fetch, read, deadline)
    return _wait(ctx, request, fetch, requester, deadline=deadline, read=read, waiting=waiting)


async def _handle_slowly(ctx: Context[PartitionServices], request: FetchRequest) -> FetchResponse:
    """Handle a fetch of more than FETCHED_AT_ONCE partitions: read them in batches, and let other requests run between the batches."""
    by_id, requester = ctx.version >= 13, _requester(ctx, request)
    found: dict[tuple[TopicKey, int], CachedPartition] = {}
    named = _named(request, by_id)
    while batch := {cached.key: cached for cached in islice(named, _LIST_BATCH)}:
        found.update(batch)
        await ctx.services.turns.wait_for_turn()
    try:
        fetch = _begin(ctx, request, list(found.values()), requester)
    except Rejected as rejected:
        return FetchResponse(error_code=rejected.code)
    return await _read_slowly(ctx, request, fetch, fetch.partitions, requester)


def _begin(ctx: Context[PartitionServices], request: FetchRequest, partitions: CachedPartitions, requester: _Requester) -> FetchContext:
    by_id = ctx.version >= 13
    return ctx.services.fetch_sessions.begin(
        request.session_id,
        request.session_epoch,
        partitions,
        _forgotten(request, by_id),
        by_id=by_id,
        now_ms=ctx.services.clock.mono_ms(),
        follower=requester.node,
        result_inputs=None if request.session_epoch == FINAL_EPOCH else _result_inputs(ctx, request, requester),
    )


def _requester(ctx: Context[PartitionServices], request: FetchRequest) -> _Requester:
    state = request.replica_state
    node = state.replica_id if ctx.version >= 15 else request.replica_id
    if node >= 0:
        return _Requester(node, state.replica_epoch if ctx.version >= 15 else -1, Isolation.LOG_END, only_leader=True, follows=True)
    isolation = Isolation.READ_COMMITTED if request.isolation_level == 1 else Isolation.READ_UNCOMMITTED
    return _CONSUMERS[isolation, ctx.version < ANY_REPLICA_SINCE]


def _result_inputs(ctx: Context[PartitionServices], request: FetchRequest, requester: _Requester) -> Hashable:
    """Return everything that determines a partition's result besides the partition: the requester, its authorization, and request fields
    such as isolation level and rack. The fetch session compares this value with that of its previous request; while they are equal, an
    unchanged partition is not read again."""
    authorizer, cluster = ctx.services.authorizer, ctx.services.partitions.cluster_context
    rights = None if authorizer is None else (ctx.peer.principal, ctx.peer.host, authorizer.version)
    replaced = requester.follows and cluster is not None and cluster.brokers.has_replaced(requester.node, requester.broker_epoch)
    return requester, request.isolation_level, request.max_bytes < 0, request.rack_id, rights, replaced


def _requested_partitions(request: FetchRequest, by_id: bool) -> list[CachedPartition]:
    """Return the partitions of the request. If a partition is listed twice, the last entry counts, as in Kafka (FetchRequest.fetchData)."""
    if len(request.topics) == 1 and len(request.topics[0].partitions) == 1:
        only = request.topics[0]
        return [CachedPartition(only.topic_id if by_id else only.topic, only.partitions[0])]
    return list({cached.key: cached for cached in _named(request, by_id)}.values())


def _named(request: FetchRequest, by_id: bool) -> Iterator[CachedPartition]:
    return (CachedPartition(topic.topic_id if by_id else topic.topic, each) for topic in request.topics for each in topic.partitions)


def _forgotten(request: FetchRequest, by_id: bool) -> Iterable[tuple[TopicKey, int]]:
    for topic in request.forgotten_topics_data:
        for index in topic.partitions:
            yield (topic.topic_id if by_id else topic.topic), index


def _wanted_bytes(ctx: Context[PartitionServices], request: FetchRequest) -> int:
    """Return the number of bytes that a long poll waits for: min_bytes, limited to the largest possible response."""
    return min(request.min_bytes, request.max_bytes, ctx.services.settings.fetch_max_bytes)


def _is_enough(ctx: Context[PartitionServices], request: FetchRequest, fetch: FetchContext, read: _Read) -> bool:
    return read.must_answer or read.bytes >= _wanted_bytes(ctx, request) or fetch.is_empty


def _enter_purgatory(ctx: Context[PartitionServices], request: FetchRequest, fetch: FetchContext, read: _Read, deadline: int) -> Waiting:
    """Add the fetch to the purgatory and return a future. Its result is True if enough bytes have become readable, or a partition has
    changed in another way, before the deadline (monotonic clock, in ms); otherwise False. The caller must call this in the same event loop
    turn as the read that found too few bytes; otherwise an append in between would be missed."""
    session, on_closed = fetch.session, ctx.peer.on_closed
    for cached, partition in read.unwatched:
        cached.watch(partition, quiet=False)
    waiting = ctx.services.fetch_purgatory.wait(session, _wanted_bytes(ctx, request) - read.bytes, deadline)
    on_closed[waiting] = waiting.cancel

    def ended(_: object) -> None:
        on_closed.pop(waiting, None)
        if waiting.cancelled():
            fetch.abandon()

    waiting.add_done_callback(ended)
    return waiting


async def _wait(
    ctx: Context[PartitionServices],
    request: FetchRequest,
    fetch: FetchContext,
    requester: _Requester,
    *,
    deadline: int,
    read: _Read,
    waiting: Waiting,
) -> FetchResponse:
    """Wait until the fetch's partitions change or the deadline has passed, and read again; repeat this until the response can be returned.
    The wait is cancelled when the client's connection closes.
    """
    while True:
        changed = await waiting
        partitions, unchanged = fetch.partitions, _unchanged(read)
        if len(partitions) > limits.FETCHED_AT_ONCE:  # changes during this slow read may go unnoticed, so its result is the response
            read, changed = await _read_batches(ctx, request, partitions, requester, unchanged), False
        else:
            read = _Read()
            _read_some(ctx, request, partitions, requester, read, unchanged=unchanged)
        if not changed or _is_enough(ctx, request, fetch, read):
            return _respond(ctx, fetch, read, requester)
        waiting = _enter_purgatory(ctx, request, fetch, read, deadline)


async def _read_slowly(
    ctx: Context[PartitionServices], request: FetchRequest, fetch: FetchContext, partitions: CachedPartitions, requester: _Requester
) -> FetchResponse:
    """Read very many partitions, yield to other requests between batches, and return the response.

    The fetch enters the purgatory before it reads, so that an append during the read completes it, too. Only bytes that become readable
    from then on count towards `min_bytes`.
    """
    waiting = _enter_purgatory(ctx, request, fetch, _Read(), ctx.services.clock.mono_ms() + request.max_wait_ms)
    try:
        read = await _read_batches(ctx, request, partitions, requester)
        if request.max_wait_ms > 0 and not _is_enough(ctx, request, fetch, read) and await waiting:
            read = await _read_batches(ctx, request, fetch.partitions, requester, _unchanged(read))
    finally:
        waiting.cancel()
    return await _respond_slowly(ctx, fetch, read, requester)


async def _read_batches(
    ctx: Context[PartitionServices],
    request: FetchRequest,
    partitions: CachedPartitions,
    requester: _Requester,
    unchanged: Mapping[CachedPartition, PartitionData] | None = None,
) -> _Read:
    read = _Read()
    for batch in _batches(partitions, _BATCH):
        await ctx.services.turns.wait_for_turn()
        _read_some(ctx, request, batch, requester, read, unchanged=unchanged)
        for cached, partition in read.unwatched:
            cached.watch(partition, quiet=False)
        read.unwatched.clear()
    return read


def _batches(items: Sequence[_ItemT], size: int) -> Iterator[Sequence[_ItemT]]:
    for begin in range(0, len(items), size):
        yield items[begin : begin + size]


def _unchanged(read: _Read) -> dict[CachedPartition, PartitionData]:
    """Return the results of the previous pass that are still valid, because their partitions have not changed since. If that pass has read
    records, return none: other partitions may have returned nothing only because max_bytes was exhausted."""
    return {} if read.bytes else {cached: data for cached, data in read.results if cached.watched is not None}


def _read_some(
    ctx: Context[PartitionServices],
    request: FetchRequest,
    partitions: CachedPartitions,
    requester: _Requester,
    read: _Read,
    *,
    unchanged: Mapping[CachedPartition, PartitionData] | None = None,
) -> None:
    """Read these partitions and add the results to `read`. `unchanged` has the results of the previous pass that are still valid: their
    partitions are not read again. It is None in the first pass; only this pass records the follower's log end offset."""
    first = unchanged is None
    hidden = _hidden(ctx, partitions, requester) if first and ctx.services.authorizer is not None else _NOTHING
    left = max(0, min(request.max_bytes, ctx.services.settings.fetch_max_bytes) - read.bytes)
    for cached in partitions:
        requested = cached.requested
        if unchanged and cached.watched is not None and (data := unchanged.get(cached)) is not None:
            data.high_watermark = cached.watched.log.high_watermark
            read.results.append((cached, data))
            continue
        try:
            if cached.topic in hidden:
                raise Rejected(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            partition = ctx.services.partitions.get(cached.topic, requested.partition)
            cached.name = partition.topic
            _check(request, partition, requested, requester)
            data = _redirected(partition, requested, request.rack_id) if request.rack_id and not requester.follows else None
            data = data or _diverging(partition, requested)
            if data is None:
                end = partition.log.log_end_offset
                if requester.follows and partition.is_throttled(requester.node):
                    data = _without_records(partition, requested)
                else:
                    data, on_older_segment = _read_one(partition, requested, left, requester.isolation, min_one_batch=not read.bytes)
                    read.must_answer = read.must_answer or on_older_segment
                if requester.follows and data.records:
                    read.for_followers.append((partition, len(data.records)))
                if first and requester.follows:
                    partition.fetched(_follower_fetch(requester, requested), end)
            if cached.session is not None and _is_quiet(partition, requested, data, requester, request.rack_id):
                cached.watch(partition, quiet=True)
            else:
                cached.quiet = False
                read.unwatched.append((cached, partition))
        except Rejected as rejected:
            data = _error(ctx, cached, _reported_error(ctx, cached, rejected))
            cached.quiet = False
        read.must_answer = read.must_answer or _must_be_reported(data)
        size = len(data.records) if data.records else 0
        read.bytes += size
        left = max(0, left - size)
        read.results.append((cached, data))


def _is_quiet(partition: Partition, requested: FetchPartition, data: PartitionData, requester: _Requester, rack: str) -> bool:
    """Return whether the partition is quiet: until it reports a change, the next read by this requester would return nothing new.

    It is not quiet if this read returned records or an error, and in three further cases: a follower outside the ISR fetches it, because a
    metadata change may let the follower join the ISR; a consumer with a rack fetches it, because a nearer replica may catch up and serve
    the consumer; a follower's fetch has just advanced the high watermark."""
    if data.records or _must_be_reported(data):
        return False
    log, replica = partition.log, partition.replica
    if data.high_watermark != log.high_watermark or data.log_start_offset != log.log_start_offset or log.failure is not None:
        return False
    if requester.follows:
        return requested.fetch_offset == log.log_end_offset and requester.node in replica.leadership.in_sync.committed
    return requested.fetch_offset >= log.visible_end_offset(requester.isolation) and not (rack and partition.may_redirect_consumers)


def _hidden(ctx: Context[PartitionServices], partitions: CachedPartitions, requester: _Requester) -> Collection[TopicKey]:
    """Return the topics that the client may not read; unknown topic ids are not included.

    A follower may read all topics or none, depending on CLUSTER_ACTION.
    """
    keys = [cached.topic for cached in partitions]
    if requester.follows:
        return _NOTHING if allowed_of_cluster(ctx, Operation.CLUSTER_ACTION) else keys
    found = {key: ctx.services.topics.topic_by_id(key) if isinstance(key, bytes) else None for key in keys}
    names = {key: topic.name if topic is not None else key for key, topic in found.items() if topic is not None or isinstance(key, str)}
    refused = denied(ctx, Operation.READ, Resource.TOPIC, [str(names[key]) for key in keys if key in names])
    return {key for key, name in names.items() if name in refused}


def _check(request: FetchRequest, partition: Partition, requested: FetchPartition, requester: _Requester) -> None:
    if request.isolation_level not in _ISOLATIONS or min(request.max_bytes, requested.partition_max_bytes) < 0:
        raise Rejected(ErrorCode.INVALID_REQUEST)
    replica = partition.replica
    if requester.follows:
        replica.check_follower(requester.node, max(requested.current_leader_epoch, -1))
    elif requested.current_leader_epoch >= 0:
        replica.check_epoch(requested.current_leader_epoch)
    if requester.only_leader and not replica.leads:
        replica.check_leads()


def _follower_fetch(requester: _Requester, requested: FetchPartition) -> FollowerFetch:
    return FollowerFetch(
        requester.node, requested.fetch_offset, requested.log_start_offset, requester.broker_epoch, max(requested.current_leader_epoch, -1)
    )


def _must_be_reported(data: PartitionData) -> bool:
    return data.error_code != ErrorCode.NONE or data.diverging_epoch.epoch >= 0 or data.preferred_read_replica >= 0


def _redirected(partition: Partition, requested: FetchPartition, rack: str) -> PartitionData | None:
    """Return a result that redirects a consumer in `rack` to a nearer replica (KIP-392); None if the consumer should read here."""
    node = partition.preferred_replica(rack, requested.fetch_offset) if partition.may_redirect_consumers else None
    return None if node is None else _without_records(partition, requested, preferred_read_replica=node)


def _diverging(partition: Partition, requested: FetchPartition) -> PartitionData | None:
    """Return a result with the diverging epoch (KIP-595) if the client's log differs from this replica's log; otherwise None.

    The logs diverge if this log does not have the epoch `last_fetched_epoch`, or has it only up to an offset below the fetch offset. Raises
    Rejected with OFFSET_OUT_OF_RANGE if the fetch offset is below the log start offset, or this log has no epoch up to
    `last_fetched_epoch`."""
    log = partition.log
    if requested.last_fetched_epoch < 0 or (
        requested.last_fetched_epoch == log.epochs.latest and requested.fetch_offset == log.log_end_offset
    ):
        return None
    epoch, end_offset = log.end_offset_for_epoch(requested.last_fetched_epoch)
    if epoch < 0 or requested.fetch_offset < log.log_start_offset:
        raise Rejected(ErrorCode.OFFSET_OUT_OF_RANGE)
    if epoch >= requested.last_fetched_epoch and end_offset >= requested.fetch_offset:
        return None
    return _without_records(partition, requested, diverging_epoch=EpochEndOffset(epoch, end_offset))


def _without_records(partition: Partition, requested: FetchPartition, **outcome: Any) -> PartitionData:
    log = partition.log
    offsets = (log.high_watermark, log.last_stable_offset, log.log_start_offset)
    return PartitionData(requested.partition, ErrorCode.NONE, *offsets, aborted_transactions=None, records=b"", **outcome)


def _read_one(
    partition: Partition, requested: FetchPartition, left: int, isolation: Isolation, *, min_one_batch: bool
) -> tuple[PartitionData, bool]:
    """Return the result of reading one partition, and whether the fetch must respond without waiting for appends (KAFKA DelayedFetch). It
    must if the read ended at a segment boundary with more records after it, or was shortened because of very many aborted transactions.
    `left` is the rest of the request's max_bytes."""
    log = partition.log
    if isolation is Isolation.LOG_END and requested.fetch_offset == log.log_end_offset and log.failure is None:
        return _without_records(partition, requested), False
    read_bytes_max = min(requested.partition_max_bytes, left, limits.FETCH_PARTITION_READ_BYTES)
    result = log.read(requested.fetch_offset, max(0, read_bytes_max), isolation=isolation, min_one_batch=min_one_batch)
    is_shortened = bool(result.records) and len(result.aborted) > limits.ABORTED_AT_ONCE
    if is_shortened:
        fewer_bytes = len(result.records) * limits.ABORTED_AT_ONCE // len(result.aborted)
        result = log.read(requested.fetch_offset, fewer_bytes, isolation=isolation, min_one_batch=True)
    data = PartitionData(
        requested.partition,
        ErrorCode.NONE,
        result.high_watermark,
        result.last_stable_offset,
        result.log_start_offset,
        _SAME_LOG,
        _NOBODY,
        _NO_SNAPSHOT,
        aborted_transactions=_aborted(result.aborted, isolation),
        records=result.records,
    )
    return data, result.on_older_segment or is_shortened


def _aborted(aborted: Iterable[tuple[int, int]], isolation: Isolation) -> list[AbortedTransaction] | None:
    if isolation is not Isolation.READ_COMMITTED:
        return None
    return [AbortedTransaction(producer_id, first_offset) for producer_id, first_offset in aborted]


def _reported_error(ctx: Context[PartitionServices], cached: CachedPartition, rejected: Rejected) -> Rejected:
    """Return the error to report for a partition. As in Kafka, an unknown topic id whose name the session still knows is
    UNKNOWN_TOPIC_OR_PARTITION or, if another topic has the name now, INCONSISTENT_TOPIC_ID.
    """
    if isinstance(cached.topic, str):
        return rejected
    found = ctx.services.topics.topic_by_id(cached.topic)
    if found is not None:
        cached.name = found.name
    if rejected.code is not ErrorCode.UNKNOWN_TOPIC_ID or cached.name is None:
        return rejected
    try:
        ctx.services.partitions.get(cached.name, cached.requested.partition)
    except Rejected as missing:
        return missing
    return Rejected(ErrorCode.INCONSISTENT_TOPIC_ID)


def _error(ctx: Context[PartitionServices], cached: CachedPartition, rejected: Rejected) -> PartitionData:
    is_listed = rejected.code in _UNREAD and ctx.services.settings.release_behaviour.lists_no_aborted_transactions
    aborted: list[AbortedTransaction] | None = [] if is_listed else None
    data = PartitionData(cached.requested.partition, rejected.code, -1, -1, -1, aborted_transactions=aborted, records=b"")
    if rejected.code in _REDIRECTING and ctx.version >= REDIRECTED_SINCE:
        leader = ctx.services.cluster.current_leader(cached.topic, cached.requested.partition)
        data.current_leader = LeaderIdAndEpoch(*leader)
    return data


def _respond(ctx: Context[PartitionServices], fetch: FetchContext, read: _Read, requester: _Requester) -> FetchResponse:
    response, send = _finish(ctx, fetch, read)
    _add(ctx, response, send, requester)
    response.node_endpoints = [] if requester.follows else _endpoints(ctx, send)
    return response


async def _respond_slowly(ctx: Context[PartitionServices], fetch: FetchContext, read: _Read, requester: _Requester) -> FetchResponse:
    """Return the same response as `_respond`. Because the fetch has very many partitions, other requests run between batches of them."""
    response, send = _finish(ctx, fetch, read)
    for batch in _batches(send, _LIST_BATCH):
        await ctx.services.turns.wait_for_turn()
        _add(ctx, response, batch, requester)
    await ctx.services.turns.wait_for_turn()
    response.node_endpoints = [] if requester.follows else _endpoints(ctx, send)
    return response


def _finish(
    ctx: Context[PartitionServices], fetch: FetchContext, read: _Read
) -> tuple[FetchResponse, Sequence[tuple[CachedPartition, PartitionData]]]:
    """Update the fetch session. Return the response without partitions, and the results that the caller must add to the response.

    If another request has used the session meanwhile, the response has the session's error, and there are no results.
    """
    for partition, size in read.for_followers:
        partition.sent(size)
    try:
        session_id, send = fetch.finish(read.results, ctx.services.clock.mono_ms())
    except Rejected as rejected:
        return FetchResponse(error_code=rejected.code), []
    if read.must_answer and any(data.error_code in _UNREAD for _, data in send):
        send = sorted(send, key=lambda found: _UNREAD.get(found[1].error_code, 0))
    return FetchResponse(session_id=session_id), send


def _add(
    ctx: Context[PartitionServices], response: FetchResponse, send: Sequence[tuple[CachedPartition, PartitionData]], requester: _Requester
) -> None:
    topics = response.responses
    last: TopicKey | None = None
    if topics:
        last = topics[-1].topic_id if ctx.version >= 13 else topics[-1].topic
    sent = ctx.services.traffic.to_followers if requester.follows else ctx.services.traffic.to_consumers
    bytes_out = sent.by_topic
    if ctx.version < ZSTD_SINCE and not ctx.services.settings.release_behaviour.accepts_zstd_of_all_versions:
        send = [(cached, _without_zstd(ctx, cached, data)) for cached, data in send]
    for cached, data in send:
        if data.records:
            bytes_out[cached.topic] = bytes_out.get(cached.topic, 0) + len(data.records)
        if cached.topic != last:
            last = cached.topic
            topics.append(FetchableTopicResponse(topic_id=last) if isinstance(last, bytes) else FetchableTopicResponse(topic=last))
        topics[-1].partitions.append(data)


def _without_zstd(ctx: Context[PartitionServices], cached: CachedPartition, data: PartitionData) -> PartitionData:
    """Return `data`, or UNSUPPORTED_COMPRESSION_TYPE if the topic has compression.type=zstd, because the client's version does not know
    zstd (KAFKA KafkaApis.maybeConvertFetchedData). Zstd batches in topics with another compression.type are returned.
    """
    if data.error_code != ErrorCode.NONE:
        return data
    try:
        config = ctx.services.partitions.get(cached.topic, cached.requested.partition).log.config
    except Rejected:  # a large fetch yields between the read and the response, and the partition was removed meanwhile
        return data
    if config.compression_type != "zstd":
        return data
    refused = PartitionData(cached.requested.partition, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, -1, -1, -1, records=None)
    if not ctx.services.settings.release_behaviour.lists_no_aborted_transactions:
        refused.aborted_transactions, refused.records = None, b""
    return refused


def _endpoints(ctx: Context[PartitionServices], results: Sequence[tuple[CachedPartition, PartitionData]]) -> list[NodeEndpoint]:
    """Return the endpoints of the leaders to which the response redirects consumers (KIP-951). Followers know them from metadata."""
    leaders = {leader: None for _, data in results if (leader := data.current_leader.leader_id) >= 0}
    found = (ctx.services.cluster.alive_broker(leader, ctx.peer.client_listener) for leader in leaders)
    return [NodeEndpoint(node.node_id, node.host, node.port, node.rack) for node in found if node is not None]
