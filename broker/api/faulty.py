"""Scripted faults as interceptors: they delay, drop or duplicate requests and responses, or change the handler's result.

Rules:
* A request that a fault rule delays is handled when the delay ends, even if its connection is closed, like a request that was late on the
  network.
* A delay ends by a timer of the broker (or gateway) or by a user's release, and at the latest when the broker stops.
* Later requests of the same connection wait until the delay ends, as behind any pending request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from copy import deepcopy
from functools import partial
from typing import Final

from ottla.broker.api.context import CloseConnection
from ottla.broker.api.pipeline import Call, Handle
from ottla.broker.api.reply import FinalResponse
from ottla.broker.api.routes import Answer
from ottla.broker.faults.engine import Faults
from ottla.broker.faults.responses import committed_in, corrupted, overwrite, records_in, refusal
from ottla.broker.faults.rules import FaultAction, FaultRule
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.codec import encode_response
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k79_share_acknowledge import ShareAcknowledgeResponse
from ottla.protocol.schema import Message, encode
from ottla.protocol.wire import Buffer

_DELAYED = frozenset({FaultAction.DELAY_REQUEST, FaultAction.HOLD_REQUEST})
_ANSWERED_LATE = frozenset({FaultAction.DELAY, FaultAction.HOLD_RESPONSE})
_SLOW = FaultAction.SLOW
_NOT_SEEN = frozenset({FaultAction.DROP_ACK, FaultAction.CUT_RESPONSE, FaultAction.SWALLOW, FaultAction.LATE_REQUEST})

_SHARE_REQUEST_ERRORS: Final = frozenset(
    {
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_SHARE_SESSION_EPOCH,
        ErrorCode.SHARE_SESSION_LIMIT_REACHED,
        ErrorCode.SHARE_SESSION_NOT_FOUND,
        ErrorCode.UNKNOWN_SERVER_ERROR,
        ErrorCode.UNSUPPORTED_VERSION,
    }
)
"""The errors that Kafka's response to ShareAcknowledge has at the top level, without partitions (KAFKA
ShareAcknowledgeRequest.getErrorResponse). Every other error is in the response's partitions, with NONE at the top level."""


