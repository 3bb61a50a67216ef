"""An answer that may already be there: it is turned into a response now, or when it comes, and only then at the price of a task."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def when_ready(answer: T | asyncio.Future[T], respond: Callable[[T], R]) -> R | Awaitable[R]:
    """`respond(answer)`, at once where there is an answer already."""
    return _later(answer, respond) if isinstance(answer, asyncio.Future) else respond(answer)


async def _later(answer: asyncio.Future[T], respond: Callable[[T], R]) -> R:
    return respond(await answer)
