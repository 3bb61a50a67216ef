"""Charges the partitions that a request creates or deletes to its client's controller mutation quota (KIP-599). Without a quota nothing is
charged.
"""

from __future__ import annotations

from collections.abc import Callable

from ottla.broker.api.context import Context
from ottla.broker.api.services import NodeServices

Charge = Callable[[int], None]


def charged(ctx: Context[NodeServices], strict_since: int) -> tuple[Charge, Callable[[], int]]:
    """Return two functions: the first charges the client's quota for a number of created or deleted partitions, the second returns the
    resulting throttle time in ms. From request version `strict_since` on, the first function raises Rejected(THROTTLING_QUOTA_EXCEEDED) if
    the quota is exceeded.
    """
    quotas = ctx.services.quotas
    if quotas is None or not quotas.mutation:
        return lambda _: None, lambda: 0
    from ottla.broker.api.throttling import mutations  # noqa: PLC0415 # already imported if there are quotas

    found = mutations(ctx, quotas, strict=ctx.version >= strict_since)
    return found.charge, found.wait_ms
