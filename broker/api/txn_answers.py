"""What transactional clients of different ages are told for the same refusal."""

from __future__ import annotations

from ottla.protocol.error_codes import ErrorCode


def fenced_for(version: int, error: ErrorCode, *, since: int) -> ErrorCode:
    """PRODUCER_FENCED, which versions below `since` do not know: to them it is INVALID_PRODUCER_EPOCH."""
    return ErrorCode.INVALID_PRODUCER_EPOCH if error is ErrorCode.PRODUCER_FENCED and version < since else error
