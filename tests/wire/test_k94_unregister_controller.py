from __future__ import annotations

from pathlib import Path

import pytest

from ottla.broker.process import StartError
from ottla.broker.testing.in_process import InProcessBroker
from ottla.protocol.client import Client
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k94_unregister_controller import UnregisterControllerRequest


@pytest.mark.parametrize(
    ("controller_id", "code", "message"),
    [
        (1, ErrorCode.INVALID_REQUEST, "Controller cannot unregister itself while it is active."),
        (9, ErrorCode.CONTROLLER_ID_NOT_REGISTERED, "Controller ID 9 is not currently registered."),
    ],
    ids=["the active controller", "an unknown controller"],
)
def test_no_controller_of_a_standalone_node_can_be_unregistered(client: Client, controller_id: int, code: ErrorCode, message: str) -> None:
    response = client.call(UnregisterControllerRequest(controller_id))
    assert (response.error_code, response.error_message) == (code, message)


def test_a_directory_of_4_3_has_a_metadata_version_without_unregistration(tmp_path: Path) -> None:
    with InProcessBroker(tmp_path, like="4.3"):
        pass
    with InProcessBroker(tmp_path) as broker, Client("127.0.0.1", broker.port) as client:
        assert client.call(UnregisterControllerRequest(9)).error_code == ErrorCode.UNSUPPORTED_VERSION


def test_a_directory_of_4_4_does_not_open_as_4_3(tmp_path: Path) -> None:
    with InProcessBroker(tmp_path):
        pass
    refusal = r"metadata\.version is at level 33, and Apache Kafka 4\.3 supports at most 30"
    with pytest.raises(StartError, match=refusal), InProcessBroker(tmp_path, like="4.3"):
        pass
