"""Determines which topics a group member's regular expression can match: those that the member's client may describe."""

from __future__ import annotations

from ottla.broker.api.access import allowed
from ottla.broker.api.context import Context
from ottla.broker.api.services import NodeServices
from ottla.broker.core.acl import Operation, Resource
from ottla.broker.groups.topics_view import MayDescribe, every_topic


def describable_topics(ctx: Context[NodeServices]) -> MayDescribe:
    """Return a function that tells whether the request's client may describe a topic, given the topic's name. It stays valid after the
    request, because a group resolves its members' regular expressions later.
    """
    if ctx.services.authorizer is None:
        return every_topic
    return lambda name: allowed(ctx, Operation.DESCRIBE, Resource.TOPIC, name, quietly=True)
