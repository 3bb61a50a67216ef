from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ottla.broker.api import k47_offset_delete
from ottla.broker.api.context import CloseConnection, Context, Listener, Peer
from ottla.broker.api.dispatch import Dispatcher
from ottla.broker.api.large_requests import LargeRequests
from ottla.broker.api.reply import CLOSE, Reply
from ottla.broker.api.request_parts import SPLITS
from ottla.broker.api.routes import Route
from ottla.broker.core import limits
from ottla.broker.core.clock import VirtualClock
from ottla.broker.core.rejected import Rejected
from ottla.broker.core.timers import Timers
from ottla.broker.faults.engine import Faults
from ottla.broker.net.session import ByteBudget
from ottla.broker.runtime.upkeep.turns import Turns
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.codec import decode_response, encode_request
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.errors import TooManyElements
from ottla.protocol.messages.k00_produce import ProduceRequest
from ottla.protocol.messages.k08_offset_commit import OffsetCommitRequest, OffsetCommitRequestTopic, OffsetCommitResponse
from ottla.protocol.messages.k09_offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponseTopics,
)
from ottla.protocol.messages.k11_join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.protocol.messages.k12_heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.protocol.messages.k42_delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from ottla.protocol.messages.k47_offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from ottla.protocol.schema import Message

MANY = 20_000
KEY, VERSION = ApiKey.DELETE_GROUPS, 2


class WorkClock(VirtualClock):
    """A clock whose `spent_ns` advances by a millisecond with each reading."""

    __slots__ = ("looks",)

    def __init__(self) -> None:
        super().__init__()
        self.looks = 0

    def spent_ns(self) -> int:
        self.looks += 1
        return self.looks * 1_000_000


def peer() -> Peer:
    return Peer("127.0.0.1", "127.0.0.1", 9092, Listener("PLAINTEXT", "127.0.0.1", 9092))


def frame(message: Message, version: int) -> bytes:
    return b"".join(encode_request(message.API_KEY, version, 5, "me", message))[4:]


async def on_this_thread(work: Callable[[], Any]) -> Any:
    await asyncio.sleep(0)
    return work()


def dispatcher(handle: Callable[[Any, Any], Any], **more: object) -> Dispatcher:
    """Return a dispatcher of which every API has this handler; `more` are further services of the handler."""
    route = Route(0, 99, 0, lambda: handle)
    clock = WorkClock()
    services = SimpleNamespace(timers=Timers(), clock=clock, turns=Turns(clock), stop_at_once=print, **more)
    tested = Dispatcher(cast(Any, services), Faults(), dict.fromkeys(ApiKey, route), compute=on_this_thread)
    tested.budget = ByteBudget()
    return tested


def deleted(ctx: Context, request: DeleteGroupsRequest) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(results=[DeletableGroupResult(name, ErrorCode.NONE) for name in request.groups_names])


async def reply_of(tested: Dispatcher, message: Message, version: int, requester: Peer | None = None) -> Reply:
    found = tested.handle(requester or peer(), frame(message, version))
    assert isinstance(found, asyncio.Future)
    return cast(Reply, await found)


async def test_the_joined_response_is_in_the_order_of_the_request() -> None:
    names = [f"g{number}" for number in range(MANY)]
    reply = await reply_of(dispatcher(deleted), DeleteGroupsRequest(names), VERSION)
    assert isinstance(reply, list)
    correlation_id, response = decode_response(KEY, VERSION, b"".join(reply)[4:])
    assert correlation_id == 5
    assert [result.group_id for result in response.results] == names


async def test_other_work_runs_between_the_parts() -> None:
    handled: list[int] = []

    def handle(ctx: Context, request: DeleteGroupsRequest) -> DeleteGroupsResponse:
        handled.append(len(request.groups_names))
        return deleted(ctx, request)

    task = asyncio.ensure_future(reply_of(dispatcher(handle), DeleteGroupsRequest([str(number) for number in range(MANY)]), VERSION))
    most = 0
    while not task.done():
        before = sum(handled)
        await asyncio.sleep(0)
        most = max(most, sum(handled) - before)
    assert sum(handled) == MANY
    assert most <= limits.SLICE_MS * max(handled)


