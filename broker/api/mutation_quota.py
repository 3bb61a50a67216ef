"""What requests that make and delete partitions are charged (KIP-599), where there is a quota for it; else nothing is asked."""

from __future__ import annotations

from collections.abc import Callable

from ottla.broker.api.context import Context

Charge = Callable[[int], None]


def charged(ctx: Context, strict_since: int) -> tuple[Charge, Callable[[], int]]:
    """What charges the request for partitions, and raises Rejected(THROTTLING_QUOTA_EXCEEDED) from version `strict_since` on; and how long
    its client has to wait, in milliseconds."""
    quotas = ctx.services.quotas
    if quotas is None or not quotas.mutation:
        return _nothing, _no_time
    from ottla.broker.api.throttling import mutations  # noqa: PLC0415 # imported already where there are quotas

    found = mutations(ctx, quotas, strict=ctx.version >= strict_since)
    return found.charge, found.wait_ms


def _nothing(_: int) -> None:
    pass


def _no_time() -> int:
    return 0