class FaultInterceptors:
    """Applies fault rules to the requests of a broker or a gateway (a proxy). A fault rule is a scripted fault, with the requests for which
    it is to happen."""

    def __init__(self, faults: Faults) -> None:
        self._faults = faults

    def network_faults(self, call: Call, handle: Handle) -> Answer:
        """Call `handle` and return its response, as if the network were bad. The fault rules that match the request delay, cut or drop the
        request or its response. Raises CloseConnection if the client is to get no response, or only a part of it.
        """
        call.rules, call.candidates = self._faults.rules_hitting(call.subject), self._faults.candidates(call.subject)
        if not call.rules:
            return handle()
        actions = {rule.action for rule in call.rules}
        call.is_delayed = not actions.isdisjoint(_ANSWERED_LATE | {_SLOW})
        call.is_answered_fully = not call.is_delayed and actions.isdisjoint(_NOT_SEEN)
        late = _rule(call, FaultAction.LATE_REQUEST)
        if late is not None:
            self._faults.hold(late, f"request of {_describe(call)}", lambda: call.detach(self._delivered(call, handle, ())))
            raise CloseConnection("a scripted fault makes its request late")
        return self._delivered(call, handle, _DELAYED)

    def handler_faults(self, call: Call, handle: Handle) -> Answer:
        """Return the response of a broker that fails as the matching fault rules say: `handle` is not called, or is called twice, or its
        response is changed. Raises CloseConnection if a rule drops the request.
        """
        return self._handled(call, handle) if call.rules or call.candidates else handle()

    async def _delivered(self, call: Call, handle: Handle, delays: Iterable[FaultAction]) -> Message | None:
        await self._wait(call, delays, "request")
        await self._wait_for_transfer(call, lambda: call.size)
        response = await _awaited(handle())
        if response is not None:
            if _rule(call, FaultAction.SWALLOW) is not None:
                await self._parked()
            await self._wait(call, _ANSWERED_LATE, "response")
            await self._wait_for_transfer(call, partial(_size_of, call, response))
            cut = _rule(call, FaultAction.CUT_RESPONSE)
            if cut is not None:
                raise CloseConnection("a scripted fault cuts its response", FinalResponse([_first_bytes(call, response, cut.bytes)]))
        if _rule(call, FaultAction.DROP_ACK) is not None:
            raise CloseConnection("a scripted fault drops its acknowledgement")
        return response

    async def _handled(self, call: Call, handle: Handle) -> Message | None:
        if _rule(call, FaultAction.DROP_REQUEST) is not None:
            raise CloseConnection("a scripted fault drops its request")
        _expire_producers(call)
        error, stale = _rule(call, FaultAction.ERROR), _stale(call)
        response: Message | None
        if stale is not None:
            response = stale
        elif error is not None and error.code is not None:
            share = call.subject.api is ApiKey.SHARE_ACKNOWLEDGE
            response = await _share_refusal(call, handle, error.code) if share else _refusal(call, error.code)
        else:
            answers = [handle() for _ in range(1 if _rule(call, FaultAction.DUPLICATE) is None else 2)]
            response, *_ = [await _awaited(answer) for answer in answers]
        if response is not None:
            _store_for_stale(call, response)
            _change(call, response)
        return response

    async def _wait_for_transfer(self, call: Call, size: Callable[[], int]) -> None:
        """Wait as long as `size()` bytes take on a slow network. The rate is the field `bytes`, in bytes per second, of the matching fault
        rules with action SLOW.
        """
        for rule in call.rules:
            if rule.action is _SLOW and rule.bytes:
                await self._pause(call, size() * 1000 // rule.bytes)

    async def _wait(self, call: Call, actions: Iterable[FaultAction], what: str) -> None:
        for rule in call.rules:
            if rule.action not in actions:
                continue
            if rule.ms is not None:
                await self._pause(call, rule.ms)
            else:
                future = self._parked()
                self._faults.hold(rule, f"{what} of {_describe(call)}", partial(_resume, future))
                await future

    async def _pause(self, call: Call, ms: int) -> None:
        future = self._parked()
        call.carrier.timers.schedule(call.carrier.clock.mono_ms() + ms, partial(_resume, future))
        await future

    def _parked(self) -> asyncio.Future[None]:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._faults.waiting.add(future)
        future.add_done_callback(self._faults.waiting.discard)
        return future


def _resume(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


async def _awaited(answer: Answer) -> Message | None:
    return answer if answer is None or isinstance(answer, Message) else await answer


def _rule(call: Call, action: FaultAction) -> FaultRule | None:
    return next((rule for rule in call.rules if rule.action is action), None)


def _describe(call: Call) -> str:
    """Return a readable description of the request: API, client id, transactional ids, groups and the first three partitions."""
    subject = call.subject
    named = [*sorted(subject.transactional_ids), *sorted(subject.groups)]
    named += [topic if index is None else f"{topic}-{index}" for topic, index in subject.partitions[:3]]
    return " ".join([subject.api.name, f"of {subject.client_id or '?'}", *named])


def _change(call: Call, response: Message) -> None:
    for rule in call.rules:
        if rule.action is FaultAction.ERROR_AFTER and rule.code is not None:
            overwrite(response, rule.code, rule.wants, call.carrier.topic_name)
        elif rule.action is FaultAction.THROTTLE and hasattr(response, "throttle_time_ms"):
            response.throttle_time_ms = rule.ms
    for rule in call.candidates:
        if rule.action is FaultAction.CORRUPT:
            found = records_in(response, rule.wants, call.carrier.topic_name)
            if found is not None and rule.draw():
                found.records = corrupted(found.records)
                call.rules.append(rule)
        elif rule.action is FaultAction.REDELIVER:
            offsets = committed_in(response, rule.wants_group, rule.wants, call.carrier.topic_name)
            if offsets and rule.draw():
                for each in offsets:
                    each.committed_offset = max(0, each.committed_offset - (1 if rule.records is None else rule.records))
                call.rules.append(rule)


def _stale(call: Call) -> Message | None:
    """Return a copy of a stored response to an identical earlier request, or None. A response is used if a fault rule with action
    STALE_METADATA applies and has stored it less than the rule's `ms` milliseconds ago.
    """
    for rule in call.candidates:
        if rule.action is FaultAction.STALE_METADATA and rule.ms is not None:
            kept = rule.stored_responses.get(_key(call))
            if kept is not None and call.carrier.clock.mono_ms() - kept[0] < rule.ms and rule.draw():
                call.rules.append(rule)
                answer: Message = deepcopy(kept[1])
                return answer
    return None


def _store_for_stale(call: Call, response: Message) -> None:
    """Store a copy of the response, which `_stale` can return to a later identical request. Each fault rule with action STALE_METADATA that
    matches the request stores a copy, unless the rule was just applied to this request.
    """
    for rule in call.candidates:
        if rule.action is FaultAction.STALE_METADATA and rule not in call.rules:
            rule.store_response(_key(call), call.carrier.clock.mono_ms(), deepcopy(response))


def _key(call: Call) -> tuple[int, bytes]:
    version = call.request.header.api_version
    return version, encode(call.request.body, version)


def _expire_producers(call: Call) -> None:
    rules = [rule for rule in call.rules if rule.action is FaultAction.EXPIRE_PRODUCER]
    for topic, index in call.subject.partitions if rules else ():
        if any(rule.wants(topic, index) for rule in rules):
            call.carrier.forget_producers(topic, index)


def _refusal(call: Call, error: ErrorCode) -> Message | None:
    if call.subject.api is ApiKey.PRODUCE and call.request.body.acks == 0:
        return None
    response: Message = refusal(call.request.header.api_key, call.request.body, error)
    return response


async def _share_refusal(call: Call, handle: Handle, error: ErrorCode) -> Message | None:
    """Return the response to a ShareAcknowledge request with `error`, which is at the top level or in each partition, as in Kafka.

    An error in the partitions still advances the share session's epoch. So that the session epochs of client and broker stay equal,
    `handle` is then called with the request without its acknowledgements.
    """
    response: ShareAcknowledgeResponse = refusal(call.request.header.api_key, call.request.body, error)
    if error in _SHARE_REQUEST_ERRORS or not response.responses:
        response.responses = []
        return response
    call.request.body.topics = []
    handled = await _awaited(handle())
    if not isinstance(handled, ShareAcknowledgeResponse) or handled.error_code != ErrorCode.NONE:
        return handled
    response.error_code = ErrorCode.NONE
    return response


def _size_of(call: Call, response: Message) -> int:
    return sum(map(len, _encoded(call, response)))


def _encoded(call: Call, response: Message) -> list[Buffer]:
    header = call.request.header
    return encode_response(header.api_key, header.api_version, header.correlation_id, response)


def _first_bytes(call: Call, response: Message, count: int | None) -> bytes:
    whole = b"".join(_encoded(call, response))
    return whole[: len(whole) // 2 if count is None else count]
