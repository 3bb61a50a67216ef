from __future__ import annotations

import pytest

from ottla.protocol.client import Client
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k45_alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from tests.support.topic_calls import create


@pytest.fixture
def client(client: Client) -> Client:
    """A client of a broker with a topic `t`."""
    create(client, "t")
    return client


@pytest.mark.parametrize("version", [0, 1])
def test_a_partition_cannot_be_reassigned_to_another_broker(client: Client, version: int) -> None:
    def moved(*replicas: int) -> int:
        request = AlterPartitionReassignmentsRequest(1_000, topics=[ReassignableTopic("t", [ReassignablePartition(0, list(replicas))])])
        code: int = client.call(request, version).responses[0].partitions[0].error_code
        return code

    assert moved(1) == ErrorCode.NONE
    assert moved(2) == moved() == ErrorCode.INVALID_REPLICA_ASSIGNMENT
