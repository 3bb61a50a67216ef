"""Makes responses that list, for example, all groups or all ACLs. Because such a list can be long, it is made in several turns of the event
loop, between which other requests run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from ottla.broker.api.context import CloseConnection, Context
from ottla.broker.api.services import NodeServices
from ottla.broker.core import limits

T = TypeVar("T")
E = TypeVar("E")
R = TypeVar("R")


def respond_with_list(
    ctx: Context[NodeServices],
    items: Sequence[T],
    describe: Callable[[Sequence[T]], list[E]],
    respond: Callable[[list[E]], R],
    batch_size: int = limits.LISTED_AT_ONCE,
    *,
    is_complete: Callable[[], bool] = lambda: False,
) -> R | Awaitable[R]:
    """Return a list response: `describe` makes its entries from `items` (it may omit items), and `respond` makes the response from the
    entries. If there are more than `batch_size` items, return an awaitable: `describe` is then called with at most `batch_size` items at a
    time, and other requests run between the calls. The list ends early if `is_complete` returns true after a call.

    Only one long list is made at a time. The time of the calls is added to `ctx.spent_ns`, so that the dispatcher encodes the response on a
    thread. The awaitable raises CloseConnection if the client disconnects.
    """
    if len(items) <= batch_size:
        return respond(describe(items))
    return _in_turns(ctx, items, describe, respond, batch_size, is_complete=is_complete)


async def _in_turns(
    ctx: Context[NodeServices],
    items: Sequence[T],
    describe: Callable[[Sequence[T]], list[E]],
    respond: Callable[[list[E]], R],
    batch_size: int,
    *,
    is_complete: Callable[[], bool],
) -> R:
    clock, entries = ctx.services.clock, list[E]()
    async with ctx.services.turns.list_lock:
        for start in range(0, len(items), batch_size):
            await ctx.services.turns.wait_for_turn()
            if ctx.peer.is_closed:
                raise CloseConnection("the client has disconnected")
            begun_ns = clock.spent_ns()
            entries += describe(items[start : start + batch_size])
            ctx.spent_ns += clock.spent_ns() - begun_ns
            if is_complete():
                break
    return respond(entries)
