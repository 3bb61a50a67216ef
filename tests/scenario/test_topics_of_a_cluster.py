"""Topics and configs of a cluster, requested by its brokers and decided by its controller."""

from __future__ import annotations

from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k19_create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.k20_delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.protocol.messages.k37_create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from ottla.protocol.messages.k44_incremental_alter_configs import AlterableConfig, AlterConfigsResource, IncrementalAlterConfigsRequest
from tests.support.coroutine_tests import played_by
from tests.support.owned_cluster import OwnedCluster, in_an_owned_cluster

TOPIC = 2


@played_by(in_an_owned_cluster, 2)
async def test_a_topic_is_created_extended_configured_and_deleted(cluster: OwnedCluster) -> None:
    (made,) = (await cluster.ask(1, CreateTopicsRequest([CreatableTopic("t", 2, 2)]))).topics
    assert (made.error_code, made.num_partitions, made.replication_factor) == (0, 2, 2)
    assert [len(set(each.replicas)) for each in cluster.controller_host.image.topics[made.topic_id].partitions.values()] == [2, 2]
    (again,) = (await cluster.ask(2, CreateTopicsRequest([CreatableTopic("t", 2, 2)]))).topics
    assert again.error_code == ErrorCode.TOPIC_ALREADY_EXISTS
    (grown,) = (await cluster.ask(2, CreatePartitionsRequest([CreatePartitionsTopic("t", 3, None)]))).results
    assert (grown.error_code, len(cluster.controller_host.image.topics[made.topic_id].partitions)) == (0, 3)
    change = IncrementalAlterConfigsRequest([AlterConfigsResource(TOPIC, "t", [AlterableConfig("retention.ms", 0, "1000")])])
    assert (await cluster.ask(1, change)).responses[0].error_code == ErrorCode.NONE
    assert cluster.controller_host.image.configs[TOPIC, "t"] == {"retention.ms": "1000"}
    (gone,) = (await cluster.ask(1, DeleteTopicsRequest([DeleteTopicState("t")]))).responses
    assert (gone.error_code, cluster.controller_host.image.topic_ids) == (0, {})
    await cluster.until(lambda: not any(member.knows("t") for member in cluster.members.values()), "nobody knows it any more")


@played_by(in_an_owned_cluster, 2)
async def test_a_validate_only_topic_is_checked_and_not_created(cluster: OwnedCluster) -> None:
    wanted = [CreatableTopic("t", 1, 2), CreatableTopic("much", 1, 3)]
    fine, too_much = (await cluster.ask(1, CreateTopicsRequest(wanted, validate_only=True))).topics
    assert (fine.error_code, too_much.error_code) == (ErrorCode.NONE, ErrorCode.INVALID_REPLICATION_FACTOR)
    assert cluster.controller_host.image.topic_ids == {}
