"""Security between a cluster's nodes: TLS and SCRAM between brokers, TLS and PLAIN at the controllers, or certificates everywhere. Clients
use an open listener, so that only security between nodes is tested."""

from __future__ import annotations

from pathlib import Path

import trustme

from client_compat.kafka.cluster import INTER_BROKER_LISTENER
from client_compat.support.brokers import HOST
from client_compat.support.pem import write_key_and_chain

_MODULES = "org.apache.kafka.common.security"
_USER, _AT_CONTROLLERS, _AT_BROKERS = "node", "for controllers", "for brokers"
USERS = (f"SCRAM-SHA-512=[name={_USER},password={_AT_BROKERS}]",)
"""The SCRAM users that the cluster must have from the start."""


def password_settings(directory: Path) -> dict[str, str]:
    """Write a certificate and its authority to `directory`. Return the settings, equal for Apache Kafka and Ottla, with which a node
    secures its connections to other nodes by TLS and passwords."""
    scram = f'{_MODULES}.scram.ScramLoginModule required username="{_USER}" password="{_AT_BROKERS}";'
    plain = f'{_MODULES}.plain.PlainLoginModule required username="{_USER}" password="{_AT_CONTROLLERS}" user_{_USER}="{_AT_CONTROLLERS}";'
    return {
        **_stores(directory),
        "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,{INTER_BROKER_LISTENER}:SASL_SSL,CONTROLLER:SASL_SSL",
        f"listener.name.{INTER_BROKER_LISTENER.lower()}.sasl.enabled.mechanisms": "SCRAM-SHA-512",
        f"listener.name.{INTER_BROKER_LISTENER.lower()}.scram-sha-512.sasl.jaas.config": scram,
        "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
        "listener.name.controller.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.controller.plain.sasl.jaas.config": plain,
        "sasl.mechanism.controller.protocol": "PLAIN",
        **_judged_by(f"User:{_USER}"),
    }


def certificate_settings(directory: Path) -> dict[str, str]:
    """Write certificates to `directory`: node.pem for the nodes, and guest.pem, which is valid but belongs to no node. Return the settings
    of nodes that identify themselves to each other only by node.pem."""
    return {
        **_stores(directory),
        "ssl.client.auth": "required",
        "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,{INTER_BROKER_LISTENER}:SSL,CONTROLLER:SSL",
        **_judged_by("User:CN=node,OU=brokers,O=Ottla"),
    }


def _stores(directory: Path) -> dict[str, str]:
    directory.mkdir(parents=True, exist_ok=True)
    authority = trustme.CA()
    authority.cert_pem.write_to_path(directory / "ca.pem")
    for name in ("node", "guest"):
        issued = authority.issue_cert(HOST, common_name=name, organization_name="Ottla", organization_unit_name="brokers")
        write_key_and_chain(directory / f"{name}.pem", issued)
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(directory / "node.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(directory / "ca.pem"),
    }


def _judged_by(user: str) -> dict[str, str]:
    return {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": f"{user};User:ANONYMOUS",
    }
