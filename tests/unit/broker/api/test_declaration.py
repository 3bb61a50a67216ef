from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ottla.broker.api.context import Context, Listener, Peer
from ottla.broker.api.declaration import Api
from ottla.broker.api.served_api import Forwarded, ListenerType
from ottla.broker.core.acl import Operation
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k27_write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from ottla.protocol.messages.k45_alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.protocol.messages.k56_alter_partition import AlterPartitionRequest, AlterPartitionResponse, TopicData
from ottla.protocol.schema import Message

DENIED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
PEER = Peer("127.0.0.1", "127.0.0.1", 9092, Listener("PLAINTEXT", "127.0.0.1", 9092))
ALTERING = AlterPartitionReassignmentsRequest(topics=[ReassignableTopic("t", [ReassignablePartition(0), ReassignablePartition(1)])])


def services(*granted: Operation) -> Any:
    """Return the services of a node that grants operations on the cluster."""
    return SimpleNamespace(authorizer=SimpleNamespace(allowed=lambda asking, operation, resource, name, *, quietly: operation in granted))


def ask(api: Api[Any], listener: ListenerType, request: Message, *granted: Operation) -> Any:
    return api.handlers[listener](Context(request.MAX_VERSION, "test", PEER, services(*granted)), request)


def test_both_listeners_can_have_the_same_handler_with_a_required_operation() -> None:
    api = Api(AlterPartitionReassignmentsRequest, forwarded=Forwarded.ALWAYS)

    @api.on_both(requires=Operation.ALTER)
    def handle(ctx: Context[Any], request: AlterPartitionReassignmentsRequest) -> AlterPartitionReassignmentsResponse:
        return AlterPartitionReassignmentsResponse(error_message="handled")

    for listener in ListenerType:
        assert ask(api, listener, ALTERING, Operation.ALTER).error_message == "handled"
        answer = ask(api, listener, ALTERING, Operation.DESCRIBE)
        assert answer.error_code == DENIED
        assert [[each.error_code for each in topic.partitions] for topic in answer.responses] == [[DENIED, DENIED]]
    assert api.served.listeners == ListenerType.BROKER | ListenerType.CONTROLLER


def test_a_listener_has_its_own_handler_and_its_own_required_operation() -> None:
    api = Api(AlterPartitionReassignmentsRequest)

    @api.on_broker()
    def handle(ctx: Context[Any], request: AlterPartitionReassignmentsRequest) -> AlterPartitionReassignmentsResponse:
        return AlterPartitionReassignmentsResponse(error_message="broker")

    @api.on_controller(requires=Operation.ALTER)
    def handle_on_controller(ctx: Context[Any], request: AlterPartitionReassignmentsRequest) -> AlterPartitionReassignmentsResponse:
        return AlterPartitionReassignmentsResponse(error_message="controller")

    assert ask(api, ListenerType.BROKER, ALTERING).error_message == "broker"
    assert ask(api, ListenerType.CONTROLLER, ALTERING).error_code == DENIED
    assert ask(api, ListenerType.CONTROLLER, ALTERING, Operation.ALTER).error_message == "controller"


def test_a_denied_request_of_another_node_gets_the_error_of_the_whole_response_only() -> None:
    api = Api(AlterPartitionRequest, throttled=False)

    @api.on_controller(requires=Operation.CLUSTER_ACTION)
    def handle(ctx: Context[Any], request: AlterPartitionRequest) -> AlterPartitionResponse:
        return AlterPartitionResponse()

    answer = ask(api, ListenerType.CONTROLLER, AlterPartitionRequest(topics=[TopicData(bytes(16))]))
    assert (answer.error_code, answer.topics) == (DENIED, [])


def test_a_denied_request_of_another_node_gets_an_error_for_each_element_if_the_response_has_no_other() -> None:
    api = Api(WriteTxnMarkersRequest, throttled=False)

    @api.on_broker(requires=Operation.CLUSTER_ACTION)
    def handle(ctx: Context[Any], request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
        return WriteTxnMarkersResponse()

    request = WriteTxnMarkersRequest([WritableTxnMarker(7, 0, True, [WritableTxnMarkerTopic("t", [0])])])
    (marker,) = ask(api, ListenerType.BROKER, request).markers
    assert [each.error_code for each in marker.topics[0].partitions] == [DENIED]


@pytest.mark.parametrize(("forwarded", "listeners"), [(Forwarded.ALWAYS, ListenerType.BROKER), (Forwarded.IN_PART, ListenerType(0))])
def test_an_api_that_brokers_always_forward_is_served_by_them_without_a_handler(forwarded: Forwarded, listeners: ListenerType) -> None:
    assert Api(AlterPartitionReassignmentsRequest, forwarded=forwarded).served.listeners == listeners
