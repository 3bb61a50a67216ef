"""Error codes of transaction responses for older clients."""

from __future__ import annotations

from ottla.protocol.error_codes import ErrorCode


def fenced_for(version: int, error: ErrorCode, *, since: int) -> ErrorCode:
    """Return `error` as the error code for a response of this version: below version `since`, clients do not know PRODUCER_FENCED, so they
    get INVALID_PRODUCER_EPOCH instead.
    """
    return ErrorCode.INVALID_PRODUCER_EPOCH if error is ErrorCode.PRODUCER_FENCED and version < since else error
