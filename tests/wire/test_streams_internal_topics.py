"""Internal topics of streams groups: the broker creates them for a client with the permission, after the heartbeat that finds them
missing."""

from __future__ import annotations

import pytest

from ottla.broker.core.acl import Operation, Resource
from ottla.broker.streams.internal_topics import Status
from ottla.protocol.client import Client
from ottla.protocol.messages.k32_describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from ottla.protocol.messages.k88_streams_group_heartbeat import StreamsGroupHeartbeatResponse, Topology
from ottla.protocol.messages.streams_group import KeyValue, Subtopology, TopicInfo
from tests.support.access import GUARDED, acl, allow, ann, bob, of_cluster
from tests.support.group_calls import wait_until
from tests.support.running_broker import RunningBroker
from tests.support.streams_group_calls import AT_ONCE, beat, prepare
from tests.support.topic_calls import describe

pytestmark = pytest.mark.broker_settings(AT_ONCE)

TOPIC = 2


def with_changelogs(*names: str, **configs: str) -> Topology:
    """Return a topology that reads "t" and has changelog topics with these configs; in their names, underscores stand for dots."""
    given = [KeyValue(name.replace("_", "."), value) for name, value in configs.items()]
    return Topology(0, [Subtopology("0", ["t"], state_changelog_topics=[TopicInfo(name, topic_configs=given) for name in names])])


def details(response: StreamsGroupHeartbeatResponse) -> list[str]:
    """Return the detail texts of the status MISSING_INTERNAL_TOPICS."""
    return [status.status_detail for status in response.status or () if status.status_code == Status.MISSING_INTERNAL_TOPICS]


def count(client: Client, topic: str) -> int:
    return len(describe(client, topic)[0].partitions)


def test_missing_topics_are_created_with_the_partitions_of_the_input_and_their_settings(client: Client) -> None:
    prepare(client, partitions=3)
    joined = beat(client, topology=with_changelogs("log", cleanup_policy="compact"))
    assert details(joined) == ["Internal topics are missing: log"]
    wait_until(lambda: count(client, "log") == 3, "the changelog exists")
    (described,) = client.call(DescribeConfigsRequest([DescribeConfigsResource(TOPIC, "log", ["cleanup.policy"])])).results
    assert [config.value for config in described.configs] == ["compact"]
    wait_until(lambda: details(beat(client)) == [], "the group has seen the changelog")


def test_the_reason_of_a_failed_creation_is_in_the_status(client: Client) -> None:
    prepare(client)
    topology = with_changelogs(*(f"log-{number}" for number in range(5)), cleanup_policy="nothing")
    missing = "Internal topics are missing: log-0, log-2, log-1 and 2 additional topics"
    assert details(beat(client, topology=topology)) == [missing]

    def failed() -> bool:
        return details(beat(client, topology=topology)) != [missing]

    wait_until(failed, "the creation has failed")
    (detail,) = details(beat(client, topology=topology))
    assert detail.startswith(f"{missing}; Creation failed: log-0 (Invalid value nothing for configuration cleanup.policy: ")
    assert detail.endswith(") and 2 more.")


@pytest.mark.broker_settings(AT_ONCE | GUARDED)
def test_topics_are_created_only_for_a_client_that_may_create_all_of_them(broker: RunningBroker) -> None:
    with bob(broker) as admin, ann(broker) as client:
        prepare(admin)
        topics = ("t", "log-0", "log-1")
        allow(admin, acl(Resource.GROUP, "g", Operation.READ), *(acl(Resource.TOPIC, name, Operation.DESCRIBE) for name in topics))
        allow(admin, acl(Resource.TOPIC, "log-0", Operation.CREATE))
        topology = with_changelogs("log-0", "log-1")
        missing = "Internal topics are missing: log-0, log-1"
        assert details(beat(client, topology=topology)) == [f"{missing}; Unauthorized to CREATE on topics log-1."]
        assert count(admin, "log-0") == 0
        allow(admin, of_cluster(Operation.CREATE))
        assert details(beat(client, topology=topology)) == [missing]
        wait_until(lambda: count(admin, "log-1") == 2, "the changelogs exist")
