from __future__ import annotations

import pytest

from ottla.protocol.client import Client
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k03_metadata import MetadataRequest
from ottla.protocol.messages.k60_describe_cluster import DescribeClusterRequest
from tests.support.running_broker import RunningBroker


@pytest.mark.parametrize("version", range(3))
def test_every_version_agrees_with_metadata(broker: RunningBroker, client: Client, version: int) -> None:
    metadata = client.call(MetadataRequest([]))
    response = client.call(DescribeClusterRequest(), version=version)
    (broker,) = response.brokers
    assert (broker.broker_id, broker.host, broker.port) == (1, "127.0.0.1", broker.port)
    assert (response.error_code, response.cluster_id, response.controller_id) == (0, metadata.cluster_id, metadata.controller_id)


def test_authorized_operations_are_returned_when_requested(client: Client) -> None:
    assert client.call(DescribeClusterRequest()).cluster_authorized_operations == -0x80000000
    assert client.call(DescribeClusterRequest(include_cluster_authorized_operations=True)).cluster_authorized_operations > 0


@pytest.mark.parametrize(
    ("kind", "code", "message"),
    [
        (
            2,
            ErrorCode.MISMATCHED_ENDPOINT_TYPE,
            "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER",
        ),
        (3, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, "Unsupported endpoint type 3"),
    ],
)
def test_a_brokers_listener_returns_no_controllers(client: Client, kind: int, code: ErrorCode, message: str) -> None:
    response = client.call(DescribeClusterRequest(endpoint_type=kind))
    assert (response.error_code, response.error_message, response.brokers) == (code, message, [])
