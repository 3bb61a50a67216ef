from __future__ import annotations

import asyncio
import logging
import warnings
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ottla.broker.api.context import CloseConnection, Context, Listener, Peer
from ottla.broker.api.dispatch import Dispatcher
from ottla.broker.api.reply import CLOSE, Reply
from ottla.broker.api.routes import Route
from ottla.broker.api.services import Services
from ottla.broker.core import limits
from ottla.broker.core.clock import VirtualClock
from ottla.broker.core.timers import Timers
from ottla.broker.faults.engine import Faults
from ottla.broker.faults.rules import parse_rule
from ottla.broker.storage.errors import FsyncFailed
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.codec import decode_response, encode_request
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.errors import FrameTooLarge, MalformedMessage, UnsupportedVersion
from ottla.protocol.messages.k00_produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from ottla.protocol.messages.k12_heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.protocol.messages.k18_api_versions import ApiVersionsRequest
from ottla.protocol.records.batch import HEADER_BYTES
from ottla.protocol.schema import Message

PEER = Peer("127.0.0.1", "127.0.0.1", 9092, Listener("PLAINTEXT", "127.0.0.1", 9092))


def frame(message: Message, version: int, correlation_id: int = 5) -> bytes:
    return b"".join(encode_request(message.API_KEY, version, correlation_id, "me", message))[4:]


def dispatcher(
    handle: Callable[[Context, Any], Any],
    *faults: str,
    stops: list[BaseException] | None = None,
    timers: Timers | None = None,
    observed: bool = False,
) -> Dispatcher:
    """Return a dispatcher that handles every API with `handle`. `faults` are fault rules, `stops` collects errors that stop the broker; the
    clock stands at 0."""
    route = Route(0, 99, 0, lambda: handle)
    services = cast(
        Services,
        SimpleNamespace(
            stop_at_once=(stops if stops is not None else []).append, timers=Timers() if timers is None else timers, clock=VirtualClock()
        ),
    )
    script = Faults(parse_rule(rule) for rule in faults)
    if observed:
        script.observe(lambda exchange: None)
    return Dispatcher(services, script, dict.fromkeys(ApiKey, route))


def decoded(reply: object, api_key: ApiKey = ApiKey.HEARTBEAT, version: int = 4) -> tuple[int, Any]:
    assert isinstance(reply, list)
    return decode_response(api_key, version, b"".join(reply)[4:])


def test_a_handler_gets_version_client_and_message_and_its_response_has_the_correlation_id() -> None:
    seen: list[object] = []

    def handle(ctx: Context, request: HeartbeatRequest) -> HeartbeatResponse:
        seen.extend([ctx.version, ctx.client_id, ctx.peer, request.group_id])
        return HeartbeatResponse(error_code=25)

    reply = dispatcher(handle).handle(PEER, frame(HeartbeatRequest("g"), 4))
    assert seen == [4, "me", PEER, "g"]
    correlation_id, response = decoded(reply)
    assert (correlation_id, response.error_code) == (5, 25)


def test_a_handler_without_response_gives_none() -> None:
    assert dispatcher(lambda ctx, request: None).handle(PEER, frame(ProduceRequest(), 9)) is None


def test_a_large_request_other_than_produce_is_rejected_undecoded() -> None:
    padding = bytes(limits.STRUCTURED_REQUEST_BYTES)
    with pytest.raises(FrameTooLarge):
        dispatcher(lambda ctx, request: HeartbeatResponse()).handle(PEER, frame(HeartbeatRequest("g"), 4) + padding)
    produce = frame(ProduceRequest(topic_data=[TopicProduceData("t", partition_data=[PartitionProduceData(0, padding)])]), 9)
    assert dispatcher(lambda ctx, request: ProduceResponse()).handle(PEER, produce) is not None


async def test_an_awaitable_becomes_a_task_with_the_reply() -> None:
    async def handle(ctx: Context, request: HeartbeatRequest) -> HeartbeatResponse:
        await asyncio.sleep(0)
        return HeartbeatResponse(error_code=27)

    task = dispatcher(handle).handle(PEER, frame(HeartbeatRequest("g"), 4))
    assert isinstance(task, asyncio.Task)
    assert decoded(await task)[1].error_code == 27


