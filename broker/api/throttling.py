"""Enforcement of client quotas: usage is measured when a request is answered, the response has the throttle time, and the connection is
paused for that time (KIP-219).

Rules:
* While no client quota is configured, dispatchers do not use this module, and it is not imported.
* A Produce is charged by its bytes, even if it is rejected; a consumer's Fetch by its response's bytes. A Fetch that exceeds the quota is
  answered without records and not charged. As in Kafka, a Fetch response has at most the bytes that the quota allows in all but one of the
  `quota.window.num` windows.
* Every request is charged by the time that it takes on the event loop until it is answered or waits; 100 % is all of the loop's time. Three
  kinds of requests are not charged: those of other brokers and controllers, Produce with acks=0, and requests before authentication (in
  Kafka, SaslServerAuthenticator answers the latter itself).
* If the controller or the handler has put a longer throttle time into the response, that is kept (`RequestHandlerHelper`).

Source: KAFKA KafkaApis (handleProduceRequest, handleFetchRequest), RequestHandlerHelper.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from ottla.broker.api.api_table import APIS
from ottla.broker.api.context import Context, Peer
from ottla.broker.api.routes import Answer
from ottla.broker.api.services import NodeServices
from ottla.broker.core.clock import Clock
from ottla.broker.core.settings import BrokerSettings
from ottla.broker.quotas.clients import NANOS_TO_PERCENT, Mutations
from ottla.broker.quotas.quotas import Quotas
from ottla.broker.quotas.rates import Windows, rounded
from ottla.broker.runtime.replicas.fetch_sessions import FetchSessions
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.codec import Request, encode_response
from ottla.protocol.messages.k01_fetch import FetchRequest, FetchResponse
from ottla.protocol.messages.k78_share_fetch import ShareFetchRequest, ShareFetchResponse
from ottla.protocol.schema import Message

_OLD_HEADER_BYTES: Final = 4
_HEADER_BYTES: Final = 5
"""The size of a response header, which does not count against the consumer's byte quota. The response's 4-byte size prefix does count."""
_FETCHES: Final = frozenset({ApiKey.FETCH, ApiKey.SHARE_FETCH})
_NOT_THROTTLED: Final = frozenset(api.key for api in APIS if not api.throttled)


class Throttling:
    """Applies client quotas to the requests of all connections. `sessions` are the fetch sessions of a broker; it is None on a controller,
    which has none."""

    def __init__(self, quotas: Quotas, clock: Clock, sessions: FetchSessions | None) -> None:
        self._quotas, self._clock, self._sessions = quotas, clock, sessions

    def around(self, ctx: Context[NodeServices], request: Request, size: int, handle: Callable[[], Answer]) -> Answer:
        """Call the handler, charge the request to the client's quotas, and return the response with the client's throttle time. `size` is
        the request frame's size in bytes.
        """
        key = request.header.api_key
        if key == ApiKey.FETCH and (self._sessions is None or _of_follower(ctx, request.body)):
            return handle()
        if key in _FETCHES:
            self._limit(ctx, request.body)
        if key in _NOT_THROTTLED or ctx.peer.must_authenticate:
            return handle()
        begun_ns = self._clock.spent_ns()
        answer = handle()
        spent_ns = self._clock.spent_ns() - begun_ns
        if isinstance(answer, Awaitable):
            return self._later(ctx, request, size, spent_ns, answer)
        return self._throttled(ctx, request, size, spent_ns, answer)

    def produced(self, peer: Peer, client_id: str, size: int, spent_ns: int) -> int:
        """Charge a Produce that the fast path has handled, and pause its connection; return the throttle time in milliseconds."""
        user, now_ms = peer.principal.name, self._clock.mono_ms()
        wait_ms = max(self._of_time(user, client_id, spent_ns, now_ms), self._of_produced(user, client_id, size, now_ms))
        if wait_ms:
            peer.throttle(wait_ms)
        return wait_ms

    def _of_time(self, user: str, client_id: str, spent_ns: int, now_ms: int) -> int:
        quota = self._quotas.request
        return quota.count_throttled(quota.record(user, client_id, spent_ns * NANOS_TO_PERCENT, now_ms)) if quota else 0

    def _of_produced(self, user: str, client_id: str, size: int, now_ms: int) -> int:
        quota = self._quotas.produce
        return quota.count_throttled(quota.record(user, client_id, size, now_ms)) if quota else 0

    async def _later(
        self, ctx: Context[NodeServices], request: Request, size: int, spent_ns: int, answer: Awaitable[Message | None]
    ) -> Message | None:
        response = await answer
        return self._throttled(ctx, request, size, spent_ns + ctx.spent_ns, response)

    def _throttled(
        self, ctx: Context[NodeServices], request: Request, size: int, spent_ns: int, response: Message | None
    ) -> Message | None:
        key, quotas, now_ms = request.header.api_key, self._quotas, self._clock.mono_ms()
        user, client_id = ctx.peer.principal.name, ctx.client_id or ""
        given_ms = wait_ms = getattr(response, "throttle_time_ms", 0)
        if key != ApiKey.PRODUCE or request.body.acks != 0:
            wait_ms = max(wait_ms, self._of_time(user, client_id, spent_ns, now_ms))
        if key == ApiKey.PRODUCE:
            wait_ms = max(wait_ms, self._of_produced(user, client_id, size, now_ms))
        elif isinstance(response, FetchResponse | ShareFetchResponse) and quotas.fetch:
            written = sum(map(len, encode_response(key, ctx.version, 0, response)))
            response_bytes = written - (_HEADER_BYTES if ctx.version >= response.FLEXIBLE_SINCE else _OLD_HEADER_BYTES)
            wait_ms = max(wait_ms, quotas.fetch.count_throttled(quotas.fetch.record(user, client_id, response_bytes, now_ms)))
            if wait_ms:
                quotas.fetch.unrecord(user, client_id, response_bytes, now_ms)
        if not wait_ms:
            return response
        if isinstance(response, FetchResponse):
            response = self._without_records(response)
        elif isinstance(response, ShareFetchResponse):
            _remove_acquired(response)
        if wait_ms != given_ms and response is not None and hasattr(response, "throttle_time_ms"):
            response.throttle_time_ms = wait_ms
        ctx.peer.throttle(wait_ms)
        return response

    def _limit(self, ctx: Context[NodeServices], request: FetchRequest | ShareFetchRequest) -> None:
        max_bytes = self._quotas.fetch.max_unthrottled_usage(ctx.peer.principal.name, ctx.client_id or "", self._clock.mono_ms())
        request.max_bytes = min(request.max_bytes, rounded(max_bytes))

    def _without_records(self, response: FetchResponse) -> FetchResponse:
        """Return an empty response to a Fetch in place of `response`, because the client has exceeded its quota. If `response` belongs to
        an existing fetch session, the session continues and its next response has the records; a session that `response` would have begun
        is discarded.
        """
        assert self._sessions is not None
        kept = self._sessions.unsent(response.session_id)
        return FetchResponse(session_id=response.session_id if kept else 0)


def _remove_acquired(response: ShareFetchResponse) -> None:
    """Remove the records from a ShareFetch response, but not the results of acknowledgements. The records stay acquired until their
    acquisition locks expire, as in Kafka.
    """
    for topic in response.responses:
        for partition in topic.partitions:
            partition.records, partition.acquired_records = b"", []


def _of_follower(ctx: Context[NodeServices], request: FetchRequest) -> bool:
    return (request.replica_state.replica_id if ctx.version >= 15 else request.replica_id) >= 0


def make_quotas(settings: BrokerSettings) -> Quotas:
    """Return a `Quotas` object that has no limits yet. It measures usage over the windows that `quota.window.…` and
    `controller.quota.window.…` configure."""
    return Quotas(
        Windows(settings.quota_window_num, settings.quota_window_size_seconds * 1_000),
        Windows(settings.controller_quota_window_num, settings.controller_quota_window_size_seconds * 1_000),
    )


def mutations(ctx: Context[NodeServices], quotas: Quotas, *, strict: bool) -> Mutations:
    """Return a `Mutations`, which charges the partitions that one request creates or deletes to its client's controller mutation quota
    (KIP-599). With `strict`, a request beyond the quota is rejected."""
    mono_ms = ctx.services.clock.mono_ms
    return quotas.mutation.of_request(ctx.peer.principal.name, ctx.client_id or "", strict=strict, mono_ms=mono_ms)
