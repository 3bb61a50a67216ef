from __future__ import annotations

import pytest

from ottla.protocol.client import Client
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k19_create_topics import CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from tests.support.topic_calls import create, describe, produce


@pytest.mark.parametrize("version", range(2, 8))
def test_every_version_creates_a_topic_that_is_ready(client: Client, version: int) -> None:
    (result,) = client.call(CreateTopicsRequest([CreatableTopic("t", 3, 1)]), version=version).topics
    assert (result.name, result.error_code, result.error_message) == ("t", 0, None)
    assert (result.num_partitions, result.replication_factor) == ((3, 1) if version >= 5 else (-1, -1))
    assert (result.topic_id != bytes(16)) is (version >= 7)
    assert produce(client, "t", b"x", partition=2) == 0


def test_the_response_has_every_setting_with_its_source(client: Client) -> None:
    result = create(client, "t", configs={"retention.ms": "5"})
    configs = {config.name: (config.value, config.config_source) for config in result.configs or []}
    assert configs["retention.ms"] == ("5", 1)
    assert configs["cleanup.policy"] == ("delete", 5)


def test_validate_only_has_the_same_response_and_creates_nothing(client: Client) -> None:
    topics = [CreatableTopic("good", 2, 1), CreatableTopic("bad", 0, 1)]
    good, bad = client.call(CreateTopicsRequest(topics, validate_only=True)).topics
    assert (good.error_code, good.num_partitions) == (0, 2)
    assert bad.error_code == ErrorCode.INVALID_PARTITIONS
    assert describe(client, "good")[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_each_topic_has_its_own_error_and_a_message(client: Client) -> None:
    create(client, "there")
    topics = [
        CreatableTopic("there", 1, 1),
        CreatableTopic("a b", 1, 1),
        CreatableTopic("factor", 1, 2),
        CreatableTopic("config", 1, 1, configs=[CreatableTopicConfig("retention.ms", "soon")]),
        CreatableTopic("assigned", -1, -1, [CreatableReplicaAssignment(0, [9])]),
        CreatableTopic("good", -1, -1, [CreatableReplicaAssignment(0, [1])]),
    ]
    results = client.call(CreateTopicsRequest(topics)).topics
    assert [result.error_code for result in results] == [
        ErrorCode.TOPIC_ALREADY_EXISTS,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.INVALID_REPLICATION_FACTOR,
        ErrorCode.INVALID_CONFIG,
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        ErrorCode.NONE,
    ]
    assert all(bool(result.error_message) is (result.error_code != 0) for result in results)


def test_an_excessive_request_is_rejected_for_every_topic(client: Client) -> None:
    results = client.call(CreateTopicsRequest([CreatableTopic("a", 10_001, 1), CreatableTopic("b", 1, 1)])).topics
    assert [result.error_code for result in results] == [ErrorCode.POLICY_VIOLATION] * 2


def test_a_setting_is_returned_as_the_client_wrote_it(client: Client) -> None:
    topic = CreatableTopic("spaced", 1, 1, configs=[CreatableTopicConfig("retention.ms", " 5 ")])
    (answer,) = client.call(CreateTopicsRequest([topic])).topics
    assert {config.name: config.value for config in answer.configs}["retention.ms"] == " 5 "
