"""A request that we refuse is an answer, not a failure."""

from __future__ import annotations

from collections.abc import Sequence

from ottla.protocol.error_codes import ErrorCode

MESSAGE_CHARS_MAX = 1000
"""A message may quote what the peer sent, 65,535 bytes of a topic's name for instance; the field that carries it holds 32,767."""


class Rejected(Exception):
    """Raised where a rule refuses an operation; a handler turns it into the fields of its own response.

    `code` is Kafka's error, `message` what its errorMessage field says to a human ("" means: the code says it all). `record_errors` are the
    (index in the batch, message) of single records, for Produce's recordErrors (KIP-467).
    """

    def __init__(self, code: ErrorCode, message: str = "", record_errors: Sequence[tuple[int, str]] = ()) -> None:
        if len(message) > MESSAGE_CHARS_MAX:
            message = f"{message[:MESSAGE_CHARS_MAX]}…"
        super().__init__(code, message)
        self.code = code
        self.message = message
        self.record_errors = record_errors

    def __str__(self) -> str:
        return f"{self.code.name}: {self.message}" if self.message else self.code.name
