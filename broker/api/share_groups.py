"""What the APIs of share groups have in common."""

from __future__ import annotations

from ottla.broker.api.context import Context
from ottla.broker.api.services import CoordinationServices
from ottla.broker.cluster.features import share_groups_enabled

MEMBER_ID_CHARS_MAX = 36


def enabled(ctx: Context[CoordinationServices]) -> bool:
    """Return whether the cluster's share.version enables share groups."""
    return share_groups_enabled(ctx.services.topics.features)
