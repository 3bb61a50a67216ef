from __future__ import annotations

import pytest

from ottla.protocol.client import Client
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k46_list_partition_reassignments import ListPartitionReassignmentsRequest, ListPartitionReassignmentsTopics
from tests.support.topic_calls import create


@pytest.fixture
def client(client: Client) -> Client:
    """A client of a broker with a topic `t`."""
    create(client, "t")
    return client


def test_there_are_no_reassignments(client: Client) -> None:
    for topics in (None, [], [ListPartitionReassignmentsTopics("t", [0])]):
        answer = client.call(ListPartitionReassignmentsRequest(1_000, topics))
        assert (answer.error_code, answer.topics) == (ErrorCode.NONE, [])
