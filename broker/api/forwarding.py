"""Requests that a member of a cluster does not decide, but the controller (KIP-590): how they are answered, and which are listed.

A request without an answer is refused as a whole, each thing in it by name (`Request.getErrorResponse`). A version that the controller does
not know ends the connection, so that the client asks for versions again.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from ottla.broker.api.context import CloseConnection, Context
from ottla.broker.api.routes import FORWARDED, ROUTES_OF_A_MEMBER, SPLIT, Route
from ottla.broker.core.peer_log import PEERS
from ottla.broker.core.rejected import Rejected
from ottla.broker.faults.answers import refusal
from ottla.broker.runtime.nodes.envelopes import Forwarding, VersionNotKnown
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.k18_api_versions import ApiVersion
from ottla.protocol.schema import Message

peer_logger = logging.getLogger(PEERS)


async def handle(ctx: Context, request: Message) -> Any:
    """The controller's response, or the refusal that stands for it. Raises CloseConnection."""
    forwarding = ctx.services.forwarding
    assert forwarding is not None
    try:
        return await forwarding.forward(request, ctx.version, ctx.client_id, ctx.peer)
    except VersionNotKnown as error:
        raise CloseConnection(str(error)) from error
    except Rejected as error:
        peer_logger.info("Api key %d was not answered by the controller: %s", request.API_KEY, error)
        return refusal(request.API_KEY, request, error.code)


def listed(forwarding: Forwarding, routes: Mapping[int, Route] = ROUTES_OF_A_MEMBER) -> list[ApiVersion]:
    """What ApiVersions tells: of each API that the controller decides only the versions that it knows too, once it was asked anything
    (`ApiVersionsResponse.intersectForwardableApis`)."""
    known = forwarding.versions(ApiKey.API_VERSIONS) is not None
    out = []
    for key, route in sorted(routes.items()):
        first, last = route.advertised_min, route.max_version
        if known and (key in FORWARDED or key in SPLIT):
            its_first, its_last = forwarding.versions(key) or (0, -1)
            first, last = max(first, its_first), min(last, its_last)
        if first <= last:
            out.append(ApiVersion(key, first, last))
    return out
