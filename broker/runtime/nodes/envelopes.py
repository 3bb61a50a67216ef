"""Forwards a client's request to the controller in an Envelope request (KIP-590, Kafka's `ForwardingManagerImpl`).

The envelope carries the client's principal and address, and its request at the client's version and with its client id. The request is
encoded again from the decoded message, so this broker can also decode the response.
"""

from __future__ import annotations

from ipaddress import ip_address
from typing import Any

from ottla.broker.core import limits
from ottla.broker.core.rejected import Rejected, VersionNotKnown
from ottla.broker.runtime.metadata.topic_making import Client
from ottla.broker.runtime.nodes.controller_channel import ControllerAuthenticationFailed, ControllerChannel, ControllerUnreachable
from ottla.broker.runtime.nodes.link import UnsupportedByPeer
from ottla.protocol.codec import decode_response, encode_request
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.errors import ProtocolError
from ottla.protocol.frame import PREFIX_BYTES
from ottla.protocol.messages.k58_envelope import EnvelopeRequest, EnvelopeResponse
from ottla.protocol.principal import principal_bytes
from ottla.protocol.schema import Message

_CORRELATION_ID = 0
_NO_ADDRESS = bytes(4)


class EnvelopeForwarding:
    """Forwards clients' requests to the controller in Envelope requests. `versions` returns the version range of an API that the controller
    supports (`ControllerChannel.versions`).
    """

    def __init__(self, channel: ControllerChannel) -> None:
        self._channel = channel
        self.versions = channel.versions

    async def forward(self, request: Message, version: int, client_id: str | None, client: Client) -> Any:
        """Forward the request of `client` and return the controller's response. The request has the client's request version, `version`,
        and its client id.

        Raises VersionNotKnown if the controller does not support `version`, and Rejected(REQUEST_TIMED_OUT) without a response in time.
        Raises Rejected(UNKNOWN_SERVER_ERROR) if the controller rejects the envelope or this broker's credentials, which is no fault of the
        client.
        """
        written = b"".join(encode_request(request.API_KEY, version, _CORRELATION_ID, client_id, request))
        envelope = EnvelopeRequest(written[PREFIX_BYTES:], _principal_of(client), _address_bytes(client.host))
        try:
            answer: EnvelopeResponse = await self._channel.call(envelope)
        except ControllerAuthenticationFailed as error:
            raise Rejected(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)) from error
        except ControllerUnreachable as error:
            raise Rejected(ErrorCode.REQUEST_TIMED_OUT, str(error)) from error
        except UnsupportedByPeer as error:
            raise Rejected(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)) from error
        if answer.error_code == ErrorCode.UNSUPPORTED_VERSION:
            raise VersionNotKnown(f"the controller does not know version {version} of api key {request.API_KEY}")
        if answer.error_code != ErrorCode.NONE:
            raise Rejected(ErrorCode.UNKNOWN_SERVER_ERROR, f"the controller refuses the envelope with error {answer.error_code}")
        try:
            data = answer.response_data or b""
            correlation_id, response = decode_response(request.API_KEY, version, data, limits.NODE_RESPONSE_ELEMENTS)
        except ProtocolError as error:
            raise Rejected(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)) from error
        if correlation_id != _CORRELATION_ID:
            raise Rejected(ErrorCode.UNKNOWN_SERVER_ERROR, f"the envelope holds the answer to request {correlation_id}")
        return response


def _principal_of(client: Client) -> bytes:
    return principal_bytes(client.principal.kind, client.principal.name, by_token=client.token_authenticated)


def _address_bytes(host: str) -> bytes:
    """Return the IP address `host` in 4 or 16 bytes; four zero bytes if `host` is not an IP address."""
    try:
        return ip_address(host.partition("%")[0]).packed
    except ValueError:
        return _NO_ADDRESS
