"""The error fields of responses."""

from __future__ import annotations

from ottla.broker.core.rejected import Rejected


def error_fields(error: Rejected | None) -> tuple[int, str | None]:
    """Return `error_code` and `error_message`: 0 and null without an error; a null message if the code is sufficient."""
    return (0, None) if error is None else (error.code, error.message or None)
