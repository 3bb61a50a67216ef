"""ShareFetch (key 78), versions 1-2: acquires records for a share group's member, and acknowledges earlier ones (KIP-932).

Promises:
* The request's acknowledgements are applied before its fetch, so a record that is released here may be acquired again by this request. The
  response is sent when they are persisted and the fetch has `min_bytes` or has waited for `max_wait_ms`.
* A record is acquired by one member at a time, for group.share.record.lock.duration.ms (`acquisition_lock_timeout_ms`). The response
  contains whole batches; only the offsets in `acquired_records` are the member's.
* Partitions are read in the order of the share session, which each request rotates. Each gets an equal part of `max_bytes`.
* With share.isolation.level=read_committed, records of aborted transactions are archived and never delivered.
* Version 2 may ask for at most `max_records` (KIP-1206), and may renew acquisition locks; it then fetches nothing (KIP-1222).
* If there are too many share sessions, or their estimated memory is too large, the response is SHARE_SESSION_LIMIT_REACHED, after
  `max_wait_ms`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

from ottla.broker.api.context import Context, Peer
from ottla.broker.api.declaration import Api
from ottla.broker.api.deferred import transform
from ottla.broker.api.services import ShareGroupServices
from ottla.broker.api.share_requests import (
    RENEW_SINCE,
    Acknowledgements,
    acknowledge,
    check_member,
    endpoints,
    leader_of,
    topic_name,
    unreadable,
)
from ottla.broker.core.rejected import Rejected
from ottla.broker.runtime.share.share_fetch import FetchResult, Results, ShareFetch
from ottla.broker.runtime.upkeep.timer_driver import pause
from ottla.broker.share.sessions import FINAL_EPOCH, INITIAL_EPOCH, ShareSession, TopicPartition
from ottla.broker.storage.partition_log import Isolation
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k78_share_fetch import (
    AcquiredRecords,
    PartitionData,
    ShareFetchableTopicResponse,
    ShareFetchRequest,
    ShareFetchResponse,
)

API = Api(
    ShareFetchRequest,
    array_limits={
        "topics.partitions": 10_000,
        "topics.partitions.acknowledgement_batches": 20_000,
        "forgotten_topics_data.partitions": 10_000,
    },
)

_ACQUIRE_MODES = {0, 1}
_RECORD_LIMIT = 1
_SESSION = "share session"
"""The key, in the connection's `on_closed` callbacks, of the callback for the share session of the connection that has ended last. Together
with a group id and a member id it is the key of the callback that ends a session.
"""

Named = list[tuple[TopicPartition, str | None]]
"""Partitions (topic id and index), each with its topic's name; the name is None for an unknown topic id."""


@API.on_broker()
def handle(ctx: Context[ShareGroupServices], request: ShareFetchRequest) -> ShareFetchResponse | Awaitable[ShareFetchResponse]:
    """Apply the request's acknowledgements, then acquire and return records. Only a request that has to wait becomes a task."""
    try:
        group_id, member_id = check_member(ctx, request)
        _check_renewal(ctx, request)
        session, partitions = _session(ctx, request, group_id, member_id)
        acknowledged = acknowledge(ctx, request) if _acknowledges(request) else {}
        fetched = {} if _renews(ctx, request) else _fetch(ctx, request, session, partitions)
    except Rejected as rejected:
        response = ShareFetchResponse(error_code=rejected.code)
        return _later(ctx, request.max_wait_ms, response) if rejected.code is ErrorCode.SHARE_SESSION_LIMIT_REACHED else response
    respond = _Response(ctx, request, session).make
    if isinstance(fetched, dict) and isinstance(acknowledged, dict):
        return respond(fetched, acknowledged)
    return _respond_later(respond, fetched, acknowledged)


def _acknowledges(request: ShareFetchRequest) -> bool:
    return any(partition.acknowledgement_batches for topic in request.topics for partition in topic.partitions)


def _check_renewal(ctx: Context[ShareGroupServices], request: ShareFetchRequest) -> None:
    """Raise Rejected(INVALID_REQUEST) if a request that renews acquisition locks (KIP-1222) also asks for records."""
    if _renews(ctx, request) and (request.max_bytes or request.min_bytes or request.max_records or request.max_wait_ms):
        raise Rejected(ErrorCode.INVALID_REQUEST)


