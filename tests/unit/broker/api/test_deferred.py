from __future__ import annotations

import asyncio
from collections.abc import Awaitable

import pytest

from ottla.broker.api.deferred import answered, together
from ottla.broker.core.rejected import Rejected
from ottla.protocol.error_codes import ErrorCode

LOST = Rejected(ErrorCode.NOT_COORDINATOR)


def ask(answer: int | asyncio.Future[int]) -> str | Awaitable[str]:
    return answered(lambda: answer, str, lambda rejected: rejected.code.name)


def refusing() -> int:
    raise LOST


def test_what_is_known_is_answered_and_what_is_refused_is_refused_at_once() -> None:
    assert ask(1) == "1"
    assert answered(refusing, str, lambda rejected: rejected.code.name) == "NOT_COORDINATOR"


@pytest.mark.parametrize("lost", [False, True])
async def test_what_comes_later_is_answered_or_refused_in_the_same_words(lost: bool) -> None:
    future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    answer = ask(future)
    assert isinstance(answer, Awaitable)
    if lost:
        future.set_exception(LOST)
    else:
        future.set_result(1)
    assert await answer == ("NOT_COORDINATOR" if lost else "1")


async def test_of_many_each_is_answered_for_itself_in_their_order() -> None:
    futures: list[asyncio.Future[int]] = [asyncio.get_running_loop().create_future() for _ in range(2)]
    answer = together([ask(futures[0]), ask(2), ask(futures[1])], "/".join)
    futures[1].set_exception(LOST)
    futures[0].set_result(1)
    assert isinstance(answer, Awaitable)
    assert await answer == "1/2/NOT_COORDINATOR"
    assert together([ask(1), ask(2)], "/".join) == "1/2"
