"""Envelope (key 58), version 0: a client's request that a broker forwards, handled as if the client had sent it to the controller
(KIP-590).

Only a broker may send one, with CLUSTER_ACTION; the request inside is authorized for the client that the envelope names. A request that
must not be forwarded is INVALID_REQUEST. A request that cannot be parsed, or has an unsupported version, is UNSUPPORTED_VERSION; the broker
then closes that client's connection (Kafka's `EnvelopeUtils`). The broker's own connection is never closed because of a client's request.
Kafka's brokers forward requests with any number of elements, so the request inside is subject to the same limits as a client's request, and
a large one is handled in parts.
"""

from __future__ import annotations

import inspect
from dataclasses import replace
from functools import partial
from ipaddress import ip_address
from typing import Final

from ottla.broker.api.context import CloseConnection, Context
from ottla.broker.api.declaration import Api
from ottla.broker.api.large_requests import LargeRequests
from ottla.broker.api.request_parts import oversized_array, split_of
from ottla.broker.api.routes import FORWARDABLE, controller_routes
from ottla.broker.api.services import ControllerServices
from ottla.broker.core import limits
from ottla.broker.core.acl import Operation
from ottla.broker.core.principal import Principal
from ottla.protocol.codec import decode_request, encode_response
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.errors import ProtocolError
from ottla.protocol.frame import PREFIX_BYTES
from ottla.protocol.messages.k58_envelope import EnvelopeRequest, EnvelopeResponse
from ottla.protocol.principal import read_principal

API = Api(EnvelopeRequest, throttled=False)
_ADDRESS_BYTES: Final = (4, 16)


@API.on_controller(requires=Operation.CLUSTER_ACTION)
async def handle(ctx: Context[ControllerServices], request: EnvelopeRequest) -> EnvelopeResponse:
    """Unwrap the client request in the envelope, call its handler, and return the handler's response in an envelope."""
    try:
        forwarded = read_principal(bytes(request.request_principal or b""))
    except ProtocolError:
        return EnvelopeResponse(error_code=ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE)
    if len(request.client_host_address) not in _ADDRESS_BYTES:
        return EnvelopeResponse(error_code=ErrorCode.INVALID_REQUEST)
    compute = ctx.services.compute if len(request.request_data) > limits.SPLIT_REQUEST_BYTES else None
    decode = partial(decode_request, request.request_data)
    try:
        inside = decode() if compute is None else await compute(decode)
    except ProtocolError:
        return EnvelopeResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    header = inside.header
    if header.api_key not in FORWARDABLE:
        return EnvelopeResponse(error_code=ErrorCode.INVALID_REQUEST)
    route = controller_routes().get(header.api_key)
    if route is None or not route.min_version <= header.api_version <= route.max_version or oversized_array(inside.body) is not None:
        return EnvelopeResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    client = replace(
        ctx.peer,
        host=str(ip_address(bytes(request.client_host_address))),
        principal=Principal(forwarded.type, forwarded.name),
        token_authenticated=forwarded.token_authenticated,
        is_forwarded=True,
    )
    inner = Context(header.api_version, header.client_id, client, ctx.services, header.api_key)
    try:
        split = None if compute is None else split_of(inside.body)
        if split is None or compute is None:
            answer = route.handle(inner, inside.body)
        else:
            answer = LargeRequests(ctx.services.clock, ctx.services.turns, compute, None).handle_in_parts(
                inner, route.handle, inside.body, split
            )
        if inspect.isawaitable(answer):
            if split is None:
                ctx.peer.begin_wait()
            answer = await answer
        response = answer
    except CloseConnection:
        return EnvelopeResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    assert response is not None  # every forwardable request has a response
    encode = partial(encode_response, header.api_key, header.api_version, header.correlation_id, response)
    written = b"".join(encode() if compute is None else await compute(encode))
    return EnvelopeResponse(written[PREFIX_BYTES:])
