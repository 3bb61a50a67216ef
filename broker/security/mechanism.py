"""What a mechanism of SASL is to the exchange that carries it: tokens in, tokens out, and in the end a name, or a failure.

Source: KAFKA SaslServer, and how SaslServerAuthenticator tells what it throws.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class Refused(Exception):
    """The log-in failed; the text is told to the client (SaslAuthenticationException)."""


class Failed(Exception):
    """The log-in failed; the client is told in general words, the text is for the log and has no secret in it (SaslException)."""


class Broken(Exception):
    """What no client sends: Kafka comes upon it unprepared, and the connection closes without an answer. The text is for the log."""


class Mechanism(Protocol):
    """One log-in under way."""

    @property
    def complete(self) -> bool:
        """Whether the client has proved who it is."""
        ...

    @property
    def user(self) -> str | None:
        """Who; once it is complete. None: proved, but no rule makes a name of it."""
        ...

    @property
    def expires_ms(self) -> int | None:
        """When the proof is no longer good, by the wall clock; None: never."""
        ...

    @property
    def by_token(self) -> bool:
        """Whether a delegation token was the proof."""
        ...

    def evaluate(self, token: bytes) -> bytes | None:
        """The answer to a token of the client; None where there is none, which only a token in a request is answered. Raises Refused,
        Failed or Broken."""
        ...


MakeMechanism = Callable[[], Mechanism]
