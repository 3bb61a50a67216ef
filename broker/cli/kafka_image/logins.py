"""Translates the images' variables about certificates and users to Kafka's settings.

The start fails if a variable names a missing file, or is set without another variable that it needs. Error messages never contain a
password.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from ottla.broker.cli.kafka_image.variables import text_of
from ottla.broker.core.settings_load import SettingsError

SECRETS: Final = Path("/etc/kafka/secrets")
_MODULE: Final = "org.apache.kafka.common.security"
_CERTIFICATES: Final = (Path("/opt/bitnami/kafka/config/certs"), Path("/bitnami/kafka/config/certs"))
_PROTOCOLS: Final = frozenset({"PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"})
_SCRAM: Final[tuple[str, ...]] = ("SCRAM-SHA-256", "SCRAM-SHA-512")
_MECHANISMS: Final = ",".join(("PLAIN", *_SCRAM))


def protocols(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the security protocol of each listener, by listener name, from `listener.security.protocol.map`. A listener without an entry
    there has the protocol of its own name, or PLAINTEXT if its name is no protocol."""
    mapped = {
        item.partition(":")[0].strip().upper(): item.partition(":")[2].strip().upper()
        for item in settings.get("listener.security.protocol.map", "").split(",")
        if ":" in item
    }
    names = [item.partition("://")[0].strip().upper() for item in settings.get("listeners", "").split(",") if "://" in item]
    return {name: mapped.get(name, name if name in _PROTOCOLS else "PLAINTEXT") for name in names}


def secret_files(env: Mapping[str, str], secrets: Path = SECRETS) -> Iterator[tuple[str, str]]:
    """Yield settings (name and value) from `KAFKA_SSL_KEYSTORE_FILENAME` and similar variables of Apache's and Confluent's images, which
    name files in /etc/kafka/secrets. Raises SettingsError if a file is missing."""
    for variable, setting in (
        ("KAFKA_SSL_KEYSTORE_FILENAME", "ssl.keystore.location"),
        ("KAFKA_SSL_TRUSTSTORE_FILENAME", "ssl.truststore.location"),
    ):
        if name := env.get(variable):
            if not (secrets / name).exists():
                raise SettingsError(f"{variable}: {secrets / name} does not exist")
            yield setting, str(secrets / name)
    for variable, setting in (
        ("KAFKA_SSL_KEY_CREDENTIALS", "ssl.key.password"),
        ("KAFKA_SSL_KEYSTORE_CREDENTIALS", "ssl.keystore.password"),
        ("KAFKA_SSL_TRUSTSTORE_CREDENTIALS", "ssl.truststore.password"),
    ):
        if name := env.get(variable):
            yield setting, text_of(variable, secrets / name).strip()


def of_bitnami(env: Mapping[str, str], settings: Mapping[str, str]) -> dict[str, str]:
    """Return the settings that Bitnami's image derives from its variables about users and certificates. Raises SettingsError if the numbers
    of users and passwords differ, or a certificate file is missing."""
    by_listener = protocols(settings)
    found: dict[str, str] = {}
    if any(protocol.startswith("SASL_") for protocol in by_listener.values()):
        enabled = found["sasl.enabled.mechanisms"] = settings.get("sasl.enabled.mechanisms", _MECHANISMS)
        between = settings.get("inter.broker.listener.name", "INTERNAL").upper()
        controllers = {name.strip().upper() for name in settings.get("controller.listener.names", "CONTROLLER").split(",")}
        for name, protocol in by_listener.items():
            if protocol.startswith("SASL_") and name in controllers:
                found |= _logins(name, settings.get("sasl.mechanism.controller.protocol", ""), _controller(env), [_controller(env)])
            elif protocol.startswith("SASL_"):
                own = _broker(env) if name == between else None
                found |= _logins(name, enabled, own, [*_users(env), *([own] if own is not None else [])])
    if any(protocol.endswith("SSL") for protocol in by_listener.values()):
        found |= _certificates(env)
    return found


