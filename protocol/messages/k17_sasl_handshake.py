"""Choose a SASL mechanism.

Versions 0-1, never flexible: clients up to 2.4 negotiate it wrongly (KAFKA-9577).

* 1: tokens then go in SaslAuthenticate requests rather than in bare frames.
"""

from __future__ import annotations

from dataclasses import dataclass

from ottla.protocol.schema import Message, array, int16, string


@dataclass(slots=True)
class SaslHandshakeRequest(Message, api_key=17, versions="0-1"):
    mechanism: str = string()


@dataclass(slots=True)
class SaslHandshakeResponse(Message, api_key=17, versions="0-1"):
    error_code: int = int16()
    mechanisms: list[str] = array(string)
