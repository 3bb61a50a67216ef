"""Error codes of transaction responses for older clients."""

from __future__ import annotations

from ottla.protocol.error_codes import ErrorCode


def fenced_for(version: int, error: ErrorCode, *, since: int) -> ErrorCode:
    """Return the error for this version: below `since`, PRODUCER_FENCED is unknown and becomes INVALID_PRODUCER_EPOCH."""
    return ErrorCode.INVALID_PRODUCER_EPOCH if error is ErrorCode.PRODUCER_FENCED and version < since else error
