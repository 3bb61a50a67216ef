"""Tests of ACLs in requests with several topics, in pending requests, and in requests without a response.

The permissions that every API requires are compared with Kafka's in tests/scenario/test_kafka_differential_of_access.py.
"""

from __future__ import annotations

import pytest

from ottla.broker.core.acl import Operation, Pattern, Permission, Resource
from ottla.protocol.client import Client
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k00_produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.messages.k01_fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.k03_metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.k08_offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from ottla.protocol.messages.k19_create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.k20_delete_topics import DeleteTopicsRequest
from ottla.protocol.messages.k22_init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.k37_create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from ottla.protocol.records.record import SimpleRecord, build_batch
from tests.support.access import GUARDED, acl, allow, ann, bob, delete_all_acls
from tests.support.consumer_calls import beat
from tests.support.group_calls import find_coordinator, wait_until
from tests.support.running_broker import RunningBroker
from tests.support.topic_calls import create

WITH_AUTHORIZER = pytest.mark.broker_settings({**GUARDED, "group.consumer.assignment.interval.ms": "0"})
READ, WRITE, DESCRIBE = Operation.READ, Operation.WRITE, Operation.DESCRIBE
_RESULTS = ("topics", "responses", "results")
DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


def produce(client: Client, *names: str, acks: int = 1) -> list[int]:
    """Produce to each topic; return the error codes in the order of the topics."""
    records = build_batch([SimpleRecord(None, b"v")])
    request = ProduceRequest(
        None, acks, 5_000, [TopicProduceData(name, partition_data=[PartitionProduceData(0, records)]) for name in names]
    )
    if acks == 0:
        client.send(request, 9)
        return []
    return [each.partition_responses[0].error_code for each in client.call(request, 9).responses]


@WITH_AUTHORIZER
def test_each_topic_is_authorized_by_itself_in_the_order_of_the_request(broker: RunningBroker) -> None:
    with bob(broker) as admin, ann(broker) as client:
        for name in ("a", "b", "c"):
            create(admin, name)
        allow(admin, acl(Resource.TOPIC, "a", WRITE), acl(Resource.TOPIC, "c", WRITE))
        assert produce(client, "b", "a", "nowhere", "c") == [DENIED, 0, DENIED, 0]
        assert produce(client, "a") == [0]
    assert [broker.topics.end_offset(name) for name in ("a", "b", "c")] == [2, 0, 1]


@WITH_AUTHORIZER
@pytest.mark.parametrize("transactional_first", [True, False])
def test_a_transactional_batch_that_a_later_one_replaces_is_authorized_too(broker: RunningBroker, transactional_first: bool) -> None:
    batches = [build_batch([SimpleRecord(None, b"v")])]
    batches.insert(
        0 if transactional_first else 1,
        build_batch([SimpleRecord(None, b"v")], producer_id=1, producer_epoch=0, base_sequence=0, transactional=True),
    )
    with bob(broker) as admin, ann(broker) as client:
        create(admin, "a")
        allow(admin, acl(Resource.TOPIC, "a", WRITE))
        request = ProduceRequest(
            "tx", 1, 5_000, [TopicProduceData("a", partition_data=[PartitionProduceData(0, records) for records in batches])]
        )
        (topic,) = client.call(request, 9).responses
        assert [each.error_code for each in topic.partition_responses] == [ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED]
    assert broker.topics.end_offset("a") == 0


@WITH_AUTHORIZER
def test_a_committed_topic_without_a_name_is_denied_like_any_other(broker: RunningBroker) -> None:
    with bob(broker) as admin, ann(broker) as client:
        find_coordinator(admin)
        allow(admin, acl(Resource.GROUP, "g", READ))
        topics = [OffsetCommitRequestTopic(name, partitions=[OffsetCommitRequestPartition(0, 1, -1, "")]) for name in ("", "nowhere")]
        answer = client.call(OffsetCommitRequest("g", topics=topics), 8)
        assert [topic.partitions[0].error_code for topic in answer.topics] == [DENIED, DENIED]


@WITH_AUTHORIZER
def test_a_committed_topic_without_partitions_does_not_reveal_whether_it_exists(broker: RunningBroker) -> None:
    with bob(broker) as admin, ann(broker) as client:
        find_coordinator(admin)
        create(admin, "hidden")
        allow(admin, acl(Resource.GROUP, "g", READ))
        topics = [OffsetCommitRequestTopic(name) for name in ("hidden", "nowhere")]
        assert [topic.name for topic in client.call(OffsetCommitRequest("g", topics=topics), 8).topics] == ["hidden", "nowhere"]


