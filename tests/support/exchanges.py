"""Makes exchanges (a request with its response, as observers of a broker get them) with defaults for tests."""

from __future__ import annotations

from typing import Any

from ottla.broker.faults.engine import Exchange
from ottla.broker.faults.subject import subject_of
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.k12_heartbeat import HeartbeatRequest, HeartbeatResponse


def exchange_of(request: Any, response: Any, *, version: int = 4, client: str = "me", took_ms: float = 1.5, **others: Any) -> Exchange:
    """Make an exchange (a request with its response, as a broker's observers get it) of a request of 40 bytes on connection 7. `others` are
    further fields of the exchange."""
    subject = subject_of(ApiKey(request.API_KEY), client, 7, request, lambda _: None)
    return Exchange(
        subject, 1_700_000_000_123, version, request, response, size=40, took_ns=round(took_ms * 1e6), **{"seen": True, **others}
    )


def beat(error_code: int = 0, **others: Any) -> Exchange:
    """Make the exchange (a request with its response) of a Heartbeat in group "g" with this error code."""
    return exchange_of(HeartbeatRequest("g"), HeartbeatResponse(error_code=error_code), **others)
