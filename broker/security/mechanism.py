"""The interface between a SASL mechanism and the exchange that carries its tokens: tokens in, tokens out, finally a user name or
a failure.

Source: KAFKA SaslServer, and the exceptions that SaslServerAuthenticator handles.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class SaslAuthenticationError(Exception):
    """Authentication failed; the client receives this text (SaslAuthenticationException)."""


class SaslError(Exception):
    """Authentication failed; the client receives a generic text. This text is for the log and contains no secrets (SaslException)."""


class InvalidSaslMessage(Exception):
    """A message that no correct client sends. Kafka fails with an unexpected exception and closes the connection without a response, and
    so does this broker. The text is for the log.
    """


class Mechanism(Protocol):
    """The server's side of one SASL authentication in progress."""

    @property
    def complete(self) -> bool:
        """Whether the client has proved its identity."""
        ...

    @property
    def user(self) -> str | None:
        """The user name once `complete`; None if no rule maps the proved identity to a name."""
        ...

    @property
    def expires_ms(self) -> int | None:
        """The wall-clock time at which the credentials expire; None if they never expire."""
        ...

    @property
    def by_token(self) -> bool:
        """Whether the client authenticated with a delegation token."""
        ...

    def evaluate(self, token: bytes) -> bytes | None:
        """Return the token to respond with. None means no response; if the token came in a SaslAuthenticate request, an empty one is sent.
        Raises SaslAuthenticationError, SaslError or InvalidSaslMessage.
        """
        ...


MakeMechanism = Callable[[], Mechanism]