async def test_an_error_of_the_whole_response_ends_the_request() -> None:
    handled: list[OffsetDeleteRequest] = []

    def handle(ctx: Context, request: OffsetDeleteRequest) -> OffsetDeleteResponse:
        handled.append(request)
        return OffsetDeleteResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)

    topics = [OffsetDeleteRequestTopic("t", [OffsetDeleteRequestPartition(index) for index in range(MANY)])]
    reply = await reply_of(dispatcher(handle), OffsetDeleteRequest("g", topics), 0)
    assert isinstance(reply, list)
    assert decode_response(ApiKey.OFFSET_DELETE, 0, b"".join(reply)[4:])[1].error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert len(handled) == 1


@pytest.mark.parametrize("failing", [{0}, {1}, {3}, {0, 3}, {0, 1, 2, 3}])
async def test_a_group_of_which_one_part_fails_has_one_entry_with_the_error_and_no_topics(failing: set[int]) -> None:
    parts = 0

    def handle(ctx: Context, request: OffsetFetchRequest) -> OffsetFetchResponse:
        nonlocal parts
        fails, parts = parts in failing, parts + 1
        return OffsetFetchResponse(groups=[fetched(group, fails=fails) for group in request.groups])

    def fetched(group: OffsetFetchRequestGroup, *, fails: bool) -> OffsetFetchResponseGroup:
        if fails:
            return OffsetFetchResponseGroup(group.group_id, error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        topics = [OffsetFetchResponseTopics(topic.name, partitions=[]) for topic in group.topics or ()]
        return OffsetFetchResponseGroup(group.group_id, topics)

    def asked(group_id: str, count: int) -> OffsetFetchRequestGroup:
        topics = [OffsetFetchRequestTopics(f"{group_id}{'t' * 20}{number}", partition_indexes=[0]) for number in range(count)]
        return OffsetFetchRequestGroup(group_id, topics=topics)

    request = OffsetFetchRequest(groups=[asked("g", 80), asked("h", 1)])
    reply = await reply_of(dispatcher(handle), request, 9)
    assert isinstance(reply, list)
    assert parts == 4
    first, second = decode_response(ApiKey.OFFSET_FETCH, 9, b"".join(reply)[4:])[1].groups
    assert (first.group_id, first.error_code, first.topics) == ("g", ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, [])
    assert second.group_id == "h"
    assert (second.error_code, len(second.topics)) == ((ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, 0) if 3 in failing else (0, 1))


@pytest.mark.parametrize("error", [ErrorCode.NON_EMPTY_GROUP, ErrorCode.NOT_COORDINATOR])
async def test_offsets_that_earlier_parts_have_deleted_are_reported_as_deleted(error: ErrorCode) -> None:
    """An error for which clients repeat the request is the whole response's, because all offsets are deleted in the end."""
    deletions = 0

    def delete_offsets(group_id: str, topics: list[tuple[str, list[int]]]) -> list[tuple[str, ErrorCode]]:
        nonlocal deletions
        deletions += 1
        if deletions == 2:
            raise Rejected(error)
        return [(topic, ErrorCode.NONE) for topic, _ in topics]

    topic = SimpleNamespace(partitions=range(1_000))
    services = {
        "authorizer": None,
        "groups": SimpleNamespace(delete_offsets=delete_offsets),
        "topics": SimpleNamespace(topic=lambda name: topic),
    }
    tested = dispatcher(k47_offset_delete.handle, **services)
    partitions = [OffsetDeleteRequestPartition(index) for index in range(1_000)]
    reply = await reply_of(tested, OffsetDeleteRequest("g", [OffsetDeleteRequestTopic("t", partitions)]), 0)
    assert isinstance(reply, list)
    response = decode_response(ApiKey.OFFSET_DELETE, 0, b"".join(reply)[4:])[1]
    if error.retriable:
        assert (response.error_code, response.topics, deletions) == (error, [], 2)
        return
    codes = {one.partition_index: one.error_code for topic in response.topics for one in topic.partitions}
    failed = [index for index, code in codes.items() if code == error]
    assert (response.error_code, len(codes), set(codes.values())) == (ErrorCode.NONE, 1_000, {ErrorCode.NONE, error})
    assert failed == list(range(failed[0], 2 * failed[0]))


async def test_a_pending_part_is_awaited() -> None:
    async def handle(ctx: Context, request: DeleteGroupsRequest) -> DeleteGroupsResponse:
        await asyncio.sleep(0)
        return deleted(ctx, request)

    names = [f"g{number}" for number in range(MANY)]
    reply = await reply_of(dispatcher(handle), DeleteGroupsRequest(names), VERSION)
    assert isinstance(reply, list)
    assert len(decode_response(KEY, VERSION, b"".join(reply)[4:])[1].results) == MANY


async def test_parts_of_a_disconnected_client_are_not_handled() -> None:
    handled: list[int] = []
    requester = peer()

    def handle(ctx: Context, request: DeleteGroupsRequest) -> DeleteGroupsResponse:
        handled.append(len(request.groups_names))
        if len(handled) == 3:
            ctx.peer.closed()
        return deleted(ctx, request)

    names = [str(number) for number in range(MANY)]
    assert await reply_of(dispatcher(handle), DeleteGroupsRequest(names), VERSION, requester) is CLOSE
    assert len(handled) == 3
    assert not requester.on_closed


async def test_a_response_that_is_too_large_closes_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "LARGE_RESPONSE_BYTES", 10_000)
    names = [str(number) for number in range(MANY)]
    assert await reply_of(dispatcher(deleted), DeleteGroupsRequest(names), VERSION) is CLOSE


