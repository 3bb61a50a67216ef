"""The interface between a SASL mechanism and the code that receives and sends its tokens. A mechanism gets the client's tokens and returns
response tokens; in the end, it has a user name or raises an exception.

Source: KAFKA SaslServer, and the exceptions that SaslServerAuthenticator handles.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class SaslAuthenticationError(Exception):
    """Authentication failed, and the client receives the text of this exception (as with Kafka's SaslAuthenticationException)."""


class SaslError(Exception):
    """Authentication failed, and the client receives only a generic text (as with Java's SaslException). The text of this exception is for
    the log and contains no secrets."""


class InvalidSaslMessage(Exception):
    """A SASL message that no correct client sends. The connection is closed without a response, because Kafka also fails with an unexpected
    exception and closes it. The text is for the log."""


class Mechanism(Protocol):
    """The server's side of a SASL mechanism, for one authentication in progress."""

    @property
    def complete(self) -> bool:
        """Whether the client has proved its identity."""
        ...

    @property
    def user(self) -> str | None:
        """The user name, valid when `complete` is True. None if no mapping rule maps the client's identity to a user name."""
        ...

    @property
    def expires_ms(self) -> int | None:
        """The wall-clock time in ms at which the client's credentials expire; None if they never expire."""
        ...

    @property
    def by_token(self) -> bool:
        """Whether the client authenticated with a delegation token."""
        ...

    def evaluate(self, token: bytes) -> bytes | None:
        """Process a SASL token of the client and return the response token. None means no response; but a SaslAuthenticate request is then
        answered with an empty token. If authentication fails, raises SaslAuthenticationError, SaslError or InvalidSaslMessage, which differ
        in the text that the client receives."""
        ...


MakeMechanism = Callable[[], Mechanism]
