"""The argument `security` of CONTROL.md in the words of Python's clients."""

from __future__ import annotations

import ssl
from typing import Any

from client_compat.clients.control import Request


def context(given: dict[str, Any]) -> ssl.SSLContext:
    """What aiokafka and kafka-python take: it trusts the one authority, looks at the host, and shows the certificate, if one is given."""
    made = ssl.create_default_context(cafile=given["ca"])
    if (certificate := given.get("certificate")) is not None:
        made.load_cert_chain(certificate)
    return made


def alike(request: Request) -> dict[str, Any]:
    """The keywords that aiokafka and kafka-python have alike; a token is each library's own to bring."""
    given = request.get("security")
    if given is None:
        return {}
    found: dict[str, Any] = {"security_protocol": given["protocol"]}
    if "ca" in given:
        found["ssl_context"] = context(given)
    if "mechanism" in given:
        found["sasl_mechanism"] = given["mechanism"]
    if "password" in given:
        found |= {"sasl_plain_username": given["user"], "sasl_plain_password": given["password"]}
    return found


def token_of(request: Request) -> str | None:
    """The bearer's token that is to be shown."""
    given = request.get("security")
    token: str | None = None if given is None else given.get("token")
    return token