async def test_a_request_with_too_many_elements_for_one_step_is_rejected() -> None:
    def join(count: int) -> JoinGroupRequest:
        return JoinGroupRequest("g", protocols=[JoinGroupRequestProtocol(str(number)) for number in range(count)])

    tested = dispatcher(lambda ctx, request: pytest.fail("it is handled"))
    assert await reply_of(tested, join(MANY), 5) is CLOSE
    with pytest.raises(TooManyElements, match="more than 100 protocols"):  # so small that it is decoded on the loop
        tested.handle(peer(), frame(join(1_001), 5))


async def test_truncated_bytes_close_the_connection() -> None:
    tested = dispatcher(lambda ctx, request: pytest.fail("it is handled"))
    whole = frame(DeleteGroupsRequest([str(number) for number in range(MANY)]), VERSION)
    found = tested.handle(peer(), whole[:-1_000])
    assert await cast("asyncio.Future[Reply]", found) is CLOSE
    assert tested.budget is not None
    assert tested.budget.used == 0


async def test_decoded_requests_are_limited_and_waiting_ones_count_against_the_budget() -> None:
    clock, budget = WorkClock(), ByteBudget()
    large = LargeRequests(clock, Turns(clock), on_this_thread, budget)
    inside: list[str] = []
    may_end = asyncio.Event()

    async def request(name: str, size: int) -> None:
        async with large.admission(peer(), size, KEY):
            inside.append(name)
            await may_end.wait()

    half = limits.LARGE_REQUESTS_BYTES // 2
    tasks = [asyncio.ensure_future(request(name, size)) for name, size in [("a", half), ("b", half), ("c", 100 * half), ("d", 1)]]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert inside == ["a", "b"]
    assert budget.used == 102 * half + 1
    tasks[2].cancel()
    await asyncio.wait([tasks[2]])
    assert budget.used == 2 * half + 1
    may_end.set()
    await asyncio.gather(*tasks[:2], tasks[3])
    assert inside == ["a", "b", "d"]
    assert budget.used == 0


