"""ShareGroupDescribe (key 77), version 1: state, members and assignments of share groups.

Promises: an unknown group, or one of another type, is GROUP_ID_NOT_FOUND with a message; each group succeeds or fails by itself. Partitions
of deleted topics are omitted. Authorized operations are returned on request. Without the feature share.version every group is
UNSUPPORTED_VERSION. A group that is named twice is described once.
"""

from __future__ import annotations

from ottla.broker.api.access import NOT_REQUESTED, allowed, denied, operations
from ottla.broker.api.context import Context
from ottla.broker.api.declaration import Api
from ottla.broker.api.served_api import Split
from ottla.broker.api.services import CoordinationServices
from ottla.broker.api.share_groups import enabled
from ottla.broker.core.acl import Operation, Resource
from ottla.broker.core.rejected import Rejected
from ottla.broker.groups.consumer_member import topics_of
from ottla.broker.groups.share_group import ShareGroup, ShareMember
from ottla.broker.groups.simple_assignor import SIMPLE
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k77_share_group_describe import (
    Assignment,
    DescribedGroup,
    Member,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
    TopicPartitions,
)

API = Api(ShareGroupDescribeRequest, splits=(Split("group_ids", "groups"),))


@API.on_broker()
def handle(ctx: Context[CoordinationServices], request: ShareGroupDescribeRequest) -> ShareGroupDescribeResponse:
    """Describe the groups one by one."""
    groups = [_describe(ctx, group_id) for group_id in dict.fromkeys(request.group_ids)]
    for group in groups:
        known = group.error_code == ErrorCode.NONE and request.include_authorized_operations
        group.authorized_operations = operations(ctx, Resource.GROUP, group.group_id) if known else NOT_REQUESTED
    return ShareGroupDescribeResponse(groups=groups if ctx.services.authorizer is None else _without_hidden_topics(ctx, groups))


def _without_hidden_topics(ctx: Context[CoordinationServices], groups: list[DescribedGroup]) -> list[DescribedGroup]:
    """Replace each group that has a topic which the client may not describe by an error."""
    topics = [(group, topic.topic_name) for group in groups for member in group.members for topic in member.assignment.topic_partitions]
    hidden = denied(ctx, Operation.DESCRIBE, Resource.TOPIC, {topic for _, topic in topics})
    refused = {group.group_id for group, topic in topics if topic in hidden}
    code, text = ErrorCode.TOPIC_AUTHORIZATION_FAILED, "The group has described topic(s) that the client is not authorized to describe."
    return [DescribedGroup(code, text, group.group_id) if group.group_id in refused else group for group in groups]


def _describe(ctx: Context[CoordinationServices], group_id: str) -> DescribedGroup:
    if not enabled(ctx):
        return DescribedGroup(error_code=ErrorCode.UNSUPPORTED_VERSION, group_id=group_id)
    if not allowed(ctx, Operation.DESCRIBE, Resource.GROUP, group_id):
        return DescribedGroup(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED, group_id=group_id)
    if not group_id:
        return DescribedGroup(error_code=ErrorCode.INVALID_GROUP_ID, group_id=group_id)
    try:
        group = ctx.services.groups.get(group_id)
    except Rejected as rejected:
        return DescribedGroup(error_code=rejected.code, group_id=group_id)
    if isinstance(group, ShareGroup):
        return DescribedGroup(
            group_id=group_id,
            group_state=group.state,
            group_epoch=group.epoch,
            assignment_epoch=group.assignment_epoch,
            assignor_name=SIMPLE,
            members=[_member(ctx, member) for member in group.members.values()],
        )
    message = f"Group {group_id[:1000]} {'not found' if group is None else 'is not a share group'}."
    return DescribedGroup(error_code=ErrorCode.GROUP_ID_NOT_FOUND, error_message=message, group_id=group_id)


def _member(ctx: Context[CoordinationServices], member: ShareMember) -> Member:
    return Member(
        member_id=member.member_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topic_names),
        assignment=Assignment(
            [
                TopicPartitions(one.topic_id, info.name, one.partitions)
                for one in topics_of(member.assigned)
                if (info := ctx.services.cluster.by_id(one.topic_id)) is not None
            ]
        ),
    )
