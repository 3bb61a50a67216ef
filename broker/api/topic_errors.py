"""Converts an error to the fields `error_code` and `error_message`, which the responses to administrative requests have for each topic,
configuration resource, ACL, quota or user."""

from __future__ import annotations

from ottla.broker.core.rejected import Rejected


def error_fields(error: Rejected | None) -> tuple[int, str | None]:
    """Return the values for the response fields `error_code` and `error_message`. They are 0 and null if `error` is None. The message is
    also null if `error` has only a code.
    """
    return (0, None) if error is None else (error.code, error.message or None)
