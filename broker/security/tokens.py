"""The HMAC of a delegation token (KIP-48), computed from the token's id and the nodes' shared `delegation.token.secret.key`. It is
never stored.

A client with the HMAC authenticates by SCRAM: the user is the token's id, the password is the HMAC in base64, with the extension
`tokenauth=true`.

Source: KAFKA DelegationTokenManager.
"""

from __future__ import annotations

import base64
import hmac
from functools import lru_cache

from ottla.broker.core import limits


@lru_cache(limits.TOKEN_HMACS)
def token_hmac(secret: str, token_id: str) -> bytes:
    """Return the HMAC of a delegation token: 64 bytes, computed from the token's id with the nodes' shared `secret`."""
    return hmac.digest(secret.encode(), token_id.encode(), "sha512")


def token_password(secret: str, token_id: str) -> str:
    """Return the SCRAM password of a delegation token's client: the token's HMAC in base64."""
    return base64.b64encode(token_hmac(secret, token_id)).decode()