def _renews(ctx: Context[ShareGroupServices], request: ShareFetchRequest) -> bool:
    return ctx.version >= RENEW_SINCE and request.is_renew_ack


async def _later(ctx: Context[ShareGroupServices], wait_ms: int, response: ShareFetchResponse) -> ShareFetchResponse:
    """Wait `wait_ms`, so that a member that cannot get a share session does not retry at once, and return `response`. The wait is
    cancelled when the client's connection closes."""
    passed = pause(ctx.services.timers, ctx.services.clock, max(0, wait_ms))
    ctx.peer.on_closed[passed] = passed.cancel
    try:
        await passed
    finally:
        ctx.peer.on_closed.pop(passed, None)
    return response


# --- the session -----------------------------------------------------------------------------------------------------------------


def _session(ctx: Context[ShareGroupServices], request: ShareFetchRequest, group_id: str, member_id: str) -> tuple[ShareSession, Named]:
    """Begin, continue or end the share session, depending on the request's epoch. Return the session and the partitions to fetch, in order,
    with their topics' names (None for an unknown id). A session that ends has no partitions to fetch. Raises Rejected if the session cannot
    be created or does not exist, if the epoch is wrong, or if the session's first request has acknowledgements.
    """
    shares, epoch = ctx.services.share.partitions, request.share_session_epoch
    listed: Named = [
        (TopicPartition(topic.topic_id, partition.partition_index), topic_name(ctx, topic.topic_id))
        for topic in request.topics
        for partition in topic.partitions
    ]
    if epoch == INITIAL_EPOCH:
        if _acknowledges(request):
            raise Rejected(ErrorCode.INVALID_REQUEST)
        session = shares.sessions.begin(group_id, member_id, listed)
        _end_with_connection(ctx.peer, session, partial(shares.disconnected, session))
        return session, list(dict(listed).items())
    session = shares.sessions.check(group_id, member_id, epoch)
    if epoch == FINAL_EPOCH:
        return session, []
    forgotten = (TopicPartition(topic.topic_id, index) for topic in request.forgotten_topics_data for index in topic.partitions)
    shares.sessions.update(session, listed, forgotten)
    session.next_epoch()
    return session, _rotated([(key, cached.topic) for key, cached in session.partitions.items()], epoch)


def _end_with_connection(peer: Peer, session: ShareSession, disconnected: Callable[[], object]) -> None:
    """Call `disconnected` when the client's connection closes. A client has one session, but a connection may have those of many members,
    and all of them must end. Of sessions that end earlier, the connection only remembers the last one.
    """
    key = (_SESSION, session.group_id, session.member_id)

    def ended() -> None:
        peer.on_closed.pop(key, None)
        if not peer.is_closed:
            peer.on_closed[_SESSION] = disconnected

    session.on_end = ended
    peer.on_closed[key] = disconnected


def _rotated(partitions: Named, epoch: int) -> Named:
    """Return the partitions rotated by `epoch`. Each request of a share session thus begins with another partition, so that the first
    partitions cannot starve the later ones."""
    begin = epoch % len(partitions) if partitions else 0
    return partitions[begin:] + partitions[:begin]


# --- the fetch -------------------------------------------------------------------------------------------------------------------


