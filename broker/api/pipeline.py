"""Interceptors around handlers: observers and scripted faults (`api/faulty`). Imported only if there are any.

Rule: an interceptor is called like a handler and returns what a handler returns: a response, an awaitable of one, or None. Only the
dispatcher catches exceptions, waits and encodes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from ottla.broker.api.context import Context
from ottla.broker.api.routes import Answer
from ottla.broker.api.services import PartitionServices
from ottla.broker.faults.engine import Exchange, Faults
from ottla.broker.faults.rules import FaultRule
from ottla.broker.faults.subject import Subject, subject_of
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.codec import Request
from ottla.protocol.schema import Message


@dataclass(slots=True)
class Call:
    """One request with its interceptors' state. `detach` continues with a response for which the connection no longer waits."""

    context: Context[PartitionServices]
    request: Request
    detach: Callable[[Awaitable[Message | None]], object]
    subject: Subject = field(init=False)
    rules: list[FaultRule] = field(default_factory=list)
    """The fault rules that match the request."""
    seen: bool = True
    """Whether a response will be sent completely and at once."""
    late: bool = False
    """Whether a response will be delayed."""

    def __post_init__(self) -> None:
        header, context = self.request.header, self.context
        self.subject = subject_of(ApiKey(header.api_key), context.client_id, context.peer.number, self.request.body, self.topic_name)

    def topic_name(self, topic_id: bytes) -> str | None:
        """Return the name of a topic, or None for an unknown id."""
        found = self.context.services.partitions.by_topic_id(topic_id)
        return None if found is None else found.name


Handle = Callable[[], Answer]
"""The rest of the chain: returns a response, an awaitable of it, or None; raises what the handler raises."""
Interceptor = Callable[[Call, Handle], Answer]


def intercepted(call: Call, handle: Handle, interceptors: Sequence[Interceptor]) -> Answer:
    """Call `handle` with `interceptors` around it, the first one outermost."""
    for interceptor in reversed(interceptors):
        handle = partial(interceptor, call, handle)
    return handle()


def observed(faults: Faults, call: Call, handle: Handle) -> Answer:
    """Report the handler's result to the observers, before a response is delayed."""
    number = next(faults.numbers)

    def tell(response: Message | None) -> None:
        answered, context = response is not None, call.context
        names = tuple(rule.name for rule in call.rules)
        now_ms = context.services.clock.now_ms()
        seen, late = answered and call.seen, answered and call.late
        faults.told(Exchange(call.subject, now_ms, context.version, call.request.body, response, seen, names, late, number))

    async def told_later(answer: Awaitable[Message | None]) -> Message | None:
        try:
            response = await answer
        except Exception:
            tell(None)
            raise
        tell(response)
        return response

    try:
        answer = handle()
    except Exception:
        tell(None)
        raise
    if isinstance(answer, Awaitable):
        return told_later(answer)
    tell(answer)
    return answer
