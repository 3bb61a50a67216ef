"""Share fetches: read, acquire, and wait for records (Kafka's DelayedShareFetch, ShareFetchUtils).

Rules:
* A fetch waits until the partitions from which it may acquire have `min_bytes`, counted from the next offset to fetch of each partition; at
  the deadline it acquires the available records. A share partition that is loading, or at its limit of record locks, counts as empty. An
  error ends the wait if the log could not be read or no partition is left.
* A change of a partition (an append, another leader) or of a share partition (an acknowledgement, an expired lock) resumes the fetch. It
  resumes through a future, so that one attempt covers all changes of an event loop turn.
* A waiting fetch reads no records; it compares byte positions (Kafka's isMinBytesSatisfied).
* Reading and acquiring the records of one partition happen in one turn of the event loop. A fetch of many partitions or batches lets other
  requests run between two partitions; the share partition skips records that other members have acquired meanwhile.
* A log is read only as far as the member may acquire records: `max_records` and the record locks that are left limit them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from ottla.broker.core import limits
from ottla.broker.core.rejected import Rejected
from ottla.broker.core.timers import Timers
from ottla.broker.runtime.share.share_partitions import SharePartitionInUse, SharePartitionManager
from ottla.broker.runtime.upkeep.turns import Turns
from ottla.broker.share.aborted import aborted_batches
from ottla.broker.share.acquisition import Acquisition, Fetched, acquire
from ottla.broker.share.persister import SharePartitionKey
from ottla.broker.share.sessions import TopicPartition
from ottla.broker.share.share_partition import AcquiredRecords
from ottla.broker.storage.partition_log import Isolation
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.records.batch import BatchHeader, split_batches

_FIRST_READ_BYTES: Final = 128 * limits.KIB
"""The bytes that a share fetch first reads of a partition. If they hold too few records, four times as many bytes are read, and so on."""

_AT_ONCE: Final = 50
"""The number of partitions that a large share fetch examines before other requests are served."""

BATCHES_AT_ONCE: Final = 1_000
"""The number of batches after which a share fetch lets other requests run, before it reads the next partition: 3 ms at 3 us each. A
partition counts as 20 batches. A fetch of 500 partitions with small batches could otherwise read 800,000 batches at once.
"""
_PARTITION_AS_BATCHES: Final = 20

Buffer = bytes | memoryview


class ShareFetchClient(Protocol):
    """The client that sent a share fetch."""

    on_closed: dict[object, Callable[[], object]]
    """Functions that are called when the client's connection is closed. The mapping is replaced then."""
    is_closed: bool
    """Whether the client's connection was closed."""


@dataclass(frozen=True, slots=True)
class ShareFetch:
    """The parameters of a ShareFetch request of a share group's member. `partitions` are in the order in which they are read."""

    group_id: str
    member_id: str
    partitions: Sequence[TopicPartition]
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    max_records: int
    batch_size: int
    record_limit: bool
    isolation: Isolation


@dataclass(frozen=True, slots=True)
class FetchResult:
    """The result of a share fetch for one partition: an error, or the acquired records with the batches that contain them."""

    error: ErrorCode = ErrorCode.NONE
    message: str | None = None
    records: Buffer = b""
    acquired: Sequence[AcquiredRecords] = ()


Results = dict[TopicPartition, FetchResult]
EMPTY: Final = FetchResult()


class _Chunk(NamedTuple):
    """The data that a share fetch may read of one partition: at most `bytes_max` bytes from `offset` on, the partition's next offset to
    fetch."""

    key: TopicPartition
    shared: SharePartitionInUse
    offset: int
    bytes_max: int


class _Batches(NamedTuple):
    """The batches that were read of one partition: their bytes, their positions in these bytes with their headers, and the aborted
    transactions among them as (producer id, first offset)."""

    records: bytes
    headers: list[tuple[int, BatchHeader]]
    aborted: list[tuple[int, int]]