@pytest.mark.parametrize("in_parts", [False, True])
async def test_large_requests_that_wait_do_not_stop_others(in_parts: bool) -> None:
    may_end = asyncio.Event()
    handled: list[int] = []

    async def waiting(response: Message) -> Message:
        await may_end.wait()
        return response

    def handle(ctx: Context, request: Any) -> object:
        handled.append(ctx.peer.number)
        response = deleted(ctx, request) if in_parts else HeartbeatResponse()
        return response if ctx.peer.number == 3 else waiting(response)

    tested = dispatcher(handle)
    assert isinstance(tested.budget, ByteBudget)
    message = DeleteGroupsRequest([str(number) for number in range(100)]) if in_parts else HeartbeatRequest("g")
    padded = frame(message, VERSION) + bytes(limits.STRUCTURED_REQUEST_BYTES - 10_000)
    peers = [replace(peer(), number=number) for number in (1, 2, 3)]
    first, second, third = (cast("asyncio.Future[Reply]", tested.handle(each, padded)) for each in peers)
    assert isinstance(await third, list)
    assert set(handled) == {1, 2, 3}
    elements = 100 if in_parts else 0
    each_bytes = len(padded) + elements * limits.DECODED_ELEMENT_BYTES
    assert [each.waiting_bytes for each in peers] == [each_bytes, each_bytes, 0]
    assert tested.budget.used == 2 * each_bytes
    may_end.set()
    assert all(isinstance(reply, list) for reply in await asyncio.gather(first, second))
    assert (tested.budget.used, [each.waiting_bytes for each in peers]) == (0, [0, 0, 0])


async def test_a_large_request_may_be_decoded_while_cancelled_ones_waited() -> None:
    clock, budget = WorkClock(), ByteBudget()
    large = LargeRequests(clock, Turns(clock), on_this_thread, budget)
    waits = asyncio.Event()
    inside: list[Peer] = []

    async def request(requester: Peer, *, pending: bool) -> None:
        async with large.admission(requester, limits.LARGE_REQUESTS_BYTES, KEY) as admission:
            admission.elements = 1
            inside.append(requester)
            if pending:
                requester.begin_wait()
                requester.begin_wait()
            await waits.wait()

    peers = [peer() for _ in range(3)]
    tasks = [asyncio.ensure_future(request(each, pending=True)) for each in peers]
    for _ in range(5):
        await asyncio.sleep(0)
    each_bytes = limits.LARGE_REQUESTS_BYTES + limits.DECODED_ELEMENT_BYTES
    assert [each.waiting_bytes for each in peers] == [each_bytes] * 3
    assert budget.used == 3 * each_bytes
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    assert budget.used == 0
    inside.clear()
    tasks = [asyncio.ensure_future(request(each, pending=False)) for each in peers[:2]]
    for _ in range(5):
        await asyncio.sleep(0)
    assert inside == peers[:1]
    assert [each.waiting_bytes for each in peers] == [0, limits.LARGE_REQUESTS_BYTES, 0]
    waits.set()
    await asyncio.gather(*tasks)
    assert (inside, budget.used) == (peers[:2], 0)


@pytest.mark.parametrize("key", [ApiKey.FETCH, ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.PRODUCE, ApiKey.DELETE_RECORDS])
@pytest.mark.parametrize("closes_first", [False, True])
async def test_a_closed_connection_releases_its_pending_request_unless_it_must_be_handled_to_its_end(
    key: ApiKey, closes_first: bool
) -> None:
    clock, budget = WorkClock(), ByteBudget()
    large = LargeRequests(clock, Turns(clock), on_this_thread, budget)
    waits = asyncio.Event()
    requester = peer()

    async def request() -> None:
        async with large.admission(requester, 1_000, key):
            if closes_first:
                requester.closed()
            requester.begin_wait()
            await waits.wait()

    task = asyncio.ensure_future(request())
    await asyncio.sleep(0)
    requester.closed()
    ends = key not in {ApiKey.PRODUCE, ApiKey.DELETE_RECORDS}
    assert budget.used == requester.waiting_bytes == (0 if ends else 1_000)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert task.done() == ends
    waits.set()
    await asyncio.wait([task])
    assert task.cancelled() == ends
    assert (budget.used, requester.waiting_bytes, requester.on_closed) == (0, 0, {})


