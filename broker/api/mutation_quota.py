"""Charges the partitions that a request creates or deletes to its client's controller mutation quota (KIP-599). Without a quota nothing is
charged.
"""

from __future__ import annotations

from collections.abc import Callable

from ottla.broker.api.context import Context
from ottla.broker.api.services import NodeServices

Charge = Callable[[int], None]


def charged(ctx: Context[NodeServices], strict_since: int) -> tuple[Charge, Callable[[], int]]:
    """Return two functions. The first charges a number of created or deleted partitions to the client's quota. The second returns the
    resulting throttle time in ms. If the quota is exceeded, the first function raises Rejected(THROTTLING_QUOTA_EXCEEDED), but only from
    request version `strict_since` on.
    """
    quotas = ctx.services.quotas
    if quotas is None or not quotas.mutation:
        return lambda _: None, lambda: 0
    from ottla.broker.api.throttling import mutations  # noqa: PLC0415 # already imported if there are quotas

    found = mutations(ctx, quotas, strict=ctx.version >= strict_since)
    return found.charge, found.wait_ms
