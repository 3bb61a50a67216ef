from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ottla.broker.api.context import CloseConnection, Context, Listener, Peer
from ottla.broker.api.listing import respond_with_list
from ottla.broker.core import limits
from ottla.broker.core.clock import Clock
from ottla.broker.runtime.upkeep.turns import Turns


def context() -> Context[Any]:
    clock = Clock()
    peer = Peer("127.0.0.1", "127.0.0.1", 9092, Listener("PLAINTEXT", "127.0.0.1", 9092))
    return Context(0, "me", peer, cast(Any, SimpleNamespace(clock=clock, turns=Turns(clock))))


class Describing:
    """Keeps even numbers, and records how many items each call gets."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def __call__(self, items: Sequence[int]) -> list[int]:
        self.sizes.append(len(items))
        return [item for item in items if item % 2 == 0]


def test_a_short_list_is_made_at_once() -> None:
    assert respond_with_list(context(), range(limits.LISTED_AT_ONCE), Describing(), len) == limits.LISTED_AT_ONCE // 2


def test_a_long_list_is_made_in_parts_and_its_time_is_counted() -> None:
    async def run() -> tuple[list[int], Context[Any]]:
        ctx = context()
        pending = respond_with_list(ctx, range(25), describing, list, batch_size=10)
        assert not isinstance(pending, list)
        assert describing.sizes == []
        return await pending, ctx

    describing = Describing()
    entries, ctx = asyncio.run(run())
    assert entries == list(range(0, 25, 2))
    assert describing.sizes == [10, 10, 5]
    assert ctx.spent_ns > 0


def test_a_long_list_ends_when_it_is_complete() -> None:
    async def run() -> Any:
        pending = respond_with_list(context(), range(50), describing, list, batch_size=10, is_complete=lambda: len(describing.sizes) == 2)
        return await cast(Any, pending)

    describing = Describing()
    assert asyncio.run(run()) == list(range(0, 20, 2))


def test_a_long_list_ends_when_its_client_disconnects() -> None:
    async def run() -> None:
        ctx = context()
        with pytest.raises(CloseConnection):
            await cast(Any, respond_with_list(ctx, range(30), lambda items: [ctx.peer.closed(), *describing(items)], list, batch_size=10))

    describing = Describing()
    asyncio.run(run())
    assert describing.sizes == [10]


def test_long_lists_are_made_one_after_the_other() -> None:
    async def run() -> None:
        ctx = context()
        lists = [respond_with_list(ctx, range(20), describing, list, batch_size=10) for describing in (one, other)]
        await asyncio.gather(*cast(Any, lists))

    sizes: list[tuple[str, int]] = []

    def one(items: Sequence[int]) -> list[int]:
        sizes.append(("one", len(items)))
        return []

    def other(items: Sequence[int]) -> list[int]:
        sizes.append(("other", len(items)))
        return []

    asyncio.run(run())
    assert [name for name, _ in sizes] == ["one", "one", "other", "other"]
