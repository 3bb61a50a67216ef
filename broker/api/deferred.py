"""Results that may already be available: a response is made at once or later, and a task is created only if it is made later."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from ottla.broker.core.rejected import Rejected

T = TypeVar("T")
R = TypeVar("R")


def answered(ask: Callable[[], T | asyncio.Future[T]], respond: Callable[[T], R], refuse: Callable[[Rejected], R]) -> R | Awaitable[R]:
    """Call `ask`, and return the response that `respond` makes from its result, or `refuse` from its Rejected. Return an awaitable of the
    response if `ask` returned a future.

    A Rejected is handled in the same way whether `ask` or its future raises it, such as for a write that was pending when another broker
    became leader.
    """
    try:
        answer = ask()
    except Rejected as rejected:
        return refuse(rejected)
    return _later(answer, respond, refuse) if isinstance(answer, asyncio.Future) else respond(answer)


async def _later(answer: asyncio.Future[T], respond: Callable[[T], R], refuse: Callable[[Rejected], R]) -> R:
    try:
        known = await answer
    except Rejected as rejected:
        return refuse(rejected)
    return respond(known)


def transform(answer: T | Awaitable[T], change: Callable[[T], R]) -> R | Awaitable[R]:
    """Return `change` of `answer` or, if `answer` is an awaitable, an awaitable that applies `change` to its result."""
    return _changed(answer, change) if isinstance(answer, Awaitable) else change(answer)


async def _changed(answer: Awaitable[T], change: Callable[[T], R]) -> R:
    return change(await answer)


def all_answered(answers: Sequence[T | Awaitable[T]], respond: Callable[[list[T]], R]) -> R | Awaitable[R]:
    """Return `respond` of the list of all answers, in order. If some of them are awaitables, return an awaitable that waits for their
    results first.
    """
    ready = [answer for answer in answers if not isinstance(answer, Awaitable)]
    return respond(ready) if len(ready) == len(answers) else _all_later(answers, respond)


async def _all_later(answers: Sequence[T | Awaitable[T]], respond: Callable[[list[T]], R]) -> R:
    late = iter(await asyncio.gather(*[answer for answer in answers if isinstance(answer, Awaitable)]))
    return respond([next(late) if isinstance(answer, Awaitable) else answer for answer in answers])
