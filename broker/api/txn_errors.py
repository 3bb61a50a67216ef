"""Translates error codes in transaction responses for older clients, which do not know PRODUCER_FENCED."""

from __future__ import annotations

from ottla.protocol.error_codes import ErrorCode


def fenced_for(version: int, error: ErrorCode, *, since: int) -> ErrorCode:
    """Return `error`, but INVALID_PRODUCER_EPOCH in place of PRODUCER_FENCED if the request's version is below `since`, because clients of
    such versions do not know PRODUCER_FENCED.
    """
    return ErrorCode.INVALID_PRODUCER_EPOCH if error is ErrorCode.PRODUCER_FENCED and version < since else error
