"""SASL PLAIN: the client sends its user name and password in one token. Source: KAFKA PlainSaslServer, PlainServerCallbackHandler."""

from __future__ import annotations

import hmac
from collections.abc import Mapping

from ottla.broker.security.mechanism import SaslAuthenticationError

_TOKENS = 3


class Plain:
    """One client's authentication in progress with the SASL mechanism PLAIN. `passwords` maps user names to passwords; they come from the
    JAAS options `user_<name>`."""

    expires_ms = None
    by_token = False

    def __init__(self, passwords: Mapping[str, str]) -> None:
        self._passwords = passwords
        self.complete = False
        self.user = ""

    def evaluate(self, token: bytes) -> bytes:
        """Check the user name and password in the client's only token, and return the response, which is empty. Raises
        SaslAuthenticationError if the token is malformed or the password is wrong."""
        parts = token.decode("utf-8", "replace").split("\0")
        if len(parts) != _TOKENS:
            raise SaslAuthenticationError(f"Invalid SASL/PLAIN response: expected 3 tokens, got {min(len(parts), _TOKENS + 1)}")
        other, user, password = parts
        if not user:
            raise SaslAuthenticationError("Authentication failed: username not specified")
        if not password:
            raise SaslAuthenticationError("Authentication failed: password not specified")
        known = self._passwords.get(user)
        matches = hmac.compare_digest((known or "").encode(), password.encode())
        if known is None or not matches:
            raise SaslAuthenticationError("Authentication failed: Invalid username or password")
        if other and other != user:
            raise SaslAuthenticationError("Authentication failed: Client requested an authorization id that is different from username")
        self.user, self.complete = user, True
        return b""
