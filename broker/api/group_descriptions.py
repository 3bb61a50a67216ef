"""Shared parts of ConsumerGroupDescribe, ShareGroupDescribe and StreamsGroupDescribe: authorization, and one response entry per group.

Source: KAFKA KafkaApis.handleConsumerGroupDescribe, handleShareGroupDescribe, handleStreamsGroupDescribe.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol, TypeVar

from ottla.broker.api.access import NOT_REQUESTED, allowed, denied, operations
from ottla.broker.api.context import Context
from ottla.broker.api.services import CoordinationServices
from ottla.broker.core.acl import Operation, Resource
from ottla.broker.core.rejected import Rejected
from ottla.broker.groups.consumer_member import Assignment as Partitions
from ottla.broker.groups.consumer_member import topics_of
from ottla.broker.groups.coordinator import Group
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.group_assignment import Assignment, TopicPartitions


class _Request(Protocol):
    group_ids: list[str]
    include_authorized_operations: bool


class _DescribedGroup(Protocol):
    error_code: int
    group_id: str
    authorized_operations: int


D = TypeVar("D", bound=_DescribedGroup)


def own_text(rejected: Rejected) -> str | None:
    """Return the error message of `rejected` for a response; None if the message is empty."""
    return rejected.message or None


def describe_groups(
    ctx: Context[CoordinationServices],
    request: _Request,
    *,
    kind: str,
    enabled: bool,
    describe: Callable[[Group], D | None],
    refuse: Callable[[int, str | None, str], D],
    topics: Callable[[D], Iterable[str]],
    text_of: Callable[[Rejected], str | None] = own_text,
    hidden_text: str = "The group has described topic(s) that the client is not authorized to describe.",
) -> list[D]:
    """Return one result for each distinct group id of the request, in order.

    `kind` is the group protocol's name, for error messages. If `enabled` is false, every result is UNSUPPORTED_VERSION. `describe` returns
    a group's result, or None for a group of another protocol. `refuse` makes the result of a failed group from error code, message and
    group id; `text_of` returns the message of a rejection. `topics` yields the topics in a result: if the client may not describe all of
    them, the result is TOPIC_AUTHORIZATION_FAILED with the message `hidden_text`.
    """

    def of_id(group_id: str) -> D:
        if not enabled:
            return refuse(ErrorCode.UNSUPPORTED_VERSION, None, group_id)
        if not allowed(ctx, Operation.DESCRIBE, Resource.GROUP, group_id):
            return refuse(ErrorCode.GROUP_AUTHORIZATION_FAILED, None, group_id)
        if not group_id:
            return refuse(ErrorCode.INVALID_GROUP_ID, None, group_id)
        try:
            group = ctx.services.groups.get(group_id)
        except Rejected as rejected:
            return refuse(rejected.code, text_of(rejected), group_id)
        found = None if group is None else describe(group)
        if found is not None:
            return found
        reason = "not found" if group is None else f"is not a {kind} group"
        return refuse(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id[:1000]} {reason}.", group_id)

    groups = [of_id(group_id) for group_id in dict.fromkeys(request.group_ids)]
    for group in groups:
        known = group.error_code == ErrorCode.NONE and request.include_authorized_operations
        group.authorized_operations = operations(ctx, Resource.GROUP, group.group_id) if known else NOT_REQUESTED
    if ctx.services.authorizer is None:
        return groups
    named = {group.group_id: set(topics(group)) for group in groups}
    hidden = denied(ctx, Operation.DESCRIBE, Resource.TOPIC, set().union(*named.values()))
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return [refuse(code, hidden_text, group.group_id) if not named[group.group_id].isdisjoint(hidden) else group for group in groups]


def topics_in(assignments: Iterable[Assignment]) -> Iterable[str]:
    """Yield the name of each topic in the members' assignments, possibly several times."""
    return (topic.topic_name for assignment in assignments for topic in assignment.topic_partitions)


def described_assignment(ctx: Context[CoordinationServices], partitions: Partitions) -> Assignment:
    """Convert a member's partitions (topic ids and indexes) to the form of a response, which also has topic names. Partitions of deleted
    topics are omitted."""
    known = ctx.services.cluster
    return Assignment(
        [
            TopicPartitions(one.topic_id, info.name, one.partitions)
            for one in topics_of(partitions)
            if (info := known.by_id(one.topic_id)) is not None
        ]
    )
