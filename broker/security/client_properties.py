"""Makes client configurations for a listener with TLS or SASL, in the property names of several client libraries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

_MODULES: Final = "org.apache.kafka.common.security"
KINDS: Final = ("java", "librdkafka", "kafka-python", "aiokafka")


class ClientConnection(NamedTuple):
    """The information that a client needs to connect to a listener: its address and the security that it requires. `ca` is the path of a
    PEM file with the trusted certificates, None without TLS; `user` is None without SASL."""

    bootstrap: str
    ca: str | None = None
    user: str | None = None
    password: str = ""
    mechanism: str = "SCRAM-SHA-256"

    @property
    def protocol(self) -> str:
        """The name of the listener's security protocol in Kafka, such as `SASL_SSL`."""
        if self.user is None:
            return "PLAINTEXT" if self.ca is None else "SSL"
        return "SASL_PLAINTEXT" if self.ca is None else "SASL_SSL"


def client_properties(kind: str, connection: ClientConnection) -> dict[str, Any]:
    """Return the configuration for the client library `kind`: text properties for Java and librdkafka, keyword arguments for the Python
    libraries. Raises ValueError for an unknown kind.
    """
    if kind == "java":
        return _java(connection)
    if kind == "librdkafka":
        return _librdkafka(connection)
    if kind in {"kafka-python", "aiokafka"}:
        return _python(connection)
    raise ValueError(f"{kind!r} is not a kind of client: allowed are {', '.join(KINDS)}")


def _java(connection: ClientConnection) -> dict[str, Any]:
    found = {"bootstrap.servers": connection.bootstrap, "security.protocol": connection.protocol}
    if connection.ca is not None:
        found |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": connection.ca}
    if connection.user is not None:
        found["sasl.mechanism"] = connection.mechanism
        found["sasl.jaas.config"] = login_module(connection.mechanism, connection.user, connection.password)
    return found


def login_module(mechanism: str, user: str, password: str) -> str:
    """Return a value of `sasl.jaas.config` for a client that authenticates with this user name and password by PLAIN or SCRAM."""
    module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
    user, password = (text.replace("\\", "\\\\").replace('"', '\\"') for text in (user, password))
    return f'{_MODULES}.{module} required username="{user}" password="{password}";'


def _librdkafka(connection: ClientConnection) -> dict[str, Any]:
    found = {"bootstrap.servers": connection.bootstrap, "security.protocol": connection.protocol}
    if connection.ca is not None:
        found["ssl.ca.location"] = connection.ca
    if connection.user is not None:
        found |= {"sasl.mechanism": connection.mechanism, "sasl.username": connection.user, "sasl.password": connection.password}
    return found


def _python(connection: ClientConnection) -> dict[str, Any]:
    found: dict[str, Any] = {"bootstrap_servers": connection.bootstrap, "security_protocol": connection.protocol}
    if connection.ca is not None:
        import ssl  # noqa: PLC0415 # only with TLS

        found["ssl_context"] = ssl.create_default_context(cafile=connection.ca)
    if connection.user is not None:
        found["sasl_mechanism"] = connection.mechanism
        found |= {"sasl_plain_username": connection.user, "sasl_plain_password": connection.password}
    return found


def as_lines(properties: Mapping[str, Any]) -> list[str]:
    """Return `properties` as the lines of a .properties file. Backslashes are doubled, because the format uses them as escapes."""
    return [f"{name}={str(value).replace(chr(92), chr(92) * 2)}" for name, value in properties.items()]
