from __future__ import annotations

import pytest

from ottla.protocol.client import Client
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages import k83_initialize_share_group_state as k83
from tests.support.access import GUARDED, ann
from tests.support.running_broker import RunningBroker
from tests.support.share_group_calls import initialize, only, prepare, read, refusals, summary


def test_state_begins_at_an_offset(broker: RunningBroker, client: Client) -> None:
    topic_id = prepare(client)
    assert initialize(client, topic_id, start_offset=5).error_code == 0
    broker.restart(kill=True)
    with broker.client() as again:
        found = read(again, topic_id)
        assert (found.error_code, found.state_epoch, found.start_offset, found.state_batches) == (0, 1, 5, [])
        assert summary(again, topic_id).delivery_complete_count == 0


def test_an_older_state_epoch_is_fenced(client: Client) -> None:
    topic_id = prepare(client)
    initialize(client, topic_id, epoch=3)
    refused = initialize(client, topic_id, epoch=2)
    assert refused.error_code == ErrorCode.FENCED_STATE_EPOCH
    assert refused.error_message == "The coordinator rejected the request because the state epoch did not match."


def test_unknown_partitions_are_refused(client: Client) -> None:
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert refusals(client, prepare(client), initialize) == [unknown, unknown, ErrorCode.INVALID_REQUEST]


def test_a_request_for_nothing_gets_an_empty_response(client: Client) -> None:
    assert client.call(k83.InitializeShareGroupStateRequest("", [])).results == []
    assert client.call(k83.InitializeShareGroupStateRequest("g", [k83.InitializeStateData(bytes(16), [])])).results == []


def test_a_broker_that_coordinates_no_share_state_says_so(client: Client) -> None:
    assert initialize(client, bytes(16)).error_code == ErrorCode.NOT_COORDINATOR


@pytest.mark.broker_settings(GUARDED)
def test_only_brokers_may_send_it(broker: RunningBroker) -> None:
    with ann(broker) as client:
        request = k83.InitializeShareGroupStateRequest("g", [k83.InitializeStateData(bytes(16), [k83.PartitionData(3, 0, 0)])])
        refused = only(client.call(request))
        assert (refused.partition, refused.error_code) == (3, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
