from __future__ import annotations

import pytest

from ottla.protocol.client import Client
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k03_metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.k10_find_coordinator import FindCoordinatorRequest
from tests.support.running_broker import RunningBroker


@pytest.mark.parametrize("version", range(4))
def test_the_first_request_is_answered_with_this_broker(broker: RunningBroker, client: Client, version: int) -> None:
    found = client.call(FindCoordinatorRequest("g"), version=version)
    assert (found.error_code, found.node_id, found.host, found.port) == (0, 1, "127.0.0.1", broker.port)


@pytest.mark.parametrize("version", [4, 5, 6])
def test_several_groups_are_found_with_one_request(broker: RunningBroker, client: Client, version: int) -> None:
    found = client.call(FindCoordinatorRequest(coordinator_keys=["g", "", "ü"]), version=version).coordinators
    assert [(one.key, one.error_code, one.node_id, one.host, one.port) for one in found] == [
        (key, 0, 1, "127.0.0.1", broker.port) for key in ("g", "", "ü")
    ]


def test_the_first_request_creates_the_offsets_topic_as_internal(client: Client) -> None:
    client.call(FindCoordinatorRequest(coordinator_keys=["g"]), version=6)
    (topic,) = client.call(MetadataRequest([MetadataRequestTopic(name="__consumer_offsets")], False)).topics
    assert (topic.error_code, topic.is_internal, len(topic.partitions)) == (0, True, 4)


@pytest.mark.parametrize(("key_type", "error"), [(2, ErrorCode.INVALID_REQUEST), (9, ErrorCode.INVALID_REQUEST)])
def test_an_unsupported_key_type_is_rejected(client: Client, key_type: int, error: ErrorCode) -> None:
    old = client.call(FindCoordinatorRequest("x", key_type), version=3)
    assert (old.error_code, old.node_id) == (error, -1)
    assert old.error_message
    (one,) = client.call(FindCoordinatorRequest(key_type=key_type, coordinator_keys=["x"]), version=6).coordinators
    assert (one.key, one.error_code, one.node_id, one.port) == ("x", error, -1, -1)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_transactional_id_is_coordinated_here(broker: RunningBroker, client: Client, version: int) -> None:
    found = client.call(FindCoordinatorRequest("tx", 1), version=version)
    assert (found.error_code, found.node_id, found.host, found.port) == (0, 1, "127.0.0.1", broker.port)


def test_the_first_request_for_a_transactional_id_creates_its_topic(client: Client) -> None:
    found = client.call(FindCoordinatorRequest(key_type=1, coordinator_keys=["a", "b"]), version=6).coordinators
    assert [(one.key, one.error_code) for one in found] == [("a", 0), ("b", 0)]
    (topic,) = client.call(MetadataRequest([MetadataRequestTopic(name="__transaction_state")], False)).topics
    assert (topic.error_code, topic.is_internal, len(topic.partitions)) == (0, True, 4)


def test_an_empty_transactional_id_is_rejected(client: Client) -> None:
    assert client.call(FindCoordinatorRequest("", 1), version=3).error_code == ErrorCode.INVALID_REQUEST
    found = client.call(FindCoordinatorRequest(key_type=1, coordinator_keys=["a", ""]), version=6).coordinators
    assert [one.error_code for one in found] == [0, ErrorCode.INVALID_REQUEST]


def test_the_coordinator_of_a_share_partition_is_found_by_a_key_of_group_topic_id_and_partition(
    broker: RunningBroker, client: Client
) -> None:
    keys = ["no key", "g:AAAAAAAAAAAAAAAAAAAAAQ:x", " :AAAAAAAAAAAAAAAAAAAAAQ:0"]
    refused = client.call(FindCoordinatorRequest(key_type=2, coordinator_keys=keys), version=6).coordinators
    assert [(one.key, one.error_code) for one in refused] == [(key, ErrorCode.INVALID_REQUEST) for key in keys]
    state = MetadataRequest([MetadataRequestTopic(name="__share_group_state")], False)
    assert client.call(state).topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    (found,) = client.call(FindCoordinatorRequest(key_type=2, coordinator_keys=["g:AAAAAAAAAAAAAAAAAAAAAQ:0"]), version=6).coordinators
    assert (found.error_code, found.node_id, found.port) == (0, 1, broker.port)
    assert client.call(state).topics[0].error_code == 0
