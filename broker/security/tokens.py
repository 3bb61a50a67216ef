"""What proves a delegation token (KIP-48): made of its id and of the secret that all nodes share, and in no record.

Whoever has it logs in by SCRAM: the user is the token's id, the password is this in base64, the extension is `tokenauth=true`.

Source: KAFKA DelegationTokenManager.
"""

from __future__ import annotations

import base64
import hmac


def token_hmac(secret: str, token_id: str) -> bytes:
    """64 bytes."""
    return hmac.digest(secret.encode(), token_id.encode(), "sha512")


def token_password(secret: str, token_id: str) -> str:
    """With which the token logs in."""
    return base64.b64encode(token_hmac(secret, token_id)).decode()
