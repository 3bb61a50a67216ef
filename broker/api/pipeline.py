"""Interceptors, which observe requests or apply scripted faults to them (`api/faulty`). They are called around a request's handler in a
broker, or around a request to the cluster in a gateway (a proxy in front of a cluster). This module is imported only if interceptors are
active.

Rules:
- An interceptor is called like a handler and returns what a handler returns: a response, an awaitable of one, or None. The carrier awaits
  and encodes the response, and handles exceptions.
- The carrier is a broker, which handles the request, or a gateway, which sends it to a cluster. Interceptors work the same with both.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Protocol

from ottla.broker.api.routes import Answer
from ottla.broker.core.clock import Clock
from ottla.broker.core.timers import Timers
from ottla.broker.faults.engine import Exchange, Faults
from ottla.broker.faults.rules import FaultRule
from ottla.broker.faults.subject import Subject, subject_of
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.codec import Request
from ottla.protocol.schema import Message


class Carrier(Protocol):
    """The parts of a broker, or of a gateway (a proxy in front of a cluster), that interceptors of requests use."""

    @property
    def clock(self) -> Clock: ...

    @property
    def timers(self) -> Timers: ...

    def topic_name(self, topic_id: bytes) -> str | None:
        """Return the name of a topic, or None for an unknown id."""

    def forget_producers(self, topic: str, partition: int | None) -> None:
        """Delete the producer state of a partition or, if `partition` is None, of all partitions of the topic. A gateway does nothing."""


@dataclass(slots=True)
class Call:
    """One request, with the fault rules that apply to it. `detach` awaits a response in the background; it is used if the client's
    connection is closed before the response is ready.
    """

    carrier: Carrier
    request: Request
    connection: int
    size: int
    """The size of the request's frame in bytes."""
    detach: Callable[[Awaitable[Message | None]], object]
    subject: Subject = field(init=False)
    rules: list[FaultRule] = field(default_factory=list)
    """The fault rules that take effect on this request. (A rule that matches a request need not take effect: for example, it may be limited
    to a number of times.)
    """
    candidates: list[FaultRule] = field(default_factory=list)
    """The fault rules that match the request and may change its response. Such a rule takes effect only if the response contains what the
    rule changes, for example records."""
    is_answered_fully: bool = True
    """Whether the client will get the whole response, without a delay: no fault rule delays, cuts or drops it."""
    is_delayed: bool = False
    """Whether fault rules will delay the request or the response."""
    response_bytes: int | None = None
    """The size in bytes of the encoded response, if the carrier is a gateway, which receives the response encoded; observers use it instead
    of encoding the response again. Otherwise None.
    """

    def __post_init__(self) -> None:
        header, name_of = self.request.header, self.carrier.topic_name
        self.subject = subject_of(ApiKey(header.api_key), header.client_id, self.connection, self.request.body, name_of)


Handle = Callable[[], Answer]
"""A function that calls the next interceptor or, after the last one, the request's handler. It returns a response, an awaitable of one, or
None, and raises what the handler raises.
"""
Interceptor = Callable[[Call, Handle], Answer]


def observed(faults: Faults, call: Call, handle: Handle) -> Answer:
    """Call `handle` and return its result. Also report the request to the observers, with its response (None if the handler failed), before
    fault rules delay the response.
    """
    number, began_ns = next(faults.numbers), call.carrier.clock.spent_ns()

    def notify(response: Message | None) -> None:
        answered, request = response is not None, call.request
        names = tuple(rule.name for rule in call.rules)
        now_ms = call.carrier.clock.now_ms()
        seen, late = answered and call.is_answered_fully, answered and call.is_delayed
        version, took_ns = request.header.api_version, call.carrier.clock.spent_ns() - began_ns
        response_bytes = None if call.rules else call.response_bytes  # a rule may have changed the response
        sizes_and_time = (call.size, took_ns, response_bytes)
        faults.notify_observers(Exchange(call.subject, now_ms, version, request.body, response, seen, names, late, number, *sizes_and_time))

    async def notified_later(answer: Awaitable[Message | None]) -> Message | None:
        try:
            response = await answer
        except Exception:
            notify(None)
            raise
        notify(response)
        return response

    try:
        answer = handle()
    except Exception:
        notify(None)
        raise
    if isinstance(answer, Awaitable):
        return notified_later(answer)
    notify(answer)
    return answer
