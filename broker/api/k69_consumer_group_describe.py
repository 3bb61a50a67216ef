"""ConsumerGroupDescribe (key 69), versions 0-1: state, members and assignments of consumer groups.

Promises: an unknown group, or a classic one, is GROUP_ID_NOT_FOUND with a message; each group succeeds or fails by itself. Partitions of
deleted topics are omitted. From version 1 on each member has its protocol type (KIP-1099). Authorized operations are returned on request.
If `group.coordinator.rebalance.protocols` lacks `consumer`, every group is UNSUPPORTED_VERSION. A group that is named twice is described
once.
"""

from __future__ import annotations

from collections.abc import Iterator

from ottla.broker.api.access import NOT_REQUESTED, allowed, denied, operations
from ottla.broker.api.context import Context
from ottla.broker.api.declaration import Api
from ottla.broker.api.served_api import Split
from ottla.broker.api.services import CoordinationServices
from ottla.broker.core.acl import Operation, Resource
from ottla.broker.core.rejected import Rejected
from ottla.broker.groups.consumer import ConsumerGroup
from ottla.broker.groups.consumer_member import Assignment as Partitions
from ottla.broker.groups.consumer_member import ConsumerMember, topics_of
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k69_consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
    Member,
    TopicPartitions,
)

API = Api(ConsumerGroupDescribeRequest, splits=(Split("group_ids", "groups"),))

CLASSIC_MEMBER = 0
CONSUMER_MEMBER = 1


@API.on_broker()
def handle(ctx: Context[CoordinationServices], request: ConsumerGroupDescribeRequest) -> ConsumerGroupDescribeResponse:
    """Describe the groups one by one."""
    groups = [_describe(ctx, group_id) for group_id in dict.fromkeys(request.group_ids)]
    for group in groups:
        known = group.error_code == ErrorCode.NONE and request.include_authorized_operations
        group.authorized_operations = operations(ctx, Resource.GROUP, group.group_id) if known else NOT_REQUESTED
    return ConsumerGroupDescribeResponse(groups=groups if ctx.services.authorizer is None else _without_hidden_topics(ctx, groups))


def _without_hidden_topics(ctx: Context[CoordinationServices], groups: list[DescribedGroup]) -> list[DescribedGroup]:
    """Replace each group that has a topic which the client may not describe by an error."""
    topics = [(group, topic) for group in groups for topic in _topics_of(group)]
    hidden = denied(ctx, Operation.DESCRIBE, Resource.TOPIC, {topic for _, topic in topics})
    refused = {group.group_id for group, topic in topics if topic in hidden}
    code, text = ErrorCode.TOPIC_AUTHORIZATION_FAILED, "The group has described topic(s) that the client is not authorized to describe."
    return [DescribedGroup(code, text, group.group_id) if group.group_id in refused else group for group in groups]


def _topics_of(group: DescribedGroup) -> Iterator[str]:
    for member in group.members:
        for assignment in (member.assignment, member.target_assignment):
            yield from (topic.topic_name for topic in assignment.topic_partitions)


def _describe(ctx: Context[CoordinationServices], group_id: str) -> DescribedGroup:
    if "consumer" not in ctx.services.settings.group_coordinator_rebalance_protocols:
        return DescribedGroup(error_code=ErrorCode.UNSUPPORTED_VERSION, group_id=group_id)
    if not allowed(ctx, Operation.DESCRIBE, Resource.GROUP, group_id):
        return DescribedGroup(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED, group_id=group_id)
    if not group_id:
        return DescribedGroup(error_code=ErrorCode.INVALID_GROUP_ID, group_id=group_id)
    try:
        group = ctx.services.groups.get(group_id)
    except Rejected as rejected:
        return DescribedGroup(error_code=rejected.code, group_id=group_id)
    if isinstance(group, ConsumerGroup):
        return _described(ctx, group)
    message = f"Group {group_id[:1000]} {'not found' if group is None else 'is not a consumer group'}."
    return DescribedGroup(error_code=ErrorCode.GROUP_ID_NOT_FOUND, error_message=message, group_id=group_id)


def _described(ctx: Context[CoordinationServices], group: ConsumerGroup) -> DescribedGroup:
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=group.preferred_assignor(ctx.services.settings.group_consumer_assignors[0]),
        members=[_member(ctx, group, member) for member in group.members.values()],
    )


def _member(ctx: Context[CoordinationServices], group: ConsumerGroup, member: ConsumerMember) -> Member:
    return Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topic_names),
        subscribed_topic_regex=member.topic_regex,
        assignment=_assignment(ctx, member.has()),
        target_assignment=_assignment(ctx, group.target(member.member_id)),
        member_type=CONSUMER_MEMBER if member.classic is None else CLASSIC_MEMBER,
    )


def _assignment(ctx: Context[CoordinationServices], assignment: Partitions) -> Assignment:
    known = ctx.services.cluster
    return Assignment(
        [
            TopicPartitions(one.topic_id, info.name, one.partitions)
            for one in topics_of(assignment)
            if (info := known.by_id(one.topic_id)) is not None
        ]
    )
