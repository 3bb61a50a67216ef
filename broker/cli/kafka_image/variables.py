"""Translates the `KAFKA_…` variables of each image to settings.

Rules that hold inside:
- For Apache's and Confluent's images: remove the prefix `KAFKA_`, lower the case, replace `_` by `.`, then `...` by `-`, then `..` by `_`.
- For Bitnami's: remove the prefix `KAFKA_CFG_`, lower the case, replace `_` by `.`, but keep `sasl_ssl` and `sasl_plaintext`. Some
  variables are also accepted without `CFG_`, and some under an older name.
- Variables for the JVM, its logging, or the image itself are not settings.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Final

from ottla.broker.core.settings_load import SettingsError

_PREFIX: Final = "KAFKA_"
_CFG: Final = "KAFKA_CFG_"

_OF_THE_JVM: Final = frozenset(
    _PREFIX + name
    for name in (
        "VERSION",
        "HEAP_OPTS",
        "LOG4J_OPTS",
        "OPTS",
        "JMX_OPTS",
        "JVM_PERFORMANCE_OPTS",
        "GC_LOG_OPTS",
        "LOG4J_ROOT_LOGLEVEL",
        "LOG4J_LOGGERS",
        "TOOLS_LOG4J_LOGLEVEL",
        "JMX_HOSTNAME",
        "JMX_PORT",
        "HOME",
        "USER",
        "DEBUG",
    )
)
"""Variables that are not settings of the broker: those that Apache's and Confluent's images exclude, and those that the JVM's start scripts
read."""
_OF_THE_IMAGE: Final = frozenset(
    _PREFIX + name
    for name in (
        "CREATE_TOPICS",
        "DATA_DIRS",
        "SSL_KEYSTORE_FILENAME",
        "SSL_KEYSTORE_CREDENTIALS",
        "SSL_KEY_CREDENTIALS",
        "SSL_TRUSTSTORE_FILENAME",
        "SSL_TRUSTSTORE_CREDENTIALS",
    )
)
_OF_BITNAMI: Final = frozenset(
    _PREFIX + name
    for name in (
        "CLIENT_USERS",
        "CLIENT_PASSWORDS",
        "CLIENT_LISTENER_NAME",
        "INTER_BROKER_USER",
        "INTER_BROKER_PASSWORD",
        "CONTROLLER_USER",
        "CONTROLLER_PASSWORD",
        "CERTIFICATE_PASSWORD",
        "TLS_TYPE",
        "TLS_CLIENT_AUTH",
        "TLS_TRUSTSTORE_FILE",
        "KRAFT_CLUSTER_ID",
        "CLUSTER_ID",
        "INITIAL_CONTROLLERS",
        "SKIP_KRAFT_STORAGE_INIT",
        "KRAFT_BOOTSTRAP_SCRAM_USERS",
        "MOUNTED_CONF_DIR",
    )
)
_SUFFIXES: Final = frozenset(
    {
        "ADVERTISED_LISTENERS",
        "AUTO_CREATE_TOPICS_ENABLE",
        "BROKER_ID",
        "CONTROLLER_QUORUM_VOTERS",
        "DEFAULT_REPLICATION_FACTOR",
        "DELETE_TOPIC_ENABLE",
        "INTER_BROKER_LISTENER_NAME",
        "LISTENERS",
        "LISTENER_SECURITY_PROTOCOL_MAP",
        "LOG_DIRS",
        "LOG_FLUSH_INTERVAL_MESSAGES",
        "LOG_FLUSH_INTERVAL_MS",
        "LOG_MESSAGE_FORMAT_VERSION",
        "LOG_RETENTION_BYTES",
        "LOG_RETENTION_CHECK_INTERVALS_MS",
        "LOG_RETENTION_HOURS",
        "LOG_SEGMENT_BYTES",
        "MESSAGE_MAX_BYTES",
        "NODE_ID",
        "NUM_IO_THREADS",
        "NUM_NETWORK_THREADS",
        "NUM_PARTITIONS",
        "NUM_RECOVERY_THREADS_PER_DATA_DIR",
        "OFFSETS_TOPIC_REPLICATION_FACTOR",
        "PROCESS_ROLES",
        "SOCKET_RECEIVE_BUFFER_BYTES",
        "SOCKET_REQUEST_MAX_BYTES",
        "SOCKET_SEND_BUFFER_BYTES",
        "SSL_ENDPOINT_IDENTIFICATION_ALGORITHM",
        "TRANSACTION_STATE_LOG_MIN_ISR",
        "TRANSACTION_STATE_LOG_REPLICATION_FACTOR",
        "ZOOKEEPER_CONNECT",
        "ZOOKEEPER_CONNECTION_TIMEOUT_MS",
    }
)
"""Settings, written as in the names of variables, that Bitnami's image also accepts without `CFG_`: `KAFKA_BROKER_ID` besides
`KAFKA_CFG_BROKER_ID`."""
_OLDER: Final[Mapping[str, str]] = {
    "KAFKA_LOGS_DIRS": "LOG_DIRS",
    "KAFKA_SEGMENT_BYTES": "LOG_SEGMENT_BYTES",
    "KAFKA_MAX_MESSAGE_BYTES": "MESSAGE_MAX_BYTES",
    "KAFKA_ZOOKEEPER_CONNECT_TIMEOUT_MS": "ZOOKEEPER_CONNECTION_TIMEOUT_MS",
}


class Flavour(StrEnum):
    """The vendor of the Kafka image that this container replaces: apache, confluent or bitnami."""

    APACHE = "apache"
    CONFLUENT = "confluent"
    BITNAMI = "bitnami"


def asks_for_kafka(env: Mapping[str, str]) -> bool:
    """Return whether the environment has variables of one of Kafka's images."""
    return any(name.startswith(_PREFIX) and name not in _OF_THE_JVM for name in env)


