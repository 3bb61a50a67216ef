"""A request that we refuse is an answer, not a failure."""

from __future__ import annotations

from protocol.error_codes import ErrorCode


class Rejected(Exception):
    """Raised where a rule refuses an operation; a handler turns it into the fields of its own response.

    `code` is Kafka's error, `message` what its errorMessage field says to a human ("" means: the code says it all).
    """

    def __init__(self, code: ErrorCode, message: str = "") -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message

    def __str__(self) -> str:
        return f"{self.code.name}: {self.message}" if self.message else self.code.name
