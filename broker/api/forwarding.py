"""Requests that a broker forwards to the controller (KIP-590), and their versions in ApiVersions.

If the controller does not respond, the request is rejected with an error for each element (`Request.getErrorResponse`). A version that
the controller does not support closes the connection, so that the client requests the versions again.
"""

from __future__ import annotations

import logging
from typing import TypeVar

from ottla.broker.api.context import CloseConnection, Context, Forwarding
from ottla.broker.api.routes import FORWARDABLE, Routes
from ottla.broker.api.services import ClusterServices
from ottla.broker.core.peer_log import PEERS
from ottla.broker.core.rejected import Rejected, VersionNotKnown
from ottla.protocol.messages.k18_api_versions import ApiVersion
from ottla.protocol.schema import Message

ResponseT = TypeVar("ResponseT", bound=Message)

peer_logger = logging.getLogger(PEERS)


async def handle(ctx: Context[ClusterServices], request: Message) -> Message:
    """Forward a request to the controller and return its response, or a rejecting response if the controller does not answer. Raises
    CloseConnection if the controller does not support the request's version.
    """
    try:
        answer: Message = await ctx.services.forwarding.forward(request, ctx.version, ctx.client_id, ctx.peer)
    except VersionNotKnown as error:
        raise CloseConnection(str(error)) from error
    except Rejected as error:
        peer_logger.info("The controller did not answer API key %d: %s", request.API_KEY, error)
        from ottla.broker.api.error_response import error_response  # noqa: PLC0415 # keeps it out of the start-up time

        answer = error_response(request.API_KEY, ctx.version, request, error.code, str(error))
    return answer


async def forward(ctx: Context[ClusterServices], request: Message, response: type[ResponseT]) -> ResponseT:
    """Forward a request that the broker's own handler has checked. Return the controller's response, or a rejecting one if the controller
    does not answer; `response` is the class of both. Raises CloseConnection if the controller does not support the request's version.
    """
    answer = await handle(ctx, request)
    assert isinstance(answer, response)
    return answer


def advertised_apis(forwarding: Forwarding, routes: Routes) -> list[ApiVersion]:
    """Return the APIs that a broker lists in ApiVersions after it has reached the controller. An API whose requests are forwarded has only
    the versions that both this broker and the controller support; if there are none, it is omitted (KAFKA
    ApiVersionsResponse.intersectForwardableApis).
    """
    out = []
    for key, route in routes.items():
        first, last = route.advertised_min, route.max_version
        if key in FORWARDABLE:
            its_first, its_last = forwarding.versions(key) or (0, -1)
            first, last = max(first, its_first), min(last, its_last)
        if first <= last:
            out.append(ApiVersion(key, first, last))
    return out
