"""Derives the broker's settings from a container's variables and a mounted file.

Rules that hold inside:
- The cluster id of a formatted data directory wins over `CLUSTER_ID`, as in Kafka's images.
- Settings that Ottla interprets differently from Kafka are rewritten only here (`adapted`), with a warning if the user might not notice.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ottla.broker.cli.kafka_image.logins import of_bitnami, scram_of_bitnami, secret_files
from ottla.broker.cli.kafka_image.variables import Flavour, settings_of, variable_of
from ottla.broker.core.settings_load import SettingsError
from ottla.broker.storage.meta_properties import FILE_NAME, decode_meta
from ottla.protocol.uuids import encode_uuid, random_uuid

CLUSTER_ID: Final = "5L6g3nShT-eMCtK--X86sw"
"""The cluster id that the image apache/kafka uses by default."""
DATA: Final[Mapping[Flavour, str]] = {
    Flavour.APACHE: "/tmp/kafka-logs",
    Flavour.CONFLUENT: "/var/lib/kafka/data",
    Flavour.BITNAMI: "/bitnami/kafka/data",
}
DATA_OF_ALL: Final = "/var/lib/kafka/data"
WITHOUT_VARIABLES: Final[Mapping[str, str]] = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.quorum.voters": "1@localhost:9093",
    "controller.listener.names": "CONTROLLER",
    "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
    "advertised.listeners": "PLAINTEXT://localhost:9092",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL",
    "log.dirs": "/tmp/kraft-combined-logs",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}
"""The settings of the image apache/kafka for a container without environment variables for settings and without a mounted settings file."""
_AUTHORIZERS: Final = frozenset({"kafka.security.authorizer.AclAuthorizer", "kafka.security.auth.SimpleAclAuthorizer"})
_AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


@dataclass(frozen=True, slots=True)
class ImageStart:
    """The settings with which a container starts Ottla, and the warnings to print. `scram` has the SCRAM users of a new cluster, in the
    format of `--add-scram`; `topics` the topics to create, in the format of KAFKA_CREATE_TOPICS."""

    settings: Mapping[str, str]
    scram: Sequence[str]
    topics: str
    warnings: Sequence[str]
    variables: Mapping[str, str]
    """For each setting, by its name: the environment variable that set it."""


def planned(flavour: Flavour | None, env: Mapping[str, str], mounted: Mapping[str, str], *, env_flavour: Flavour) -> ImageStart:
    """Return the settings with which a container starts, and the warnings to print.

    `flavour` is the vendor whose image's script was called, or None. `env_flavour` is the vendor whose names the variables have. `mounted`
    are the settings of the mounted file; variables win over them. Raises SettingsError if variables contradict each other, or name a
    missing file.
    """
    read = settings_of(env_flavour, env)
    settings = {**mounted, **read}
    if not settings and env_flavour is not Flavour.BITNAMI:
        settings = dict(WITHOUT_VARIABLES)
    warnings = list(_host_name(settings))
    settings |= secret_files(env)
    if "log.dirs" not in settings and "log.dir" not in settings:
        settings["log.dirs"] = _data_dir(flavour, env_flavour)
    _listeners(settings)
    if env_flavour is Flavour.BITNAMI:
        settings |= of_bitnami(env, settings)
    scram = scram_of_bitnami(env, settings) if env_flavour is Flavour.BITNAMI else []
    if (cluster_id := _cluster_id(env_flavour, env, settings)) is not None:
        settings["cluster.id"] = cluster_id
    warnings += adapted(settings)
    variables = {name: variable for name in read if (variable := variable_of(env_flavour, env, name)) is not None}
    return ImageStart(settings, scram, env.get("KAFKA_CREATE_TOPICS", ""), warnings, variables)


def adapted(settings: dict[str, str]) -> list[str]:
    """Rewrite in place the settings that Ottla interprets differently from Kafka; return warnings."""
    return [*_advertised(settings), *_zookeeper(settings), *_authorizer(settings)]


def _data_dir(flavour: Flavour | None, env_flavour: Flavour) -> str:
    """Return the data directory that the image uses. If the image is not known, return the first of the images' data directories that holds
    data or is a mount, else the data directory of Ottla's own image."""
    if flavour is not None or env_flavour is Flavour.BITNAMI:
        return DATA[env_flavour]
    before = (DATA[Flavour.APACHE], WITHOUT_VARIABLES["log.dirs"], DATA[Flavour.BITNAMI])
    return next((path for path in before if (Path(path) / FILE_NAME).exists() or os.path.ismount(path)), DATA_OF_ALL)


