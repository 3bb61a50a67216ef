"""Decodes the requests that arrive at a controller's listener, calls their handlers and encodes the responses."""

from __future__ import annotations

from typing import Any, Final

from ottla.broker.api.context import Peer
from ottla.broker.api.dispatch import Dispatcher
from ottla.broker.api.large_requests import Compute
from ottla.broker.api.routes import controller_routes
from ottla.broker.api.services import ControllerServices
from ottla.broker.core import limits
from ottla.broker.faults.engine import Faults
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.wire import Buffer

_ENVELOPE: Final = ApiKey.ENVELOPE.to_bytes(2, "big")


class ControllerDispatcher(Dispatcher):
    """The dispatcher of a controller's listener: it decodes requests, calls handlers and encodes responses."""

    def __init__(self, services: ControllerServices, compute: Compute[Any] | None = None) -> None:
        super().__init__(services, Faults(), controller_routes(), compute)

    def may_exceed_request_limit(self, frame: Buffer) -> bool:
        """Return whether the frame may be larger than STRUCTURED_REQUEST_BYTES, the size limit of an ordinary request. Only an Envelope
        may, by at most ENVELOPE_BYTES, because it contains a forwarded client request, which can itself have STRUCTURED_REQUEST_BYTES.
        """
        return bytes(frame[:2]) == _ENVELOPE and len(frame) <= limits.STRUCTURED_REQUEST_BYTES + limits.ENVELOPE_BYTES

    def try_fast_path(self, peer: Peer, data: bytes, at: int) -> None:
        """Return None, so that every request is handled by `handle`. The fast path is a shortcut for Produce, which a controller does not
        serve."""