def scram_of_bitnami(env: Mapping[str, str], settings: Mapping[str, str]) -> list[str]:
    """Return the SCRAM users with which Bitnami's image creates a cluster, in the format of `kafka-storage --add-scram`. Raises
    SettingsError if the numbers of users and passwords differ."""
    enabled = settings.get("sasl.enabled.mechanisms", "").split(",")
    found = [(kind, user) for kind in _SCRAM if kind in enabled for user in _users(env)]
    for setting, user in (("sasl.mechanism.inter.broker.protocol", _broker(env)), ("sasl.mechanism.controller.protocol", _controller(env))):
        found += [(kind, user) for kind in _SCRAM if kind == settings.get(setting)]
    return [f"{kind}=[name={name},password={password}]" for kind, (name, password) in dict.fromkeys(found)]


def _users(env: Mapping[str, str]) -> list[tuple[str, str]]:
    names, passwords = (
        re.split("[,; ]+", env.get(variable, "") or default)
        for variable, default in (("KAFKA_CLIENT_USERS", "user"), ("KAFKA_CLIENT_PASSWORDS", "bitnami"))
    )
    if len(names) != len(passwords):
        raise SettingsError(f"KAFKA_CLIENT_PASSWORDS has {len(passwords)} passwords for {len(names)} KAFKA_CLIENT_USERS")
    return list(zip(names, passwords, strict=True))


def _broker(env: Mapping[str, str]) -> tuple[str, str]:
    return env.get("KAFKA_INTER_BROKER_USER", "user"), env.get("KAFKA_INTER_BROKER_PASSWORD", "bitnami")


def _controller(env: Mapping[str, str]) -> tuple[str, str]:
    return env.get("KAFKA_CONTROLLER_USER", "controller_user"), env.get("KAFKA_CONTROLLER_PASSWORD", "bitnami")


def _logins(listener: str, mechanisms: str, own: tuple[str, str] | None, users: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Yield a listener's JAAS settings (name and value), one for each mechanism in the comma-separated list `mechanisms`. `own` are this
    node's user and password to connect to other nodes' listeners of the same name; `users` may authenticate with PLAIN."""
    shown = "" if own is None else f' username="{own[0]}" password="{_quoted(own[1])}"'
    for mechanism in filter(None, (item.strip() for item in mechanisms.split(","))):
        if mechanism == "PLAIN":
            known = "".join(f' user_{name}="{_quoted(password)}"' for name, password in dict(users).items())
            text = f"{_MODULE}.plain.PlainLoginModule required{shown}{known};"
        elif mechanism.startswith("SCRAM-"):
            text = f"{_MODULE}.scram.ScramLoginModule required{shown};"
        else:
            continue
        yield f"listener.name.{listener.lower()}.{mechanism.lower()}.sasl.jaas.config", text


def _quoted(password: str) -> str:
    return password.replace("\\", "\\\\").replace('"', '\\"')


def _certificates(env: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    kind = env.get("KAFKA_TLS_TYPE", "JKS").upper()
    yield "ssl.client.auth", env.get("KAFKA_TLS_CLIENT_AUTH", "required")
    yield "ssl.keystore.type", kind
    yield "ssl.truststore.type", kind
    password = env.get("KAFKA_CERTIFICATE_PASSWORD", "")
    if password:
        yield "ssl.key.password", password
    ending = kind.lower()
    trusted = Path(env.get("KAFKA_TLS_TRUSTSTORE_FILE") or _found(f"kafka.truststore.{ending}"))
    if kind == "PEM":
        yield "ssl.keystore.key", text_of("the key", _found("kafka.keystore.key"))
        yield "ssl.keystore.certificate.chain", text_of("the certificate", _found("kafka.keystore.pem"))
        yield "ssl.truststore.certificates", text_of("the trusted certificates", trusted)
        return
    yield "ssl.keystore.location", str(_found(f"kafka.keystore.{ending}"))
    yield "ssl.truststore.location", str(trusted)
    if password:
        yield "ssl.keystore.password", password
        yield "ssl.truststore.password", password


def _found(name: str) -> Path:
    for directory in _CERTIFICATES:
        if (directory / name).exists():
            return directory / name
    raise SettingsError(f"TLS needs {name}, which is in neither {_CERTIFICATES[0]} nor {_CERTIFICATES[1]}")
