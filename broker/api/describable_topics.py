"""Determines which topics a group member's regular expression can match: those that the member's client may describe."""

from __future__ import annotations

from ottla.broker.api.access import allowed
from ottla.broker.api.context import Context
from ottla.broker.api.services import NodeServices
from ottla.broker.core.acl import Operation, Resource
from ottla.broker.groups.topics_view import MayDescribe, every_topic


def describable_topics(ctx: Context[NodeServices]) -> MayDescribe:
    """Return a function that gets a topic name and tells whether the client of this request may describe the topic. A group calls the
    function later, after the request, when it resolves its members' regular expressions.
    """
    if ctx.services.authorizer is None:
        return every_topic
    return lambda name: allowed(ctx, Operation.DESCRIBE, Resource.TOPIC, name, quietly=True)
