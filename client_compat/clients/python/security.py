"""Translates the argument `security` of the control protocol (CONTROL.md) to settings of the Python clients."""

from __future__ import annotations

import ssl
from typing import Any

from client_compat.clients.control import Request


def context(given: dict[str, Any]) -> ssl.SSLContext:
    """Return a TLS context that trusts the certificate authority in the file `given["ca"]`, verifies host names, and has the client
    certificate `given["certificate"]`, if any."""
    made = ssl.create_default_context(cafile=given["ca"])
    if (certificate := given.get("certificate")) is not None:
        made.load_cert_chain(certificate)
    return made


def alike(request: Request) -> dict[str, Any]:
    """Return the keyword arguments for the request's `security` that aiokafka and kafka-python have in common. The provider of OAUTHBEARER
    tokens is not among them, because it differs."""
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
    """Return the OAUTHBEARER token of the request's `security`; None if it has none."""
    given = request.get("security")
    token: str | None = None if given is None else given.get("token")
    return token
