"""How a refusal becomes two fields."""

from __future__ import annotations

from ottla.broker.core.rejected import Rejected


def error_fields(error: Rejected | None) -> tuple[int, str | None]:
    """`error_code` and `error_message`: 0 and null when there is no error, a null message when the code says it all."""
    return (0, None) if error is None else (error.code, error.message or None)
