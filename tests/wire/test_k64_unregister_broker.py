from __future__ import annotations

from ottla.protocol.client import Client
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k64_unregister_broker import UnregisterBrokerRequest


def test_the_only_broker_cannot_be_unregistered(client: Client) -> None:
    assert client.call(UnregisterBrokerRequest(9)).error_code == ErrorCode.BROKER_ID_NOT_REGISTERED
    assert client.call(UnregisterBrokerRequest(1)).error_code == ErrorCode.INVALID_REQUEST
