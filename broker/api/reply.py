"""The dispatcher's reply to one request: bytes to send, nothing, or an instruction to close the connection."""

from __future__ import annotations

from enum import Enum
from typing import Final

from ottla.protocol.wire import Buffer


class Action(Enum):
    """An instruction to the connection, which the dispatcher returns in place of a response. The only one is to close the connection."""

    CLOSE = "close"


CLOSE: Final = Action.CLOSE
"""The reply that closes the connection, after the responses to all earlier requests are sent."""


class FinalResponse(list[Buffer]):
    """A reply that ends the connection: bytes to send, after which the connection is closed."""


Reply = list[Buffer] | None | Action
"""The dispatcher's result for one request: buffers to send, None for a request without a response (Produce with acks=0), or CLOSE."""
