"""A request on a broker with scripted faults: the same handlers, with what the rules say before and after them.

Rules: a held request is handled when it is released even if its connection is gone, as a request that was late on the network; what waits
here does so by the broker's timers or for a release, and is dropped when the broker stops. What its connection sent behind it waits in the
session, as behind any request that is not answered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from broker.api.reply import CLOSE, Buffer, LastWords, Reply
from broker.faults.answers import overwrite, refusal
from broker.faults.engine import Exchange, Faults
from broker.faults.rules import FaultAction, FaultRule
from broker.faults.subject import Subject, subject_of
from protocol.api_keys import ApiKey
from protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from broker.api.context import Context
    from broker.api.routes import Route
    from protocol.codec import Request

_DELAYED = frozenset({FaultAction.DELAY_REQUEST, FaultAction.HOLD_REQUEST})
_ANSWERED_LATE = frozenset({FaultAction.DELAY, FaultAction.HOLD_RESPONSE})
_NOT_SEEN = frozenset({FaultAction.DROP_ACK, FaultAction.CUT_RESPONSE, FaultAction.SWALLOW, FaultAction.LATE_REQUEST})


@dataclass(slots=True)
class _Case:
    """One request and the rules that hit it."""

    context: Context
    request: Request
    route: Route
    subject: Subject
    rules: list[FaultRule]
    number: int = 0

    def rule(self, action: FaultAction) -> FaultRule | None:
        """The first rule of this action, if any."""
        return next((rule for rule in self.rules if rule.action is action), None)

    @property
    def what(self) -> str:
        """For people: which request this is."""
        named = [*sorted(self.subject.transactional_ids), *sorted(self.subject.groups)]
        named += [topic if index is None else f"{topic}-{index}" for topic, index in self.subject.partitions[:3]]
        return " ".join([self.subject.api.name, f"of {self.subject.client_id or '?'}", *named])


Encode = Callable[[Any, "Request"], Reply]
"""A response as bytes."""
Guard = Callable[["Request", Exception], Reply]
"""What is answered for an exception of a handler; raises none but what ends the process."""


class FaultyPath:
    """Serves requests while `faults` is active. `later` makes a task that the dispatcher owns."""

    def __init__(
        self, faults: Faults, encode: Encode, guard: Guard, later: Callable[[Coroutine[Any, Any, Reply]], asyncio.Task[Reply]]
    ) -> None:
        self._faults = faults
        self._encode = encode
        self._guard = guard
        self._later = later
        self._parked: set[asyncio.Future[Any]] = set()

    def serve(self, context: Context, request: Request, route: Route) -> Reply | asyncio.Future[Reply]:
        """The reply to one request, or the future that will have it."""
        api, connection = ApiKey(request.header.api_key), context.peer.number
        subject = subject_of(api, context.client_id, connection, request.body, lambda topic_id: _name_of(context, topic_id))
        case = _Case(context, request, route, subject, self._faults.met_by(subject))
        late = case.rule(FaultAction.LATE_REQUEST)
        if late is not None:
            self._faults.hold(late, f"request of {case.what}", lambda: self._later(self._handle_after(case, [])))
            return CLOSE
        delays = [rule for rule in case.rules if rule.action in _DELAYED]
        return self._later(self._handle_after(case, delays)) if delays else self._handle(case)

    def stop(self) -> None:
        """Drop all that waits."""
        for future in list(self._parked):
            future.cancel()

    async def _handle_after(self, case: _Case, delays: list[FaultRule]) -> Reply:
        for rule in delays:
            await self._wait(case, rule, "request")
        reply = self._handle(case)
        return await reply if isinstance(reply, asyncio.Future) else reply

    def _handle(self, case: _Case) -> Reply | asyncio.Future[Reply]:
        case.number = next(self._faults.numbers)
        if case.rule(FaultAction.DROP_REQUEST) is not None:
            self._tell(case, None, seen=False)
            return CLOSE
        if case.rule(FaultAction.EXPIRE_PRODUCER) is not None:
            self._expire_producers(case)
        error = case.rule(FaultAction.ERROR)
        try:
            if error is not None and error.code is not None:
                return self._after(case, _refusal(case, error.code))
            answer = case.route.handle(case.context, case.request.body)
            again = case.route.handle(case.context, case.request.body) if case.rule(FaultAction.DUPLICATE) is not None else None
            if isinstance(answer, Awaitable) or isinstance(again, Awaitable):
                return self._later(self._finish(case, answer, again))
            return self._after(case, answer)
        except Exception as bug:  # noqa: BLE001 # handed to the dispatcher's own catch-all
            return self._guarded(case, bug)

    async def _finish(self, case: _Case, *answers: Any) -> Reply:
        try:
            first, *_ = [await answer if isinstance(answer, Awaitable) else answer for answer in answers]
            reply = self._after(case, first)
        except Exception as bug:  # noqa: BLE001 # handed to the dispatcher's own catch-all
            return self._guarded(case, bug)
        return await reply if isinstance(reply, asyncio.Future) else reply

    def _guarded(self, case: _Case, error: Exception) -> Reply:
        self._tell(case, None, seen=False)
        return self._guard(case.request, error)

    def _after(self, case: _Case, response: Any) -> Reply | asyncio.Future[Reply]:
        if response is None:
            self._tell(case, None, seen=False)
            return None if case.rule(FaultAction.DROP_ACK) is None else CLOSE
        self._change(case, response)
        waits = [rule for rule in case.rules if rule.action in _ANSWERED_LATE]
        seen = not waits and not any(rule.action in _NOT_SEEN for rule in case.rules)
        self._tell(case, response, seen=seen, late=bool(waits))
        if case.rule(FaultAction.SWALLOW) is not None:
            return self._park()
        reply: Reply = CLOSE if case.rule(FaultAction.DROP_ACK) is not None else self._encode(response, case.request)
        cut = case.rule(FaultAction.CUT_RESPONSE)
        if cut is not None and isinstance(reply, list):
            reply = LastWords([_first_bytes(reply, cut.bytes)])
        return self._later(self._answer_late(case, waits, reply)) if waits else reply

    def _change(self, case: _Case, response: Any) -> None:
        for rule in case.rules:
            if rule.action is FaultAction.ERROR_AFTER and rule.code is not None:
                overwrite(response, rule.code, rule.wants, lambda topic_id: _name_of(case.context, topic_id))
            elif rule.action is FaultAction.THROTTLE and hasattr(response, "throttle_time_ms"):
                response.throttle_time_ms = rule.ms

    async def _answer_late(self, case: _Case, rules: list[FaultRule], reply: Reply) -> Reply:
        for rule in rules:
            await self._wait(case, rule, "response")
        return reply

    async def _wait(self, case: _Case, rule: FaultRule, what: str) -> None:
        future = self._park()

        def go_on() -> None:
            if not future.done():
                future.set_result(None)

        if rule.ms is not None:
            services = case.context.services
            services.timers.schedule(services.clock.mono_ms() + rule.ms, go_on)
        else:
            self._faults.hold(rule, f"{what} of {case.what}", go_on)
        await future

    def _park(self) -> asyncio.Future[Any]:
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._parked.add(future)
        self._faults.active_until(future)
        future.add_done_callback(self._parked.discard)
        return future

    def _tell(self, case: _Case, response: Any, *, seen: bool, late: bool = False) -> None:
        if self._faults.observers:
            context, names = case.context, tuple(rule.name for rule in case.rules)
            now_ms = context.services.clock.now_ms()
            told = Exchange(case.subject, now_ms, context.version, case.request.body, response, seen, names, late, case.number)
            self._faults.told(told)

    def _expire_producers(self, case: _Case) -> None:
        rules = [rule for rule in case.rules if rule.action is FaultAction.EXPIRE_PRODUCER]
        for topic, index in case.subject.partitions:
            found = case.context.services.partitions.by_name(topic)
            if found is None or not any(rule.wants(topic, index) for rule in rules):
                continue
            for partition in found.partitions.values() if index is None else filter(None, [found.partitions.get(index)]):
                partition.forget_producers()


def _refusal(case: _Case, error: ErrorCode) -> Any:
    if case.subject.api is ApiKey.PRODUCE and case.request.body.acks == 0:
        return None
    return refusal(case.request.header.api_key, case.request.body, error)


def _name_of(context: Context, topic_id: bytes) -> str | None:
    found = context.services.partitions.by_topic_id(topic_id)
    return None if found is None else found.name


def _first_bytes(reply: list[Buffer], count: int | None) -> bytes:
    whole = b"".join(reply)
    return whole[: len(whole) // 2 if count is None else count]
