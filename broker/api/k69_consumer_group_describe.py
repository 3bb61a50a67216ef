"""ConsumerGroupDescribe (key 69), versions 0-1: state, members and assignments of consumer groups.

Promises: an unknown group, or a classic one, is GROUP_ID_NOT_FOUND with a message; each group succeeds or fails by itself. Partitions of
deleted topics are omitted. From version 1 on each member has its protocol type (KIP-1099). Authorized operations are returned on request.
If `group.coordinator.rebalance.protocols` lacks `consumer`, every group is UNSUPPORTED_VERSION. A group that is named twice is described
once.
"""

from __future__ import annotations

from ottla.broker.api.context import Context
from ottla.broker.api.declaration import Api
from ottla.broker.api.group_descriptions import describe_groups, described_assignment, topics_in
from ottla.broker.api.served_api import Split
from ottla.broker.api.services import CoordinationServices
from ottla.broker.groups.consumer import ConsumerGroup
from ottla.broker.groups.consumer_member import ConsumerMember
from ottla.protocol.messages.k69_consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
    Member,
)

API = Api(ConsumerGroupDescribeRequest, splits=(Split("group_ids", "groups"),))

CLASSIC_MEMBER = 0
CONSUMER_MEMBER = 1


@API.on_broker()
def handle(ctx: Context[CoordinationServices], request: ConsumerGroupDescribeRequest) -> ConsumerGroupDescribeResponse:
    """Return state, members and assignments of the consumer groups (KIP-848) that the request names. A group of another type is
    GROUP_ID_NOT_FOUND."""
    groups = describe_groups(
        ctx,
        request,
        kind="consumer",
        enabled="consumer" in ctx.services.settings.group_coordinator_rebalance_protocols,
        describe=lambda group: _described(ctx, group) if isinstance(group, ConsumerGroup) else None,
        refuse=DescribedGroup,
        topics=lambda described: topics_in(each for member in described.members for each in (member.assignment, member.target_assignment)),
    )
    return ConsumerGroupDescribeResponse(groups=groups)


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
        assignment=described_assignment(ctx, member.held()),
        target_assignment=described_assignment(ctx, group.target(member.member_id)),
        member_type=CONSUMER_MEMBER if member.classic is None else CLASSIC_MEMBER,
    )