@WITH_AUTHORIZER
def test_a_topic_named_twice_is_authorized_once_for_each_form(broker: RunningBroker) -> None:
    with bob(broker) as admin, ann(broker) as client:
        create(admin, "t")
        for request, version in (
            (CreateTopicsRequest([CreatableTopic(name, 1, 1) for name in ("new", "new", "other")]), 7),
            (DeleteTopicsRequest(topic_names=["t", "t", "other"]), 5),
            (CreatePartitionsRequest([CreatePartitionsTopic(name, 2) for name in ("t", "t", "other")]), 3),
        ):
            results = getattr(answer := client.call(request, version), next(name for name in _RESULTS if hasattr(answer, name)))
            assert [each.error_code for each in results] == [ErrorCode.INVALID_REQUEST, DENIED]


@WITH_AUTHORIZER
def test_a_denied_produce_with_acks_0_closes_the_connection_after_allowed_writes(broker: RunningBroker) -> None:
    with bob(broker) as admin, ann(broker) as client:
        create(admin, "a")
        create(admin, "b")
        allow(admin, acl(Resource.TOPIC, "a", WRITE))
        produce(client, "a", "b", acks=0)
        with pytest.raises(ConnectionError):
            client.read_frame()
    assert [broker.topics.end_offset(name) for name in ("a", "b")] == [1, 0]


@WITH_AUTHORIZER
def test_a_revoked_permission_takes_effect_within_a_fetch_session(broker: RunningBroker) -> None:
    with bob(broker) as admin, ann(broker) as client:
        create(admin, "a")
        allow(admin, acl(Resource.TOPIC, "a", READ))
        first = client.call(_fetch(0, 0, "a"), 12)
        assert first.responses[0].partitions[0].error_code == 0
        delete_all_acls(admin)
        for epoch in (1, 2):
            (again,) = client.call(_fetch(first.session_id, epoch), 12).responses
            assert again.partitions[0].error_code == DENIED
        allow(admin, acl(Resource.TOPIC, "a", READ))
        (given_back,) = client.call(_fetch(first.session_id, 3), 12).responses
        assert given_back.partitions[0].error_code == 0


def _fetch(session_id: int, epoch: int, *names: str) -> FetchRequest:
    topics = [FetchTopic(name, partitions=[FetchPartition(0, -1, 0, -1, -1, 1 << 20)]) for name in names]
    return FetchRequest(None, max_wait_ms=0, max_bytes=1 << 20, session_id=session_id, session_epoch=epoch, topics=topics)


@WITH_AUTHORIZER
def test_a_regular_expression_matches_only_topics_that_its_member_may_describe(broker: RunningBroker) -> None:
    with bob(broker) as admin, ann(broker) as client:
        ids = [bytes(create(admin, name).topic_id) for name in ("a1", "a2")]
        find_coordinator(admin)
        allow(admin, acl(Resource.GROUP, "g", READ), acl(Resource.TOPIC, "a1", DESCRIBE))

        def assigned() -> set[bytes]:
            answer = beat(client, "m", 0, subscribed_topic_regex="a.*", rebalance_timeout_ms=30_000, topic_partitions=[])
            return {bytes(each.topic_id) for each in answer.assignment.topic_partitions}

        wait_until(lambda: assigned() == set(ids[:1]), "the expression is resolved")
        allow(admin, acl(Resource.TOPIC, "a2", DESCRIBE))
        beat(client, "m", -1)
        wait_until(lambda: assigned() == set(ids), "the expression is resolved again")


@WITH_AUTHORIZER
def test_a_producer_id_requires_write_permission_on_any_topic(broker: RunningBroker) -> None:
    with bob(broker) as admin, ann(broker) as client:

        def error() -> int:
            return int(client.call(InitProducerIdRequest(None, 60_000), 4).error_code)

        assert error() == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        allow(admin, acl(Resource.TOPIC, "any", WRITE))
        assert error() == 0
        allow(admin, acl(Resource.TOPIC, "*", WRITE, Permission.DENY))
        assert error() == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


@pytest.mark.broker_settings({**GUARDED, "allow.everyone.if.no.acl.found": "true"})
def test_a_resource_without_acls_is_open_if_allow_everyone_is_set(broker: RunningBroker) -> None:
    for topic in ("t", "u", "prefix-1"):
        broker.topics.create(topic)

    def hidden(client: Client) -> list[str | None]:
        request = MetadataRequest([MetadataRequestTopic(name=topic) for topic in ("t", "u", "prefix-1")])
        return [each.name for each in client.call(request, 9).topics if each.error_code == DENIED]

    with ann(broker) as client, bob(broker) as admin:
        assert hidden(client) == []
        allow(admin, acl(Resource.TOPIC, "t", Operation.READ, principal="User:eve"))
        allow(admin, acl(Resource.TOPIC, "prefix", Operation.READ, pattern=Pattern.PREFIXED, host="10.9.9.9"))
        assert hidden(client) == ["t", "prefix-1"], "an ACL is about them, be it of whomever"
        allow(admin, acl(Resource.TOPIC, "t", Operation.WRITE))
        assert hidden(client) == ["prefix-1"]
        delete_all_acls(admin)
        assert hidden(client) == []