def flavour_of(env: Mapping[str, str]) -> Flavour:
    """Return the vendor whose variables are set, for a container whose start script does not name the vendor. APACHE stands for Confluent,
    too, whose variables have the same names.
    """
    bitnamis = any(name.startswith(_CFG) or name in _OF_BITNAMI for name in env) or "ALLOW_PLAINTEXT_LISTENER" in env
    return Flavour.BITNAMI if bitnamis else Flavour.APACHE


def settings_of(flavour: Flavour, env: Mapping[str, str]) -> dict[str, str]:
    """Return the settings that the variables stand for, by Kafka's names, in the order of the variables' names."""
    if flavour is Flavour.BITNAMI:
        return {property_of(suffix, flavour): env[name] for name, suffix in sorted(_of_bitnami(env).items())}
    return {
        property_of(name.removeprefix(_PREFIX), flavour): env[name]
        for name in sorted(env)
        if name.startswith(_PREFIX) and name not in _OF_THE_JVM | _OF_THE_IMAGE and not name.startswith(_CFG)
    }


def variable_of(flavour: Flavour, env: Mapping[str, str], setting: str) -> str | None:
    """Return the name of the variable from which `settings_of` takes this setting, None if there is none."""
    if flavour is Flavour.BITNAMI:
        names = [name for name, suffix in _of_bitnami(env).items() if property_of(suffix, flavour) == setting]
    else:
        names = [name for name in env if name.startswith(_PREFIX) and property_of(name.removeprefix(_PREFIX), flavour) == setting]
    return max(names, default=None)


def property_of(suffix: str, flavour: Flavour) -> str:
    """Return the name of the setting that a variable stands for; `suffix` is the variable's name without its prefix."""
    name = suffix.lower().replace("_", ".")
    if flavour is Flavour.BITNAMI:
        return name.replace("sasl.ssl", "sasl_ssl").replace("sasl.plaintext", "sasl_plaintext")
    return name.replace("...", "-").replace("..", "_")


def with_files(env: Mapping[str, str]) -> dict[str, str]:
    """Return the variables `env`, with Bitnami's variables such as `KAFKA_CLIENT_PASSWORDS_FILE` replaced: the variable without `_FILE` in
    its name gets the contents of the file. Raises SettingsError if a file cannot be read."""
    found = dict(env)
    for name in [*_OF_BITNAMI, f"{_CFG}SASL_ENABLED_MECHANISMS", "KAFKA_OPTS"]:
        if path := found.pop(f"{name}_FILE", ""):
            found[name] = text_of(f"{name}_FILE", Path(path)).rstrip("\n")
    return found


def text_of(subject: str, path: Path) -> str:
    """Return the text of a file in UTF-8. Raises SettingsError if it cannot be read, with `subject`: the variable or kind of file that asks
    for it."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise SettingsError(f"{subject}: {path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise SettingsError(f"{subject}: {path} is not text in UTF-8") from None


def _of_bitnami(env: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of Bitnami's image that set a Kafka setting: each variable's name, and its name without prefix. If a setting has
    a variable with and one without `CFG_`, the one without wins, as in Bitnami's image."""
    found = {name: name.removeprefix(_CFG) for name in env if name.startswith(_CFG)}
    for name in env:
        suffix = _OLDER.get(name) or name.removeprefix(_PREFIX)
        if name.startswith(_PREFIX) and suffix in _SUFFIXES:
            found.pop(_CFG + suffix, None)
            found[name] = suffix
    return found
