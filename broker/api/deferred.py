"""Makes responses from results that may be pending. A result that is already available gives the response at once, without a task."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from ottla.broker.core.rejected import Rejected

T = TypeVar("T")
R = TypeVar("R")


def respond_when_ready(
    ask: Callable[[], T | asyncio.Future[T]], respond: Callable[[T], R], refuse: Callable[[Rejected], R]
) -> R | Awaitable[R]:
    """Call `ask` and return the response that `respond` makes from its result. If `ask` returns a future, return an awaitable of the
    response.

    If `ask` or its future raises Rejected, `refuse` makes the response instead. For example, the future raises it if another broker becomes
    the leader while a write is pending.
    """
    try:
        result = ask()
    except Rejected as rejected:
        return refuse(rejected)
    return _later(result, respond, refuse) if isinstance(result, asyncio.Future) else respond(result)


async def _later(result: asyncio.Future[T], respond: Callable[[T], R], refuse: Callable[[Rejected], R]) -> R:
    try:
        known = await result
    except Rejected as rejected:
        return refuse(rejected)
    return respond(known)


def transform(result: T | Awaitable[T], change: Callable[[T], R]) -> R | Awaitable[R]:
    """Return `change(result)`. If `result` is an awaitable, return an awaitable that waits for it and applies `change` to its result."""
    return _changed(result, change) if isinstance(result, Awaitable) else change(result)


async def _changed(result: Awaitable[T], change: Callable[[T], R]) -> R:
    return change(await result)


def respond_when_all_ready(results: Sequence[T | Awaitable[T]], respond: Callable[[list[T]], R]) -> R | Awaitable[R]:
    """Call `respond` with the list of all results, in order, and return what it returns. If some results are awaitables, return an
    awaitable that first waits for them.
    """
    ready = [result for result in results if not isinstance(result, Awaitable)]
    return respond(ready) if len(ready) == len(results) else _all_later(results, respond)


async def _all_later(results: Sequence[T | Awaitable[T]], respond: Callable[[list[T]], R]) -> R:
    late = iter(await asyncio.gather(*[result for result in results if isinstance(result, Awaitable)]))
    return respond([next(late) if isinstance(result, Awaitable) else result for result in results])
