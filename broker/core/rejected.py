"""The exception for a request that is rejected with an error code. It is an expected result, not a failure of the broker."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from ottla.protocol.error_codes import ErrorCode

MESSAGE_CHARS_MAX = 1000
"""The most characters of an error message in a response. A message may quote the peer's text, such as a topic name of 65,535 bytes, but the
response field holds at most 32,767 bytes."""


class Rejected(Exception):
    """Raised when a rule rejects an operation. The request handler puts the error into the fields of its own response.

    `code` is Kafka's error and `message` the text of the errorMessage field; an empty message means that the code is sufficient.
    `record_errors` are pairs of (index in the batch, message) for Produce's recordErrors (KIP-467).
    """

    def __init__(self, code: ErrorCode, message: str = "", record_errors: Sequence[tuple[int, str]] = ()) -> None:
        message = clipped(message)
        super().__init__(code, message)
        self.code = code
        self.message = message
        self.record_errors = record_errors

    def without_traceback(self) -> Self:
        """Remove the traceback and return this error, so that it can be stored. The traceback's frames may refer to the object that stores
        the error: a reference cycle, which only the garbage collector frees."""
        self.__cause__ = self.__context__ = None
        return self.with_traceback(None)

    def __str__(self) -> str:
        return f"{self.code.name}: {self.message}" if self.message else self.code.name


def clipped(message: str) -> str:
    """Return `message`, or its beginning and an ellipsis if it has more than MESSAGE_CHARS_MAX characters and might not fit into the string
    field of a response."""
    return message if len(message) <= MESSAGE_CHARS_MAX else f"{message[:MESSAGE_CHARS_MAX]}…"


class VersionNotKnown(Exception):
    """Raised if the controller does not support the version of a client's request, because the client negotiated that version while another
    controller was active.
    """
