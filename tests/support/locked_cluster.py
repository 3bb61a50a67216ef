"""A cluster whose nodes are locked to each other: TLS and SCRAM between brokers, TLS and PLAIN at the controllers."""

from __future__ import annotations

from pathlib import Path

from client_compat.kafka.cluster import BETWEEN
from tests.support.certificates import Certificates
from tests.support.logins import MODULES

USER, PASSWORD, SCRAM_PASSWORD = "node", "for controllers", "for brokers"
USERS = [f"SCRAM-SHA-512=[name={USER},password={SCRAM_PASSWORD}]"]


def locked(directory: Path, password: str = PASSWORD) -> dict[str, str]:
    """Settings of each of its nodes, whoever it is of; a node with another `password` is not let in by a controller."""
    scram = f'{MODULES}.scram.ScramLoginModule required username="{USER}" password="{SCRAM_PASSWORD}";'
    plain = f'{MODULES}.plain.PlainLoginModule required username="{USER}" password="{password}" user_{USER}="{PASSWORD}";'
    return {
        **Certificates(directory).pem_settings(),
        "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,{BETWEEN}:SASL_SSL,CONTROLLER:SASL_SSL",
        "listener.name.between.sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "listener.name.between.scram-sha-512.sasl.jaas.config": scram,
        "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
        "listener.name.controller.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.controller.plain.sasl.jaas.config": plain,
        "sasl.mechanism.controller.protocol": "PLAIN",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": f"User:{USER};User:ANONYMOUS",
    }