class _Attempt:
    """The available data in one pass over the partitions of a share fetch. One fetch may need several attempts, because it waits for more
    data.
    """

    __slots__ = ("bytes", "chunks", "is_enough")

    def __init__(self) -> None:
        self.chunks: list[_Chunk] = []
        self.bytes = 0
        self.is_enough = False
        """Whether the fetch must respond now: enough bytes are available, or there is another reason, such as an error."""


class _Fetch:
    """A share fetch in progress: the share partitions that it reads (`in_use`), and the errors of partitions that it does not read any
    more."""

    __slots__ = ("client", "deadline", "errors", "in_use", "request")

    def __init__(self, request: ShareFetch, deadline: int, client: ShareFetchClient) -> None:
        self.request = request
        self.deadline = deadline
        self.client = client
        self.in_use: dict[TopicPartition, SharePartitionInUse] = {}
        self.errors: Results = {}

    def fail(self, key: TopicPartition, error: Rejected) -> None:
        """Stop reading a partition, and put `error` into the response as the partition's result."""
        self.in_use.pop(key, None)
        self.errors[key] = FetchResult(error.code, error.message or None)


class ShareFetches:
    """Executes share fetches, and holds the fetches that wait for records (a purgatory, as in Kafka)."""

    def __init__(self, shares: SharePartitionManager, timers: Timers, turns: Turns) -> None:
        self._shares = shares
        self._timers = timers
        self._turns = turns
        self._waiting: dict[asyncio.Future[bool], None] = {}

    @property
    def waiting(self) -> int:
        """The number of share fetches that wait for records."""
        return len(self._waiting)

    def release_all(self) -> None:
        """Complete every waiting fetch with the records that are available, because the broker is shutting down."""
        for future in list(self._waiting):
            _resolve(future, changed=False)

    def fetch(self, request: ShareFetch, client: ShareFetchClient) -> Results | Awaitable[Results]:
        """Return the results by partition, or an awaitable of the results if the fetch has to wait. The wait is cancelled when the
        connection of `client` is closed.
        """
        if not request.partitions or request.max_records == 0 or request.max_bytes == 0:
            return {}
        fetch = _Fetch(request, self._shares.clock.mono_ms() + request.max_wait_ms, client)
        for key in request.partitions:
            try:
                fetch.in_use[key] = self._shares.get(SharePartitionKey(request.group_id, *key))
            except Rejected as error:
                fetch.fail(key, error.without_traceback())
        if not fetch.in_use:
            return fetch.errors
        if len(fetch.in_use) > limits.FETCHED_AT_ONCE:
            return self._fetch_slowly(fetch)
        attempt = self._examine(fetch)
        if attempt.is_enough or request.max_wait_ms <= 0:
            return self._acquire(fetch, attempt)
        return self._wait(fetch, self._park(fetch))

    async def _wait(self, fetch: _Fetch, waiting: asyncio.Future[bool]) -> Results:
        """Repeat the fetch after each change of its partitions, until it has read enough or its deadline has passed. A closed connection
        cancels the wait.
        """
        while True:
            changed = await waiting
            attempt = self._examine(fetch)
            if attempt.is_enough or not changed:
                results = self._acquire(fetch, attempt)
                return results if isinstance(results, dict) else await results
            waiting = self._park(fetch)

    async def _fetch_slowly(self, fetch: _Fetch) -> Results:
        """Execute a fetch of more than FETCHED_AT_ONCE partitions, over several turns of the event loop. If a partition changes meanwhile,
        all are read again.
        """
        while True:
            waiting = self._park(fetch)
            try:
                attempt = await self._examine_slowly(fetch)
                if attempt.is_enough or self._shares.clock.mono_ms() >= fetch.deadline:
                    results = self._acquire(fetch, attempt)
                    return results if isinstance(results, dict) else await results
                await waiting
            finally:
                waiting.cancel()

    # --- waiting -----------------------------------------------------------------------------------------------------------------

    def _park(self, fetch: _Fetch) -> asyncio.Future[bool]:
        """Return a future that completes with True after a change of one of the fetch's partitions or share partitions, and with False at
        the fetch's deadline.
        """
        future: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        watched = list(fetch.in_use.values())
        timer = self._timers.schedule(fetch.deadline, lambda: _resolve(future, changed=False))
        for shared in watched:
            shared.waiting[future] = lambda: _resolve(future, changed=True)
            shared.partition.watchers[future] = lambda size: _resolve(future, changed=True) if size >= 0 else None
        self._waiting[future] = None
        fetch.client.on_closed[future] = future.cancel

        def ended(_: object) -> None:
            timer.cancel()
            fetch.client.on_closed.pop(future, None)
            del self._waiting[future]
            for shared in watched:
                shared.waiting.pop(future, None)
                shared.partition.watchers.pop(future, None)

        future.add_done_callback(ended)
        return future

    # --- available data ----------------------------------------------------------------------------------------------------------

    def _examine(self, fetch: _Fetch) -> _Attempt:
        attempt = _Attempt()
        acquirable = self._acquirable(fetch)
        self._examine_some(fetch, attempt, acquirable, len(acquirable))
        return _judged(fetch, attempt)

    async def _examine_slowly(self, fetch: _Fetch) -> _Attempt:
        attempt = _Attempt()
        acquirable = self._acquirable(fetch)
        for begin in range(0, len(acquirable), _AT_ONCE):
            await self._turns.wait_for_turn()
            self._examine_some(fetch, attempt, acquirable[begin : begin + _AT_ONCE], len(acquirable))
        return _judged(fetch, attempt)

    def _acquirable(self, fetch: _Fetch) -> list[TopicPartition]:
        for key, shared in list(fetch.in_use.items()):
            if shared.failure is not None:
                fetch.fail(key, shared.failure)
        return [key for key, shared in fetch.in_use.items() if shared.loaded and shared.state.can_acquire]

    def _examine_some(self, fetch: _Fetch, attempt: _Attempt, keys: Sequence[TopicPartition], sharing: int) -> None:
        """Add the available data of the partitions `keys` to `attempt`, at most 1/`sharing` of the response's maximum bytes for each.
        `sharing` is the number of all partitions from which this fetch may acquire records.
        """
        for key in keys:
            try:
                self._examine_one(fetch, attempt, key, max(1, fetch.request.max_bytes // sharing))
            except Rejected as error:
                self._fence(fetch, key, error)
                attempt.is_enough = True

    def _examine_one(self, fetch: _Fetch, attempt: _Attempt, key: TopicPartition, bytes_max: int) -> None:
        shared, isolation = fetch.in_use[key], fetch.request.isolation
        log, offset = shared.partition.log, shared.state.next_fetch_offset()
        shared.partition.replica.check_leads()
        bound, available = log.visible_end_offset(isolation), 0
        if log.log_start_offset <= offset < bound:
            probe = log.read(offset, 0, isolation=isolation)
            available = probe.available_bytes
            attempt.is_enough = attempt.is_enough or probe.on_older_segment
        elif offset != bound:
            attempt.is_enough = True
        available = min(available, bytes_max, limits.FETCH_PARTITION_READ_BYTES)
        attempt.chunks.append(_Chunk(key, shared, offset, available))
        attempt.bytes += available

    def _fence(self, fetch: _Fetch, key: TopicPartition, error: Rejected) -> None:
        self._shares.fence(fetch.in_use[key], error)
        fetch.fail(key, error.without_traceback())

    # --- reading and acquiring ---------------------------------------------------------------------------------------------------

    def _acquire(self, fetch: _Fetch, attempt: _Attempt) -> Results | Awaitable[Results]:
        """Acquire records from all partitions of `attempt`. Return the results, or an awaitable of them if this takes several turns of the
        event loop. When the client's connection is closed, the awaitable acquires no further records and raises CancelledError. No record
        is acquired if the connection is closed already: the member's records were released, and these would stay locked.
        """
        if fetch.client.is_closed:
            return fetch.errors
        steps = self._acquiring(fetch, attempt)
        try:
            next(steps)
        except StopIteration as end:
            results: Results = end.value
            return results
        closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        fetch.client.on_closed[closed] = closed.cancel
        return self._acquire_in_turns(fetch, steps, closed)

    async def _acquire_in_turns(self, fetch: _Fetch, steps: Iterator[None], closed: asyncio.Future[None]) -> Results:
        try:
            while True:
                await self._turns.wait_for_turn()
                if closed.cancelled():
                    raise asyncio.CancelledError
                next(steps)
        except StopIteration as end:
            results: Results = end.value
            return results
        finally:
            fetch.client.on_closed.pop(closed, None)

    def _acquiring(self, fetch: _Fetch, attempt: _Attempt) -> Generator[None, None, Results]:
        """Read and acquire the records of one partition after the other, and return the results. Yield when other requests should run."""
        request, results, left = fetch.request, fetch.errors, fetch.request.max_records
        has_read, budget = False, BATCHES_AT_ONCE
        for chunk in attempt.chunks:
            if budget <= 0:
                yield
                budget = BATCHES_AT_ONCE
            shared = chunk.shared
            if chunk.key in results or shared.failure is not None:
                continue
            results[chunk.key] = EMPTY
            if chunk.offset < shared.partition.log.log_start_offset:
                shared.state.advance_to_log_start(shared.partition.log.log_start_offset)
                continue
            if left <= 0 or not chunk.bytes_max:
                continue
            try:
                shared.partition.replica.check_leads()  # the leader may have changed since the last turn
                read = _read(request, chunk, left, min_one_batch=not has_read)
            except Rejected as error:
                self._fence(fetch, chunk.key, error)
                continue
            has_read = has_read or bool(read.records)
            budget -= len(read.headers) + _PARTITION_AS_BATCHES
            acquisition = Acquisition(request.member_id, left, request.batch_size, request.record_limit, self._shares.clock.mono_ms())
            batches = [Fetched(header.base_offset, header.last_offset) for _, header in read.headers]
            aborted = aborted_batches(read.records, read.headers, read.aborted) if read.aborted else ()
            acquired = acquire(shared.state, acquisition, chunk.offset, batches, aborted)
            if acquired:
                left -= sum(part.record_count for part in acquired)
                self._shares.watch_locks(shared)
                results[chunk.key] = FetchResult(records=_slice(read, acquired), acquired=acquired)
        return results


def _judged(fetch: _Fetch, attempt: _Attempt) -> _Attempt:
    has_enough_bytes = bool(attempt.chunks) and attempt.bytes >= fetch.request.min_bytes
    attempt.is_enough = attempt.is_enough or has_enough_bytes or not fetch.in_use
    return attempt


def _read(request: ShareFetch, chunk: _Chunk, max_records: int, *, min_one_batch: bool) -> _Batches:
    """Read the batches of `chunk` from which the member may acquire records, at most `max_records`. Raises Rejected."""
    log, state = chunk.shared.partition.log, chunk.shared.state
    last = max(chunk.offset, state.end_offset) + min(max_records, max(0, state.locks_left))
    size, parsed = min(chunk.bytes_max, _FIRST_READ_BYTES), 0
    headers: list[tuple[int, BatchHeader]] = []
    while True:
        read = log.read(chunk.offset, size, isolation=request.isolation, min_one_batch=min_one_batch)
        for position, header in split_batches(memoryview(read.records)[parsed:]):
            headers.append((parsed + position, header))
            if header.last_offset >= last:
                return _Batches(read.records, headers, read.aborted)
        if size >= chunk.bytes_max:
            return _Batches(read.records, headers, read.aborted)
        size = min(chunk.bytes_max, 4 * size)
        parsed = headers[-1][0] + headers[-1][1].size_bytes if headers else 0


def _slice(read: _Batches, acquired: Sequence[AcquiredRecords]) -> Buffer:
    """Return those batches of `read` that contain acquired records, with all batches in between."""
    begin = end = 0
    for position, header in read.headers:
        if header.base_offset <= acquired[0].first_offset:
            begin = position
        if header.base_offset > acquired[-1].last_offset:
            break
        end = position + header.size_bytes
    return memoryview(read.records)[begin:end]


def _resolve(future: asyncio.Future[bool], *, changed: bool) -> None:
    if not future.done():
        future.set_result(changed)
