"""A principal as brokers send it to each other (Kafka's `DefaultKafkaPrincipalBuilder`): a version, and `DefaultPrincipalData`."""

from __future__ import annotations

from dataclasses import dataclass

from ottla.protocol.errors import ProtocolError
from ottla.protocol.schema import Message, boolean, decode, encode_prefixed, read_prefix, string


@dataclass(slots=True)
class DefaultPrincipalData(Message, versions="0", flexible="0+"):
    type: str = string()
    name: str = string()
    token_authenticated: bool = boolean()


def principal_bytes(kind: str, name: str, *, by_token: bool = False) -> bytes:
    """Encode a principal of type `kind` ("User"). `by_token` is true if the client authenticated with a delegation token."""
    return encode_prefixed(DefaultPrincipalData(kind, name, by_token), 0)


def read_principal(data: bytes) -> DefaultPrincipalData:
    """Decode a principal that `principal_bytes` encoded. Raises ProtocolError if the bytes are invalid or of an unknown version."""
    version, body = read_prefix(data)
    if version != 0:
        raise ProtocolError(f"a principal of version {version}")
    return decode(DefaultPrincipalData, body, version)
