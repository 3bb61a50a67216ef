"""Security settings and the operation `connect` for kafka-python."""

from __future__ import annotations

import asyncio
from typing import Any

from kafka import KafkaAdminClient

from client_compat.clients.control import Request
from client_compat.clients.python.security import alike, token_of

try:
    from kafka.net.sasl.oauth import AbstractTokenProvider
except ImportError:  # before 3.0
    from kafka.oauth import AbstractTokenProvider

BOOTSTRAP_MS = 2_000


class _Token(AbstractTokenProvider):  # type: ignore[misc]  # the library has no types
    def __init__(self, token: str) -> None:
        super().__init__()
        self._token = token

    def token(self) -> str:
        return self._token


def keywords(request: Request) -> dict[str, Any]:
    token = token_of(request)
    return alike(request) | ({} if token is None else {"sasl_oauth_token_provider": _Token(token)})


async def connect(request: Request) -> int:
    """Connect in a thread, because the constructor blocks; return the number of brokers. For every failure, kafka-python reports only a
    timeout."""
    return await asyncio.to_thread(_connect, request)


def _connect(request: Request) -> int:
    admin = KafkaAdminClient(bootstrap_servers=request["bootstrap"], bootstrap_timeout_ms=BOOTSTRAP_MS, **keywords(request))
    try:
        return len(admin.describe_cluster()["brokers"])
    finally:
        admin.close()
