"""What a client is configured with to come in, in the names of its own world."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

_MODULES: Final = "org.apache.kafka.common.security"
KINDS: Final = ("java", "librdkafka", "kafka-python", "aiokafka")


class Entrance(NamedTuple):
    """Where clients come in, and what is asked of them there: `ca` is a PEM file, where there is TLS; None for what is not asked."""

    bootstrap: str
    ca: str | None = None
    user: str | None = None
    password: str = ""
    mechanism: str = "SCRAM-SHA-256"

    @property
    def protocol(self) -> str:
        """The security protocol."""
        if self.user is None:
            return "PLAINTEXT" if self.ca is None else "SSL"
        return "SASL_PLAINTEXT" if self.ca is None else "SASL_SSL"


def client_properties(kind: str, entrance: Entrance) -> dict[str, Any]:
    """By names: text for Java and librdkafka, keyword arguments for the two of Python. Raises ValueError for another kind."""
    if kind == "java":
        return _java(entrance)
    if kind == "librdkafka":
        return _librdkafka(entrance)
    if kind in {"kafka-python", "aiokafka"}:
        return _python(entrance)
    raise ValueError(f"{kind!r} is no kind of client: one of {', '.join(KINDS)}")


def _java(entrance: Entrance) -> dict[str, Any]:
    found = {"bootstrap.servers": entrance.bootstrap, "security.protocol": entrance.protocol}
    if entrance.ca is not None:
        found |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": entrance.ca}
    if entrance.user is not None:
        found["sasl.mechanism"] = entrance.mechanism
        found["sasl.jaas.config"] = login_module(entrance.mechanism, entrance.user, entrance.password)
    return found


def login_module(mechanism: str, user: str, password: str) -> str:
    """As text of JAAS."""
    module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
    user, password = (text.replace("\\", "\\\\").replace('"', '\\"') for text in (user, password))
    return f'{_MODULES}.{module} required username="{user}" password="{password}";'


def _librdkafka(entrance: Entrance) -> dict[str, Any]:
    found = {"bootstrap.servers": entrance.bootstrap, "security.protocol": entrance.protocol}
    if entrance.ca is not None:
        found["ssl.ca.location"] = entrance.ca
    if entrance.user is not None:
        found |= {"sasl.mechanism": entrance.mechanism, "sasl.username": entrance.user, "sasl.password": entrance.password}
    return found


def _python(entrance: Entrance) -> dict[str, Any]:
    found: dict[str, Any] = {"bootstrap_servers": entrance.bootstrap, "security_protocol": entrance.protocol}
    if entrance.ca is not None:
        import ssl  # noqa: PLC0415 # only where there is TLS

        found["ssl_context"] = ssl.create_default_context(cafile=entrance.ca)
    if entrance.user is not None:
        found["sasl_mechanism"] = entrance.mechanism
        found |= {"sasl_plain_username": entrance.user, "sasl_plain_password": entrance.password}
    return found


def as_lines(properties: Mapping[str, Any]) -> list[str]:
    """As a file of properties has them, which would read a backslash of its own."""
    return [f"{name}={str(value).replace(chr(92), chr(92) * 2)}" for name, value in properties.items()]
