"""ShareGroupDescribe (key 77), version 1: state, members and assignments of share groups.

Promises: an unknown group, or one of another type, is GROUP_ID_NOT_FOUND with a message; each group succeeds or fails by itself. Partitions
of deleted topics are omitted. Authorized operations are returned on request. Without the feature share.version every group is
UNSUPPORTED_VERSION. A group that is named twice is described once.
"""

from __future__ import annotations

from ottla.broker.api.context import Context
from ottla.broker.api.declaration import Api
from ottla.broker.api.group_descriptions import describe_groups, described_assignment, topics_in
from ottla.broker.api.served_api import Split
from ottla.broker.api.services import CoordinationServices
from ottla.broker.api.share_groups import enabled, text_of
from ottla.broker.groups.share_group import ShareGroup, ShareMember
from ottla.broker.groups.simple_assignor import SIMPLE
from ottla.protocol.messages.k77_share_group_describe import (
    DescribedGroup,
    Member,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)

API = Api(ShareGroupDescribeRequest, splits=(Split("group_ids", "groups"),))


@API.on_broker()
def handle(ctx: Context[CoordinationServices], request: ShareGroupDescribeRequest) -> ShareGroupDescribeResponse:
    """Return state, members and assignments of the share groups that the request names. A group of another type is GROUP_ID_NOT_FOUND."""
    groups = describe_groups(
        ctx,
        request,
        kind="share",
        enabled=enabled(ctx),
        describe=lambda group: _described(ctx, group) if isinstance(group, ShareGroup) else None,
        refuse=DescribedGroup,
        text_of=text_of,
        topics=lambda described: topics_in(member.assignment for member in described.members),
    )
    return ShareGroupDescribeResponse(groups=groups)


def _described(ctx: Context[CoordinationServices], group: ShareGroup) -> DescribedGroup:
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=SIMPLE,
        members=[_member(ctx, member) for member in group.members.values()],
    )


def _member(ctx: Context[CoordinationServices], member: ShareMember) -> Member:
    return Member(
        member_id=member.member_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topic_names),
        assignment=described_assignment(ctx, member.assigned),
    )