@pytest.mark.parametrize("key", [ApiKey.HEARTBEAT, ApiKey.PRODUCE])
def test_a_bug_is_logged_once_and_answered_if_the_response_has_an_error_field(key: ApiKey, caplog: pytest.LogCaptureFixture) -> None:
    def handle(ctx: Context, request: object) -> None:
        raise ZeroDivisionError("a bug")

    message: Message = HeartbeatRequest("g") if key is ApiKey.HEARTBEAT else ProduceRequest()
    with caplog.at_level(logging.ERROR):
        reply = dispatcher(handle).handle(PEER, frame(message, 4))
    assert [record.exc_info is not None for record in caplog.records] == [True]
    if key is ApiKey.HEARTBEAT:
        assert decoded(reply)[1].error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    else:
        assert reply is CLOSE


async def test_a_bug_after_a_wait_is_answered() -> None:
    async def handle(ctx: Context, request: object) -> HeartbeatResponse:
        await asyncio.sleep(0)
        raise ZeroDivisionError("a bug")

    reply = await cast("asyncio.Task[Reply]", dispatcher(handle).handle(PEER, frame(HeartbeatRequest("g"), 4)))
    assert decoded(reply)[1].error_code == ErrorCode.UNKNOWN_SERVER_ERROR


def test_a_handler_can_close_the_connection() -> None:
    def handle(ctx: Context, request: object) -> None:
        raise CloseConnection("acks=0")

    assert dispatcher(handle).handle(PEER, frame(ProduceRequest(), 9)) is CLOSE


def test_a_failed_fsync_stops_the_broker_without_a_response() -> None:
    stops: list[BaseException] = []

    def handle(ctx: Context, request: object) -> None:
        raise FsyncFailed("no")

    assert dispatcher(handle, stops=stops).handle(PEER, frame(HeartbeatRequest("g"), 4)) is CLOSE
    assert [type(error) for error in stops] == [FsyncFailed]


def test_an_unknown_key_or_version_is_a_protocol_error() -> None:
    with pytest.raises(UnsupportedVersion):
        Dispatcher(cast(Services, None), Faults(), {}).handle(PEER, frame(HeartbeatRequest("g"), 4))
    with pytest.raises(UnsupportedVersion):
        Dispatcher(cast(Services, None), Faults(), {ApiKey.HEARTBEAT: Route(0, 3, 0, lambda: cast(Any, None))}).handle(
            PEER, frame(HeartbeatRequest("g"), 4)
        )


def test_a_truncated_body_is_a_protocol_error() -> None:
    with pytest.raises(MalformedMessage):
        dispatcher(lambda ctx, request: None).handle(PEER, frame(HeartbeatRequest("group"), 4)[:-3])


def test_a_newer_api_versions_request_is_answered_as_version_0() -> None:
    sent = bytearray(frame(ApiVersionsRequest("a", "1"), 4))
    sent[2:4] = (9).to_bytes(2, "big")
    reply = dispatcher(lambda ctx, request: None).handle(PEER, bytes(sent))
    assert decoded(reply, ApiKey.API_VERSIONS, 0)[1].error_code == ErrorCode.UNSUPPORTED_VERSION


async def test_a_dropped_acknowledgement_closes_the_connection_after_the_request_is_handled() -> None:
    handled: list[object] = []

    def handle(ctx: Context, request: object) -> HeartbeatResponse:
        handled.append(request)
        return HeartbeatResponse()

    reply = dispatcher(handle, "drop-ack:api=Heartbeat,share=1").handle(PEER, frame(HeartbeatRequest("g"), 4))
    assert await cast("asyncio.Future[Reply]", reply) is CLOSE
    assert len(handled) == 1


