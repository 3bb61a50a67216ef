"""Apache Kafka with listeners that require TLS, client certificates or passwords, and the client properties for them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import trustme
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key

from client_compat.kafka.reference import ReferenceBroker
from client_compat.support.ports import free_port

HOST = "127.0.0.1"
USER, PASSWORD = "ann", "pass word"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_MODULE = "org.apache.kafka.common.security"


class Certificates(NamedTuple):
    """PEM files: the authority's certificate, and a key with its certificates for the server and for a client."""

    ca: Path
    server: Path
    client: Path


class SecureKafka(NamedTuple):
    """A running node: its plain listener, one with TLS and passwords, and one that requires a client's certificate."""

    reference: ReferenceBroker
    sasl: str
    mutual: str
    certificates: Certificates


def certificates(directory: Path) -> Certificates:
    """Make PEM files with certificates of a new authority, in `directory`."""
    authority = trustme.CA()
    directory.mkdir(parents=True, exist_ok=True)
    files = Certificates(directory / "ca.pem", directory / "server.pem", directory / "client.pem")
    authority.cert_pem.write_to_path(files.ca)
    for file, name in ((files.server, HOST), (files.client, "ann@example.org")):
        issued = authority.issue_cert(name)
        key = load_pem_private_key(issued.private_key_pem.bytes(), None)
        pkcs8 = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())  # the only format that Kafka reads
        file.write_bytes(pkcs8 + b"".join(pem.bytes() for pem in issued.cert_chain_pems))
    return files


@contextmanager
def secure_kafka(directory: Path) -> Iterator[SecureKafka]:
    """Run a secured Apache Kafka node while the context lasts. Raises `KafkaMissing`."""
    files = certificates(directory / "tls")
    settings: dict[str, str] = {}
    reference = ReferenceBroker(directory / "kafka", settings)
    sasl, mutual = f"{HOST}:{free_port()}", f"{HOST}:{free_port()}"
    listeners = f"PLAINTEXT://{reference.bootstrap},SECURE://{sasl},MUTUAL://{mutual}"
    controller = f",CONTROLLER://{HOST}:{reference.controller_port}"
    scram = f"{_MODULE}.scram.ScramLoginModule required;"
    settings.update(
        {
            "listeners": listeners + controller,
            "advertised.listeners": listeners + controller,
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SECURE:SASL_SSL,MUTUAL:SSL",
            "listener.name.secure.sasl.enabled.mechanisms": ",".join(MECHANISMS),
            "listener.name.secure.plain.sasl.jaas.config": f'{_MODULE}.plain.PlainLoginModule required user_{USER}="{PASSWORD}";',
            "listener.name.secure.scram-sha-256.sasl.jaas.config": scram,
            "listener.name.secure.scram-sha-512.sasl.jaas.config": scram,
            "listener.name.mutual.ssl.client.auth": "required",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(files.server),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(files.ca),
        }
    )
    reference.format(options=[f"--add-scram={each}=[name={USER},password={PASSWORD}]" for each in MECHANISMS[1:]])
    with reference:
        yield SecureKafka(reference, sasl, mutual, files)
