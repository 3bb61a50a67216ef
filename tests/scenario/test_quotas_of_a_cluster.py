"""Quotas in a cluster: set through any broker, enforced by all, and by the controller for its own work."""

from __future__ import annotations

from typing import Any

from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k19_create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.k48_describe_client_quotas import DescribeClientQuotasRequest
from ottla.protocol.messages.k49_alter_client_quotas import AlterClientQuotasRequest
from tests.support.coroutine_tests import played_by
from tests.support.owned_cluster import OwnedCluster, in_an_owned_cluster
from tests.support.quota_calls import ANYBODY, Target, quota


async def set_quota(cluster: OwnedCluster, target: Target, **values: float | None) -> None:
    """Set a quota through broker 1, and wait until every broker knows it."""
    (answer,) = (await cluster.ask(1, AlterClientQuotasRequest([quota(target, **values)]))).entries
    assert answer.error_code == 0, answer.error_message

    def heard(member: Any) -> bool:
        return frozenset(target) in member.broker.services.topics.image.client_quotas

    await cluster.until(lambda: all(map(heard, cluster.members.values())), "all have heard of the quota")


@played_by(in_an_owned_cluster, size=2)
async def test_topic_creation_at_any_broker_is_charged_to_the_quota_at_the_controller(cluster: OwnedCluster) -> None:
    await set_quota(cluster, ANYBODY, controller_mutation_rate=1.0)
    for node in (1, 2):
        response = await cluster.ask(node, DescribeClientQuotasRequest())
        assert [(each.values[0].key, each.values[0].value) for each in response.entries] == [("controller_mutation_rate", 1.0)]
    made = await cluster.ask(1, CreateTopicsRequest([CreatableTopic("a", 13, 1)]), 7)
    assert (made.topics[0].error_code, made.throttle_time_ms) == (0, 0)
    refused = await cluster.ask(2, CreateTopicsRequest([CreatableTopic("b", 1, 1)]), 7)
    assert refused.topics[0].error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert 0 < refused.throttle_time_ms <= 2_000, "whichever broker asks, the controller counts"
    await cluster.pass_ms(refused.throttle_time_ms)
    later = await cluster.ask(2, CreateTopicsRequest([CreatableTopic("b", 1, 1)]), 7)
    assert later.topics[0].error_code == 0
