"""A client's request that a broker forwards to the controller, and the response to it (KIP-590).

Version 0, flexible. Request and response contain the whole client message, with its header and without its 4-byte size.
"""

from __future__ import annotations

from ottla.protocol.schema import Buffer, Message, bytes_, int16, wire_struct


@wire_struct
class EnvelopeRequest(Message, api_key=58, versions="0", flexible="0+"):
    request_data: Buffer = bytes_()
    request_principal: Buffer | None = bytes_(nullable="0+")
    client_host_address: Buffer = bytes_()


@wire_struct
class EnvelopeResponse(Message, api_key=58, versions="0", flexible="0+"):
    response_data: Buffer | None = bytes_(nullable="0+", default=None)
    error_code: int = int16()
