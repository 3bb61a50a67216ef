from __future__ import annotations

import pytest

from ottla.protocol.client import Client
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k43_elect_leaders import ElectLeadersRequest, TopicPartitions
from tests.support.topic_calls import create


@pytest.fixture
def client(client: Client) -> Client:
    """A client of a broker with a topic `t`."""
    create(client, "t")
    return client


@pytest.mark.parametrize("version", [0, 1, 2])
def test_no_election_is_needed(client: Client, version: int) -> None:
    answer = client.call(ElectLeadersRequest(0, [TopicPartitions("t", [0, 1])]), version)
    codes = [each.error_code for each in answer.replica_election_results[0].partition_result]
    assert codes == [ErrorCode.ELECTION_NOT_NEEDED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