async def test_the_bytes_of_a_cancelled_request_are_freed_without_garbage_collection() -> None:
    class Frame(bytearray):
        """Bytes to which a weak reference is possible."""

    tested, requester = dispatcher(lambda ctx, request: asyncio.get_running_loop().create_future()), peer()
    received = Frame(frame(JoinGroupRequest("g"), 5) + bytes(limits.DECODED_AT_ONCE_BYTES))
    alive = weakref.ref(received)
    gc.disable()
    try:
        found = cast("asyncio.Future[Reply]", tested.handle(requester, received))
        del received
        for _ in range(5):
            await asyncio.sleep(0)
        assert requester.waiting_bytes
        requester.closed()
        await asyncio.wait([found])
        assert found.cancelled()
        del found
        await asyncio.sleep(0)
        assert alive() is None
    finally:
        gc.enable()


async def test_a_request_that_waits_undecoded_is_dropped_when_its_client_disconnects_unless_it_is_a_produce() -> None:
    handled: list[int] = []

    def handle(ctx: Context, request: Any) -> object:
        handled.append(ctx.api_key)
        return HeartbeatResponse() if ctx.api_key == ApiKey.HEARTBEAT else None

    tested = dispatcher(handle)
    assert isinstance(tested.budget, ByteBudget)
    heartbeat = frame(HeartbeatRequest("g"), 0) + bytes(limits.STRUCTURED_REQUEST_BYTES - 10_000)
    produce = frame(ProduceRequest(acks=0), 9) + bytes(limits.LARGE_REQUESTS_BYTES)
    inside = [cast("asyncio.Future[Reply]", tested.handle(peer(), heartbeat)) for _ in range(2)]
    closing, producer = peer(), peer()
    dropped, finished = (cast("asyncio.Future[Reply]", tested.handle(*one)) for one in ((closing, heartbeat), (producer, produce)))
    await asyncio.sleep(0)
    assert (closing.waiting_bytes, producer.waiting_bytes) == (len(heartbeat), 0)
    assert tested.budget.used == 3 * len(heartbeat) + len(produce)
    closing.closed()
    producer.closed()
    assert tested.budget.used == 2 * len(heartbeat) + len(produce)
    await asyncio.wait([*inside, dropped, finished])
    assert dropped.cancelled()
    assert handled == [ApiKey.HEARTBEAT, ApiKey.HEARTBEAT, ApiKey.PRODUCE]
    assert tested.budget.used == 0


@pytest.mark.parametrize("key", [ApiKey.DELETE_GROUPS, ApiKey.OFFSET_COMMIT])
async def test_only_some_requests_are_handled_after_their_client_has_disconnected(key: ApiKey) -> None:
    handled: list[int] = []

    def handle(ctx: Context, request: Any) -> Message:
        handled.append(len(request.topics) if key == ApiKey.OFFSET_COMMIT else len(request.groups_names))
        return OffsetCommitResponse() if key == ApiKey.OFFSET_COMMIT else deleted(ctx, request)

    names = [f"g{number}" for number in range(MANY)]
    commit = OffsetCommitRequest("g", topics=[OffsetCommitRequestTopic(name, partitions=[]) for name in names])
    tested, requester = dispatcher(handle), peer()
    message, version = (commit, 8) if key == ApiKey.OFFSET_COMMIT else (DeleteGroupsRequest(names), VERSION)
    found = tested.handle(requester, frame(message, version))
    requester.closed()
    await cast("asyncio.Future[Reply]", found)
    assert sum(handled) == (MANY if key == ApiKey.OFFSET_COMMIT else 0)


async def test_a_bug_in_a_large_request_closes_only_its_connection() -> None:
    def handle(ctx: Context, request: DeleteGroupsRequest) -> DeleteGroupsResponse:
        raise CloseConnection("no")

    assert await reply_of(dispatcher(handle), DeleteGroupsRequest([str(number) for number in range(MANY)]), VERSION) is CLOSE


def test_apis_decided_by_one_group_or_transaction_are_not_split() -> None:
    assert not {ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.CREATE_ACLS} & SPLITS.keys()
