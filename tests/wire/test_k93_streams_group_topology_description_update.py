from __future__ import annotations

import pytest

from ottla.broker.core.acl import Operation, Resource
from ottla.protocol.client import Client
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k93_streams_group_topology_description_update import StreamsGroupTopologyDescriptionUpdateRequest
from ottla.protocol.messages.streams_group import TopologyDescription, TopologyDescriptionNode, TopologyDescriptionSubtopology
from tests.support.access import GUARDED, acl, allow, ann, bob
from tests.support.running_broker import RunningBroker

NODE = TopologyDescriptionNode("source", 1, ["t"], successors=["sink"])
UPDATE = StreamsGroupTopologyDescriptionUpdateRequest("g", "m", 0, TopologyDescription([TopologyDescriptionSubtopology("0", [NODE])]))


def test_without_a_plugin_no_description_is_stored(client: Client) -> None:
    response = client.call(UPDATE)
    assert (response.error_code, response.error_message) == (
        ErrorCode.UNSUPPORTED_VERSION,
        "The broker has no streams group topology description plugin configured.",
    )


@pytest.mark.broker_settings(GUARDED)
def test_the_right_to_read_the_group_is_checked(broker: RunningBroker) -> None:
    with bob(broker) as admin, ann(broker) as client:
        assert client.call(UPDATE).error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
        allow(admin, acl(Resource.GROUP, "g", Operation.READ))
        assert client.call(UPDATE).error_code == ErrorCode.UNSUPPORTED_VERSION


@pytest.mark.broker_settings({"group.coordinator.rebalance.protocols": "classic,consumer"})
def test_without_the_protocol_the_error_has_no_text(client: Client) -> None:
    response = client.call(UPDATE)
    assert (response.error_code, response.error_message) == (ErrorCode.UNSUPPORTED_VERSION, None)
