"""Security settings and the operation `connect` for aiokafka."""

from __future__ import annotations

from typing import Any

from aiokafka.abc import AbstractTokenProvider
from aiokafka.client import AIOKafkaClient

from client_compat.clients.control import Request
from client_compat.clients.python.security import alike, token_of


class _Token(AbstractTokenProvider):  # type: ignore[misc]  # the library has no types
    def __init__(self, token: str) -> None:
        self._token = token

    async def token(self) -> str:
        return self._token


def keywords(request: Request) -> dict[str, Any]:
    token = token_of(request)
    return alike(request) | ({} if token is None else {"sasl_oauth_token_provider": _Token(token)})


async def connect(request: Request) -> int:
    client = AIOKafkaClient(bootstrap_servers=request["bootstrap"], **keywords(request))
    try:
        await client.bootstrap()
        return len(client.cluster.brokers())
    finally:
        await client.close()
