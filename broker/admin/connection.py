"""Limits for connections of the admin port, which uvicorn does not set itself.

Rules:
- Beyond `ADMIN_CONNECTIONS`, a new connection is answered with 503 and closed.
- A peer has `ADMIN_PATIENCE_MS` to send a whole request, to send the next one, or to read a response; then the connection is closed.
  Sending or reading a few bytes does not restart that time.
- While the broker works on a request, there is no deadline.
"""

from __future__ import annotations

import asyncio
from typing import Final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from ottla.broker.core import limits

_FULL: Final = b"too many connections to the admin port\n"
_REFUSAL: Final = (
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: text/plain\r\ncontent-length: %d\r\nconnection: close\r\n\r\n" % len(_FULL) + _FULL
)


class BoundedConnection(H11Protocol):
    """An HTTP connection of uvicorn that is closed if the peer needs more than ADMIN_PATIENCE_MS to send a request or to read a
    response."""

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as uvicorn's own
        super().connection_made(transport)
        if len(self.connections) > limits.ADMIN_CONNECTIONS:
            transport.write(_REFUSAL)
            transport.close()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._cancel_deadline()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._watch()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._watch()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._watch()

    def _watch(self) -> None:
        """Start the timer that closes the connection, unless the timer runs already. Stop it while the broker works on a request."""
        request_received = self.conn.their_state not in (h11.IDLE, h11.SEND_BODY)
        if request_received and not self.flow.write_paused and not self.transport.is_closing():
            self._cancel_deadline()
        elif self._deadline is None:
            self._deadline = self.loop.call_later(limits.ADMIN_PATIENCE_MS / 1_000, self.transport.abort)

    def _cancel_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
