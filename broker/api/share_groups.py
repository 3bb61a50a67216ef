"""Functions for the handlers of several share group APIs: they tell whether share groups are enabled, and return the error messages of
coordinators."""

from __future__ import annotations

from typing import Final

from ottla.broker.api.context import Context
from ottla.broker.api.services import CoordinationServices
from ottla.broker.cluster.features import share_groups_enabled
from ottla.broker.core.rejected import Rejected
from ottla.protocol.error_codes import ErrorCode

MEMBER_ID_CHARS_MAX = 36
OF_COORDINATION: Final = {
    ErrorCode.NOT_COORDINATOR: "This is not the correct coordinator.",
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: "The coordinator is loading and hence can't process requests.",
}
"""The messages of errors that a coordinator itself raises. As in Kafka, only some APIs of share groups send them."""


def text_of(rejected: Rejected) -> str | None:
    """Return the error message of a rejection for a response; None if it has none. If the error code is in `OF_COORDINATION`, the message
    is the one there.
    """
    return OF_COORDINATION.get(rejected.code, rejected.message) or None


def enabled(ctx: Context[CoordinationServices]) -> bool:
    """Return whether the cluster's level of the feature share.version enables share groups."""
    return share_groups_enabled(ctx.services.topics.features)
