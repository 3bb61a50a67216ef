"""Choose a SASL mechanism.

Versions 0-1, never flexible, because clients up to Kafka 2.4 would negotiate a new version wrongly (KAFKA-9577).

Changes by version:
* 1: the tokens that follow are sent in SaslAuthenticate requests, not as frames without a header.
"""

from __future__ import annotations

from ottla.protocol.schema import Message, array, int16, string, wire_struct


@wire_struct
class SaslHandshakeRequest(Message, api_key=17, versions="0-1"):
    mechanism: str = string()


@wire_struct
class SaslHandshakeResponse(Message, api_key=17, versions="0-1"):
    error_code: int = int16()
    mechanisms: list[str] = array(string)