def _listeners(settings: dict[str, str]) -> None:
    """If the settings have no listeners, derive them from the advertised listeners, bound to all addresses."""
    roles = settings.get("process.roles", "")
    advertised = settings.get("advertised.listeners", "")
    if roles == "controller":
        if advertised:
            raise SettingsError("advertised.listeners: KAFKA_ADVERTISED_LISTENERS is not supported on a KRaft controller")
        settings.pop("advertised.listeners", None)
    elif advertised and not settings.get("listeners"):
        settings["listeners"] = re.sub(r"://(\[[^\]]*\]|[^:,]*):", "://0.0.0.0:", advertised)


def _host_name(settings: dict[str, str]) -> Iterator[str]:
    """Translate host.name, port, advertised.host.name and advertised.port (settings from before Kafka 3.0 that third-party images still
    accept) to listeners; yield warnings.
    """
    host, port = settings.pop("advertised.host.name", None), settings.pop("advertised.port", None)
    bound_host, bound_port = settings.pop("host.name", None), settings.pop("port", None)
    if host is not None and "advertised.listeners" not in settings:
        settings["advertised.listeners"] = f"PLAINTEXT://{host}:{port or bound_port or 9092}"
        settings.setdefault("listeners", f"PLAINTEXT://{bound_host or ''}:{bound_port or 9092}")
        yield f"advertised.host.name is a setting from before Kafka 3.0: using advertised.listeners={settings['advertised.listeners']}"


def _cluster_id(env_flavour: Flavour, env: Mapping[str, str], settings: Mapping[str, str]) -> str | None:
    meta = Path(settings.get("log.dirs") or settings["log.dir"]) / FILE_NAME
    try:
        return decode_meta(meta.read_bytes()).cluster_id
    except FileNotFoundError:
        pass
    except (OSError, ValueError) as error:
        raise SettingsError(f"{meta}: {error}") from None
    if env_flavour is Flavour.BITNAMI:
        given = env.get("KAFKA_CLUSTER_ID") or env.get("KAFKA_KRAFT_CLUSTER_ID")
        return given or (encode_uuid(random_uuid(os.urandom)) if "process.roles" in settings else None)
    return env.get("CLUSTER_ID") or (CLUSTER_ID if "process.roles" in settings else None)


def _advertised(settings: dict[str, str]) -> Iterator[str]:
    """Replace the empty host of an advertised listener by this machine's name, as Kafka does; yield warnings."""
    if "://:" in (advertised := settings.get("advertised.listeners", "")):
        settings["advertised.listeners"] = advertised.replace("://:", f"://{socket.getfqdn()}:")
        yield f"advertised.listeners={advertised} has no host: advertising {socket.getfqdn()}"


def _zookeeper(settings: dict[str, str]) -> Iterator[str]:
    given = [name for name in settings if name.startswith("zookeeper.")]
    for name in given:
        del settings[name]
    if given and not settings.get("process.roles"):
        yield "Ottla does not use ZooKeeper: zookeeper.connect is ignored, and this broker is a standalone node"


def _authorizer(settings: dict[str, str]) -> Iterator[str]:
    if settings.get("authorizer.class.name") in _AUTHORIZERS:
        yield f"authorizer.class.name={settings['authorizer.class.name']} was for ZooKeeper clusters: using {_AUTHORIZER}"
        settings["authorizer.class.name"] = _AUTHORIZER
