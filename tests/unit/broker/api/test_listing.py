from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

from ottla.broker.api.context import Context, Listener, Peer
from ottla.broker.api.listing import listed
from ottla.broker.core import limits
from ottla.broker.core.clock import Clock
from ottla.broker.runtime.upkeep.turns import Turns

PEER = Peer("127.0.0.1", "127.0.0.1", 9092, Listener("PLAINTEXT", "127.0.0.1", 9092))


def context() -> Context[Any]:
    clock = Clock()
    return Context(0, "me", PEER, cast(Any, SimpleNamespace(clock=clock, turns=Turns(clock))))


class Describing:
    """Keeps even numbers, and records how many items each call gets."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def __call__(self, items: Sequence[int]) -> list[int]:
        self.sizes.append(len(items))
        return [item for item in items if item % 2 == 0]


def test_a_short_list_is_made_at_once() -> None:
    assert listed(context(), range(limits.LISTED_AT_ONCE), Describing(), len) == limits.LISTED_AT_ONCE // 2


def test_a_long_list_is_made_in_parts_and_its_time_is_counted() -> None:
    async def run() -> tuple[list[int], Context[Any]]:
        ctx = context()
        pending = listed(ctx, range(25), describing, list, at_once=10)
        assert not isinstance(pending, list)
        assert describing.sizes == []
        return await pending, ctx

    describing = Describing()
    entries, ctx = asyncio.run(run())
    assert entries == list(range(0, 25, 2))
    assert describing.sizes == [10, 10, 5]
    assert ctx.spent_ns > 0