async def test_drain_waits_for_responses_and_cancels_late_ones() -> None:
    released = asyncio.Event()

    async def handle(ctx: Context, request: HeartbeatRequest) -> HeartbeatResponse:
        if request.group_id == "slow":
            await asyncio.Event().wait()
        await released.wait()
        return HeartbeatResponse()

    timers = Timers()
    tested = dispatcher(handle, timers=timers)
    quick = tested.handle(PEER, frame(HeartbeatRequest("quick"), 4))
    asyncio.get_running_loop().call_soon(released.set)
    assert await tested.drain(5_000) == 0
    assert cast("asyncio.Task[Reply]", quick).done()
    tested.handle(PEER, frame(HeartbeatRequest("slow"), 4))
    draining = asyncio.ensure_future(tested.drain(10))
    await asyncio.sleep(0)
    assert timers.run_due(10) == 1
    assert await draining == 1


@pytest.mark.parametrize("observed", [False, True])
async def test_a_request_that_is_cancelled_before_its_first_turn_leaves_no_coroutine_unawaited(observed: bool) -> None:
    def handle(ctx: Context, request: object) -> Awaitable[HeartbeatResponse]:
        async def later() -> HeartbeatResponse:
            return HeartbeatResponse()

        return later()

    tested = dispatcher(handle, observed=observed)
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always")
        reply = cast("asyncio.Task[Reply]", tested.handle(PEER, frame(HeartbeatRequest("g"), 4)))
        tested.abort()
        await asyncio.wait([reply])
    assert reply.cancelled()
    assert not given


async def test_drain_drops_requests_that_a_removed_rule_delays() -> None:
    faults = Faults([parse_rule("delay:ms=60000")])
    route = Route(0, 99, 0, lambda: lambda ctx, request: HeartbeatResponse())
    tested = Dispatcher(cast(Services, SimpleNamespace(timers=Timers(), clock=VirtualClock())), faults, {ApiKey.HEARTBEAT: route})
    delayed = cast("asyncio.Task[Reply]", tested.handle(PEER, frame(HeartbeatRequest("g"), 4)))
    while not faults.waiting:  # noqa: ASYNC110 # a set has no event
        await asyncio.sleep(0)
    faults.reset()
    assert not faults.active
    assert await tested.drain(5_000) == 0
    assert delayed.cancelled()
    assert not faults.waiting


class NoTopics(SimpleNamespace):
    """A stand-in for the broker's partitions without any topic; if `broken`, the lookup of a topic raises LookupError."""

    def by_name(self, name: str) -> None:
        if self.broken:
            raise LookupError("a bug")


def with_fast_path(*faults: str, broken: bool = False, observed: bool = False) -> Dispatcher:
    script = Faults(parse_rule(rule) for rule in faults)
    if observed:
        script.observe(lambda exchange: None)
    services = SimpleNamespace(
        partitions=NoTopics(broken=broken),
        txn_verification=None,
        settings=SimpleNamespace(socket_request_max_bytes=1 << 20),
        authorizer=None,
        clock=VirtualClock(),
    )
    return Dispatcher(cast(Services, services), script)


PRODUCE = ProduceRequest(acks=1, topic_data=[TopicProduceData("t", partition_data=[PartitionProduceData(0, bytes(HEADER_BYTES))])])
ORDINARY = b"".join(encode_request(ApiKey.PRODUCE, 9, 5, "me", PRODUCE))


def test_the_fast_path_is_off_with_faults_or_observers(caplog: pytest.LogCaptureFixture) -> None:
    assert with_fast_path(broken=True).try_fast_path(PEER, ORDINARY, 0) == (CLOSE, len(ORDINARY))  # the fast path was tried
    assert with_fast_path("drop-ack:api=Fetch", broken=True).try_fast_path(PEER, ORDINARY, 0) is None
    assert with_fast_path(broken=True, observed=True).try_fast_path(PEER, ORDINARY, 0) is None
    assert len(caplog.records) == 1


def test_only_a_produce_uses_the_fast_path() -> None:
    assert with_fast_path().try_fast_path(PEER, ORDINARY, 0) is None  # there is no such topic
    assert with_fast_path(broken=True).try_fast_path(PEER, b"\0\0\0\x0a" + frame(HeartbeatRequest("g"), 4), 0) is None
    assert with_fast_path(broken=True).try_fast_path(PEER, ORDINARY[:5], 0) is None
