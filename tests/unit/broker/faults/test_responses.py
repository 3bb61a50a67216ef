from __future__ import annotations

from random import Random
from typing import Any

import pytest

from client_compat.fuzz.messages import MessageMaker
from ottla.broker.api.routes import broker_routes
from ottla.broker.faults.responses import overwrite, refusal
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.codec import encode_response, request_class
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages import k00_produce as produce
from ottla.protocol.messages import k10_find_coordinator as find_coordinator
from ottla.protocol.messages import k24_add_partitions_to_txn as add_partitions
from ottla.protocol.messages import k30_create_acls as create_acls
from ottla.protocol.messages.k26_end_txn import EndTxnRequest, EndTxnResponse

ERROR = ErrorCode.NOT_LEADER_OR_FOLLOWER
SERVED = {ApiKey(key): route for key, route in broker_routes(telemetry=True).items()}


def test_a_refused_produce_names_each_partition_with_the_error() -> None:
    request = produce.ProduceRequest(
        topic_data=[
            produce.TopicProduceData("a", b"1" * 16, [produce.PartitionProduceData(0), produce.PartitionProduceData(3)]),
            produce.TopicProduceData("b", b"2" * 16, [produce.PartitionProduceData(1)]),
        ]
    )
    answer: produce.ProduceResponse = refusal(0, request, ERROR)
    codes = [
        (topic.name, topic.topic_id[:1], each.index, each.error_code) for topic in answer.responses for each in topic.partition_responses
    ]
    assert codes == [("a", b"1", 0, ERROR), ("a", b"1", 3, ERROR), ("b", b"2", 1, ERROR)]


def test_error_response_to_a_list_of_names_has_each_name() -> None:
    answer = refusal(10, find_coordinator.FindCoordinatorRequest(coordinator_keys=["g", "h"]), ERROR)
    assert [(each.key, each.error_code) for each in answer.coordinators] == [("g", ERROR), ("h", ERROR)]


def test_error_response_to_add_partitions_to_txn_has_each_partition() -> None:
    request = add_partitions.AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="tx", v3_and_below_topics=[add_partitions.AddPartitionsToTxnTopic("a", [1, 2])]
    )
    answer = refusal(24, request, ERROR)
    (topic,) = answer.results_by_topic_v3_and_below
    assert [(topic.name, each.partition_index, each.partition_error_code) for each in topic.results_by_partition] == [
        ("a", 1, ERROR),
        ("a", 2, ERROR),
    ]


def test_error_response_has_one_result_for_each_unnamed_element() -> None:
    answer = refusal(30, create_acls.CreateAclsRequest([create_acls.AclCreation(), create_acls.AclCreation()]), ERROR)
    assert [each.error_code for each in answer.results] == [ERROR, ERROR]


def test_error_response_without_elements_has_one_error() -> None:
    answer: EndTxnResponse = refusal(26, EndTxnRequest("tx"), ERROR)
    assert answer.error_code == ERROR


@pytest.mark.parametrize("api", SERVED, ids=lambda key: key.name)
def test_every_served_api_and_version_has_an_error_response(api: Any) -> None:
    for version in range(SERVED[api].min_version, SERVED[api].max_version + 1):
        assert encode_response(api, version, 1, refusal(api, request_class(api)(), ERROR))


@pytest.mark.parametrize("api", SERVED, ids=lambda key: key.name)
def test_error_response_can_be_built_for_random_requests(api: Any) -> None:
    """An error response can be built for any request, even a random one: before authentication a client may send anything, and no handler
    has validated it."""
    maker = MessageMaker(Random(int(api)))
    for version in range(SERVED[api].min_version, SERVED[api].max_version + 1):
        for _ in range(10):
            assert encode_response(api, version, 1, refusal(api, maker.make(request_class(api), version), ERROR))


def test_error_overwrites_only_the_selected_partitions() -> None:
    partitions = [produce.PartitionProduceResponse(index, base_offset=7) for index in range(2)]
    response = produce.ProduceResponse([produce.TopicProduceResponse("a", partition_responses=partitions)])
    overwrite(response, ERROR, lambda topic, partition: (topic, partition) == ("a", 1), lambda _: None)
    assert [(each.error_code, each.base_offset) for each in partitions] == [(0, 7), (ERROR, -1)]


def test_error_overwrites_a_response_without_elements_itself() -> None:
    response = EndTxnResponse()
    overwrite(response, ERROR, lambda _topic, _partition: True, lambda _: None)
    assert response.error_code == ERROR
