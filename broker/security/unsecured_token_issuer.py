"""Makes unsigned OAUTHBEARER tokens with which a node authenticates its own connections to other nodes. They are for tests only, and are
configured by the login module options `unsecuredLogin…`.

Source: KAFKA OAuthBearerUnsecuredLoginCallbackHandler.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from typing import Any, Final

_PREFIX: Final = "unsecuredLogin"
_LIFETIME_S: Final = "3600"
_RESERVED: Final = frozenset({"iat", "exp"})


class UnsecuredTokenIssuer:
    """Makes unsigned OAUTHBEARER tokens according to the `options` (`unsecuredLogin…`) of a login module. The constructor raises ValueError
    for invalid options."""

    def __init__(self, options: Mapping[str, str], now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._lifetime_s = int(options.get(f"{_PREFIX}LifetimeSeconds", _LIFETIME_S))
        self._claims = _claims(options)
        principal = options.get(f"{_PREFIX}PrincipalClaimName", "").strip() or "sub"
        if not isinstance(self._claims.get(principal), str) or not self._claims[principal].strip():
            raise ValueError(f"No principal name in JWT claim: set {_PREFIX}StringClaim_{principal} to this node's name")

    def issue(self) -> str:
        """Return a new unsigned token, issued at the current time."""
        now_ms = self._now_ms()
        claims = {"exp": now_ms / 1000 + self._lifetime_s, "iat": now_ms / 1000, **self._claims}
        return f"{_encoded({'alg': 'none'})}.{_encoded(claims)}."


def _claims(options: Mapping[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for option, text in options.items():
        kind, _, name = option.removeprefix(_PREFIX).partition("Claim_")
        if not option.startswith(_PREFIX) or not name or kind not in {"String", "Number", "List"}:
            continue
        if name in _RESERVED:
            raise ValueError(f"Cannot explicitly set the '{name}' claim")
        if kind == "String":
            found[name] = text
        else:
            found[name] = float(text) if kind == "Number" else text[1:].split(text[0]) if len(text) > 1 else []
    return found


def _encoded(part: Mapping[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(part, separators=(",", ":")).encode()).decode().rstrip("=")
