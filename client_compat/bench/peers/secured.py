"""A broker, Ottla or Apache Kafka, with an additional TLS listener for the benchmark's TLS cases. Its plaintext listener serves everything
else.

Rule: both kinds have the same TLS settings and a certificate of the same kind, and otherwise their defaults.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import trustme

from client_compat.bench.peers.shipped import KAFKA_JVM, KAFKA_SETTINGS
from client_compat.kafka.reference import ReferenceBroker
from client_compat.support.brokers import HOST, BrokerProcess
from client_compat.support.pem import write_key_and_chain
from client_compat.support.ports import free_port

OTTLA = (sys.executable, "-m", "ottla")


@dataclass(slots=True, kw_only=True)
class SecuredProcess(BrokerProcess):
    """A broker with TLS at `tls_bootstrap`; its clients trust the authority in the file `ca`."""

    tls_bootstrap: str
    ca: Path

    def client_properties(self) -> dict[str, str]:
        """Return librdkafka's settings for the broker's TLS listener."""
        return {"bootstrap.servers": self.tls_bootstrap, "security.protocol": "SSL", "ssl.ca.location": str(self.ca)}


def ottla(directory: Path, command: Sequence[str] = OTTLA) -> SecuredProcess:
    """Return an Ottla broker with TLS, not started. `command` is its program, by default that of this checkout."""
    port, tls_port = free_port(), free_port()
    file = directory / "server.properties"
    settings = _settings(directory, {"PLAINTEXT": port, "TLS": tls_port})
    file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    argv = [*command, "serve", "--data-dir", str(directory / "data"), "--config", str(file)]
    return SecuredProcess(argv, port, directory / "broker.log", tls_bootstrap=f"{HOST}:{tls_port}", ca=_authority(directory))


def kafka(directory: Path) -> SecuredProcess:
    """Format an Apache Kafka broker with TLS and return it, not started. Raises `KafkaMissing` if Apache Kafka is not available, or
    `BrokerFailed` if formatting fails."""
    reference, tls_port = ReferenceBroker(directory / "data", KAFKA_SETTINGS, jvm=KAFKA_JVM), free_port()
    ports = {"PLAINTEXT": reference.port, "TLS": tls_port, "CONTROLLER": reference.controller_port}
    reference.settings = {**KAFKA_SETTINGS, **_settings(directory, ports)}
    reference.format()
    broker = reference.broker
    return SecuredProcess(
        broker.argv, broker.port, broker.output, broker.name, tls_bootstrap=f"{HOST}:{tls_port}", ca=_authority(directory)
    )


def _authority(directory: Path) -> Path:
    return directory / "ca.pem"


def _settings(directory: Path, ports: dict[str, int]) -> dict[str, str]:
    """Return the broker settings that Ottla and Apache Kafka share, and write the certificate files that they name."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(_authority(directory))
    key = write_key_and_chain(directory / "server.pem", authority.issue_cert(HOST, "localhost"))
    listeners = ",".join(f"{name}://{HOST}:{port}" for name, port in ports.items())
    return {
        "listeners": listeners,
        "advertised.listeners": listeners,
        "listener.security.protocol.map": ",".join(f"{name}:{'SSL' if name == 'TLS' else 'PLAINTEXT'}" for name in ports),
        "listener.name.tls.ssl.keystore.type": "PEM",
        "listener.name.tls.ssl.keystore.location": str(key),
    }
