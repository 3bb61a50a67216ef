"""UnregisterBroker (key 64), version 0, on a standalone node (KIP-631).

Deviation: Kafka unregisters even the only broker, which then leads nothing until its restart; here that is rejected.
"""

from __future__ import annotations

from ottla.broker.api.access import for_cluster
from ottla.broker.api.context import Context
from ottla.broker.core.acl import Operation
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k64_unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse


def _handle(ctx: Context, request: UnregisterBrokerRequest) -> UnregisterBrokerResponse:
    """Reject the request: the only broker cannot be unregistered, and no other is registered."""
    if request.broker_id == ctx.services.node_id:
        return UnregisterBrokerResponse(error_code=ErrorCode.INVALID_REQUEST, error_message="The only broker cannot be unregistered.")
    message = f"Broker ID {request.broker_id} is not currently registered"
    return UnregisterBrokerResponse(error_code=ErrorCode.BROKER_ID_NOT_REGISTERED, error_message=message)


handle = for_cluster(Operation.ALTER, _handle)
