from __future__ import annotations

import pytest

from ottla.protocol.client import Client
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k37_create_partitions import CreatePartitionsAssignment, CreatePartitionsRequest, CreatePartitionsTopic
from tests.support.running_broker import RunningBroker
from tests.support.topic_calls import create, describe, produce


@pytest.mark.parametrize("version", range(4))
def test_every_version_adds_partitions_that_are_ready_and_keeps_the_old_ones(client: Client, version: int) -> None:
    create(client, "t")
    produce(client, "t", b"a")
    (result,) = client.call(CreatePartitionsRequest([CreatePartitionsTopic("t", 3, None)]), version=version).results
    assert (result.name, result.error_code, result.error_message) == ("t", 0, None)
    assert produce(client, "t", b"b", partition=2) == 0
    assert produce(client, "t", b"c", partition=0) == 1


def test_a_rejected_increase_has_an_error_and_a_message(client: Client) -> None:
    create(client, "t", 2)
    topics = [CreatePartitionsTopic("t", 2, None), CreatePartitionsTopic("no", 2, None)]
    same, unknown = client.call(CreatePartitionsRequest(topics)).results
    assert (same.error_code, unknown.error_code) == (ErrorCode.INVALID_PARTITIONS, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert same.error_message
    bad = CreatePartitionsTopic("t", 3, [CreatePartitionsAssignment([9])])
    assert client.call(CreatePartitionsRequest([bad])).results[0].error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_validate_only_adds_nothing(client: Client) -> None:
    create(client, "t")
    (result,) = client.call(CreatePartitionsRequest([CreatePartitionsTopic("t", 3, None)], validate_only=True)).results
    assert result.error_code == 0
    assert len(describe(client, "t")[0].partitions) == 1


def test_added_partitions_survive_a_kill(broker: RunningBroker) -> None:
    with broker.client() as client:
        create(client, "t")
        client.call(CreatePartitionsRequest([CreatePartitionsTopic("t", 3, None)]))
    broker.restart(kill=True)
    with broker.client() as client:
        assert produce(client, "t", b"x", partition=2) == 0