def _fetch(
    ctx: Context[ShareGroupServices], request: ShareFetchRequest, session: ShareSession, partitions: Named
) -> Results | Awaitable[Results]:
    services = ctx.services
    error_of = unreadable(ctx, (name for _, name in partitions))
    refused: Results = {}
    readable: list[TopicPartition] = []
    for key, name in partitions:
        error = ErrorCode.UNKNOWN_TOPIC_ID if name is None else error_of(name, key)
        if error is None:
            readable.append(key)
        else:
            refused[key] = FetchResult(error)
    if not readable:
        return refused
    if request.share_acquire_mode not in _ACQUIRE_MODES:
        raise Rejected(ErrorCode.UNKNOWN_SERVER_ERROR)
    max_bytes = max(0, min(request.max_bytes, services.settings.fetch_max_bytes))
    read_committed = services.share.partitions.settings_of(session.group_id).read_committed
    share_fetch = ShareFetch(
        group_id=session.group_id,
        member_id=session.member_id,
        partitions=readable,
        max_wait_ms=request.max_wait_ms,
        min_bytes=min(request.min_bytes, max_bytes),
        max_bytes=max_bytes,
        max_records=request.max_records,
        batch_size=request.batch_size,
        record_limit=request.share_acquire_mode == _RECORD_LIMIT,
        isolation=Isolation.READ_COMMITTED if read_committed else Isolation.READ_UNCOMMITTED,
    )
    return transform(services.share.fetches.fetch(share_fetch, ctx.peer), lambda results: results | refused)


# --- the response ----------------------------------------------------------------------------------------------------------------


async def _respond_later(
    respond: Callable[[Results, Acknowledgements], ShareFetchResponse],
    fetched: Results | Awaitable[Results],
    acknowledged: Acknowledgements | Awaitable[Acknowledgements],
) -> ShareFetchResponse:
    results = fetched if isinstance(fetched, dict) else await fetched
    return respond(results, acknowledged if isinstance(acknowledged, dict) else await acknowledged)


class _Response:
    """Builds the response to one ShareFetch request. The partitions in it depend on the request's share session."""

    def __init__(self, ctx: Context[ShareGroupServices], request: ShareFetchRequest, session: ShareSession) -> None:
        self._ctx = ctx
        self._request = request
        self._session = session
        self._epoch = session.epoch
        self._leaders: list[int] = []

    def make(self, fetched: Results, acknowledged: Acknowledgements) -> ShareFetchResponse:
        """Return the response, with the results of all acknowledgements, and with fetch results. A fetch result is omitted if it has
        neither records nor an error, unless the partition is new in the session or its previous result was an error.

        The response to a session's first request has all fetch results. The session's last request also releases the records that the
        member still holds.
        """
        shares, session, error = self._ctx.services.share.partitions, self._session, ErrorCode.NONE
        if self._request.share_session_epoch == FINAL_EPOCH:
            shares.release(session)
        elif self._request.share_session_epoch != INITIAL_EPOCH:
            if session.epoch != self._epoch:  # another request has used the session meanwhile
                fetched, error = {}, ErrorCode.INVALID_SHARE_SESSION_EPOCH
            fetched = {key: result for key, result in fetched.items() if _is_sent(session, key, result)}
        topics: dict[bytes, ShareFetchableTopicResponse] = {}
        for key in fetched | acknowledged:
            data = PartitionData(key.partition, records=b"")
            if key in fetched:
                self._fill(key, data, fetched[key])
            if key in acknowledged:
                data.acknowledge_error_code = acknowledged[key].error
                data.acknowledge_error_message = acknowledged[key].message
            topics.setdefault(key.topic_id, ShareFetchableTopicResponse(key.topic_id)).partitions.append(data)
        return ShareFetchResponse(
            error_code=error,
            acquisition_lock_timeout_ms=shares.settings_of(session.group_id).record_lock_duration_ms,
            responses=list(topics.values()),
            node_endpoints=endpoints(self._ctx, self._leaders),
        )

    def _fill(self, key: TopicPartition, data: PartitionData, result: FetchResult) -> None:
        data.error_code, data.error_message, data.records = result.error, result.message, result.records
        data.acquired_records = [AcquiredRecords(*acquired) for acquired in result.acquired]
        leader = leader_of(self._ctx, key, result.error)
        if leader is not None:
            data.current_leader = leader
            self._leaders.append(leader.leader_id)
        if result.records:
            sent = self._ctx.services.traffic.to_consumers.by_topic
            sent[key.topic_id] = sent.get(key.topic_id, 0) + len(result.records)


def _is_sent(session: ShareSession, key: TopicPartition, result: FetchResult) -> bool:
    return session.maybe_update_response_data(key, has_records=bool(result.records), has_error=result.error is not ErrorCode.NONE)
