"""Settings from a server.properties file, the environment (`OTTLA_LOG_SEGMENT_BYTES`) and the command line; the later source wins.

Rules:
* All errors are collected and prevent the start. Each message has the setting's name, its value and the allowed values.
* An unknown name is an error; the message suggests the nearest known name. With `tolerant`, for container images that replace Kafka's,
  unknown names are in `Loaded.warnings` instead, because Kafka starts with them.
* A Kafka setting that restricts access and is not supported here is an error.
* Kafka's other settings without effect here are listed in `Loaded.notes`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ottla.broker.core.config_keys import InvalidConfig, Value
from ottla.broker.core.ignored_settings import IGNORED_NAMES, is_ignored
from ottla.broker.core.role_settings import advice, role_problems
from ottla.broker.core.security_settings import start_problem
from ottla.broker.core.settings import BROKER_KEYS, STORED_SETTINGS, BrokerSettings, attribute_of, listener_key, security_setting
from ottla.broker.core.stored_settings import OF_CONTROLLERS
from ottla.broker.releases.release_behaviour import DEFAULT_RELEASE, ReleaseBehaviour, behaviour_of, default_behaviour
from ottla.broker.releases.table import UnknownRelease
from ottla.protocol.import_without_init import module_of
from ottla.protocol.printable import reason_of

ENVIRONMENT_PREFIX = "OTTLA_"
OF_THE_TOOLS = frozenset(
    {
        "OTTLA_BOOTSTRAP_SERVER",
        "OTTLA_ADMIN",
        "OTTLA_ADMIN_TOKEN",
        "OTTLA_CLIENT_CONFIG",
        "OTTLA_PASSWORD",
        "OTTLA_TOPICS",
        "OTTLA_USERS",
        "OTTLA_OPTIONS",
        "OTTLA_LIKE",
    }
)
"""Environment variables that only command-line tools read; `load` must not take them for settings of a broker."""

_UNDERLINES = re.compile("_+")
_MEANT = {1: ".", 2: "_", 3: "-"}
"""By a number of consecutive underscores in an environment variable's name: the character of the setting's name for which they stand, as in
Kafka's own images."""
_LOGIN_FILE = "java.security.auth.login.config"
_KERBEROS_FILE = "java.security.krb5.conf"
_OF_THE_JVM = ("org.apache.kafka.sasl.oauthbearer.allowed.urls",)
"""Broker settings that are JVM system properties (`-D` in KAFKA_OPTS) in Kafka."""

_ALIASES = {"broker.id": "node.id"}
"""Older names of settings, which server.properties files may still contain, and their current names."""


class SettingsError(ValueError):
    """Raised if the settings are invalid. The text lists every mistake, one on each line."""


@dataclass(frozen=True)
class Loaded:
    """The settings that `load` has read, with the notes and warnings to log at the start."""

    settings: BrokerSettings
    notes: list[str]
    warnings: list[str]


def load(
    cli: Mapping[str, str],
    env: Mapping[str, str],
    file: Path | None,
    *,
    of_image: Mapping[str, str] | None = None,
    tolerant: bool = False,
    like: str | None = None,
) -> Loaded:
    """Return the settings from `file`, `of_image`, `env` and `cli`; a later source in this order wins. Raises SettingsError if a source
    cannot be read, or if any setting is invalid, unknown or not supported.

    `of_image` has the settings in the `KAFKA_…` variables of Kafka's container images. `env` is the whole environment, of which only
    `OTTLA_…` and `KAFKA_OPTS` are used. With `tolerant`, unknown names are warnings instead of errors. `like` is the release of Apache
    Kafka whose defaults are used (None: DEFAULT_RELEASE).
    """
    mistakes: list[str] = []
    unknown: list[str] = []
    texts: dict[str, tuple[str, str]] = {}
    notes: list[str] = []
    options = _java_properties(env.get("KAFKA_OPTS", ""))
    of_the_jvm = {name: options[name] for name in _OF_THE_JVM if name in options}
    sources = (
        ("file", read_properties(file)),
        ("KAFKA_ variables", of_image or {}),
        ("environment", of_the_jvm | _from_environment(env)),
        ("command line", cli),
    )
    for source, given in sources:
        if "log.dir" in given:
            texts.pop("log.dirs", None)  # a log.dirs of an earlier source would take precedence over this log.dir
        if (problem := _two_ids(given)) is not None:
            mistakes.append(f"{problem} (from the {source})")
        for given_name, text in given.items():
            name = _ALIASES.get(given_name, given_name)
            if (problem := start_problem(name, text)) is not None:
                mistakes.append(f"{problem} (from the {source})")
            elif name in BROKER_KEYS or name in STORED_SETTINGS or listener_key(name) is not None or security_setting(name) is not None:
                texts[name] = (text, source)
            elif is_ignored(name):
                notes.append(_without_effect(name, source))
            else:
                unknown.append(_unknown(given_name, source))
    if not tolerant:
        mistakes += unknown
    settings = _parsed(texts, mistakes, default_behaviour() if like is None else _behaviour_of(like))
    settings.login_file = options[_LOGIN_FILE].removeprefix("=") if _LOGIN_FILE in options else None
    settings.kerberos_file = options.get(_KERBEROS_FILE)
    _check_together(settings)
    notes += [_without_effect(name, source) for name, (_, source) in texts.items() if _has_no_effect(name, settings)]
    return Loaded(settings, notes + list(advice(settings)), unknown)


def source_of(
    name: str, cli: Mapping[str, str], env: Mapping[str, str], file: Path | None, *, of_image: Mapping[str, str] | None = None
) -> str | None:
    """Return the name of the source from which `load` would take the setting, such as "file" or "environment", or None if no source gives
    it. Raises SettingsError if the file cannot be read."""
    sources = (
        ("command line", cli),
        ("environment", _from_environment(env)),
        ("KAFKA_ variables", of_image or {}),
        ("file", read_properties(file)),
    )
    return next((source for source, given in sources if name in given), None)


def _parsed(texts: Mapping[str, tuple[str, str]], mistakes: list[str], behaviour: ReleaseBehaviour) -> BrokerSettings:
    values: dict[str, Any] = {}
    stored: dict[str, Value] = {}
    connections: dict[str, Any] = {}
    security: dict[str, Value] = {}
    for name, (text, source) in texts.items():
        try:
            if (key := security_setting(name)) is not None:
                security[name] = key.parse(text)
            elif name in STORED_SETTINGS:
                stored[name] = STORED_SETTINGS[name].parse(text)
            elif (key := listener_key(name)) is not None:
                connections[name] = key.parse(text)
            else:
                values[attribute_of(name)] = BROKER_KEYS[name].parse(text)
        except InvalidConfig as error:
            mistakes.append(f"{error} (from the {source})")
    if mistakes:
        raise SettingsError("\n".join(mistakes))
    explicit = {name: source for name, (_, source) in texts.items()}
    if "node.id" in explicit:
        explicit["broker.id"] = explicit["node.id"]
    settings = BrokerSettings(
        **values, stored=stored, listener_connections=connections, security=security, explicit=explicit, release_behaviour=behaviour
    )
    for name in BROKER_KEYS.keys() - explicit.keys():
        if (value := settings.default(name)) != BROKER_KEYS[name].default:
            setattr(settings, attribute_of(name), value)
    return settings


def _behaviour_of(name: str) -> ReleaseBehaviour:
    try:
        return behaviour_of(name)
    except UnknownRelease as error:
        raise SettingsError(f"like {name}: {error}") from None


def _two_ids(given: Mapping[str, str]) -> str | None:
    broker_id, node_id = given.get("broker.id"), given.get("node.id")
    if None in {broker_id, node_id} or broker_id == node_id:
        return None
    return f"broker.id={broker_id} and node.id={node_id} must be the same"


def _has_no_effect(name: str, settings: BrokerSettings) -> bool:
    if name in STORED_SETTINGS:
        return not settings.is_controller or name not in OF_CONTROLLERS or not STORED_SETTINGS[name].has_effect
    return name in BROKER_KEYS and BROKER_KEYS[name].cluster_only and not settings.process_roles


def _java_properties(options: str) -> dict[str, str]:
    """Return the `-D` properties in a JVM's options (`KAFKA_OPTS` of Kafka's images). If a property occurs twice, the last one wins."""
    if "-D" not in options:
        return {}
    import shlex  # noqa: PLC0415 # most starts have no such options

    return {name: value for name, _, value in (item[2:].partition("=") for item in shlex.split(options) if item.startswith("-D"))}


def parse_assignments(items: Iterable[str]) -> dict[str, str]:
    """Return the settings in the `name=value` items of the command line's `--set`, by name. Raises SettingsError for an item
    without `=`."""
    found = {}
    for item in items:
        name, equals, value = item.partition("=")
        if not equals:
            raise SettingsError(f"--set {item}: expected name=value")
        found[name.strip()] = value
    return found


def read_properties(file: Path | None) -> dict[str, str]:
    """Return the settings in a Java properties file, by name; none if `file` is None. Raises SettingsError if the file cannot be read or
    parsed."""
    if file is None:
        return {}
    try:
        with file.open(encoding="utf-8") as lines:
            return dict(module_of("javaproperties", "reading").load(lines))
    except (OSError, ValueError) as error:
        raise SettingsError(f"cannot read {file}: {reason_of(error)}") from error


def _from_environment(env: Mapping[str, str]) -> dict[str, str]:
    return {
        _UNDERLINES.sub(lambda run: _MEANT.get(len(run[0]), run[0]), name.removeprefix(ENVIRONMENT_PREFIX).lower()): text
        for name, text in env.items()
        if name.startswith(ENVIRONMENT_PREFIX) and name not in OF_THE_TOOLS
    }


def _without_effect(name: str, source: str) -> str:
    return f"{name} ({source}) is a Kafka setting that has no effect here"


def _unknown(name: str, source: str) -> str:
    import difflib  # noqa: PLC0415 # only starts that fail need it

    nearest = difflib.get_close_matches(name, [*BROKER_KEYS, *STORED_SETTINGS, *IGNORED_NAMES], n=1, cutoff=0.5)
    hint = f"; did you mean {nearest[0]}?" if nearest else ""
    return f"Unknown setting {name} (from the {source}){hint}"


def _check_together(settings: BrokerSettings) -> None:
    for name, given in (("log.dir", settings.log_dir), ("log.dirs", settings.log_dirs or settings.log_dir)):
        if len(given) != 1:
            raise SettingsError(f"{name}={','.join(given)}: one data directory is supported, not {len(given)}")
    if settings.max_connections_per_ip == 0 and not settings.max_connections_per_ip_overrides:
        raise SettingsError("max.connections.per.ip=0 rejects every connection; it needs max.connections.per.ip.overrides")
    if settings.group_min_session_timeout_ms > settings.group_max_session_timeout_ms:
        raise SettingsError("group.min.session.timeout.ms is above group.max.session.timeout.ms")
    for name in ("session.timeout.ms", "heartbeat.interval.ms", "assignment.interval.ms"):
        values = [settings.value(f"group.consumer.{prefix}{name}") for prefix in ("min.", "", "max.")]
        if values != sorted(values, key=lambda value: int(str(value))):
            low, value, high = values
            raise SettingsError(f"group.consumer.{name}={value}: allowed is from group.consumer.min.{name}={low} to max.{name}={high}")
    if "classic" not in settings.group_coordinator_rebalance_protocols:
        raise SettingsError("group.coordinator.rebalance.protocols: disabling the classic protocol is not supported")
    if not settings.group_consumer_assignors:
        raise SettingsError("group.consumer.assignors names no assignor")
    if roles := "\n".join(role_problems(settings)):
        raise SettingsError(roles)
    if settings.process_roles:
        _check_is_like_the_default(settings)
        return
    _check_transaction_version(settings)
    for name in ("default.replication.factor", "offsets.topic.replication.factor", "transaction.state.log.replication.factor"):
        if name in settings.explicit and settings.value(name) != 1:
            raise SettingsError(f"{name}={settings.value(name)}: a standalone node supports only 1")


def _check_is_like_the_default(settings: BrokerSettings) -> None:
    if settings.release_behaviour is not default_behaviour():
        roles = ",".join(settings.process_roles)
        problem = f"only a standalone node can be like another release; a cluster's nodes are always like {DEFAULT_RELEASE}"
        raise SettingsError(f"like {settings.release_behaviour.release} with process.roles={roles}: {problem}")


def _check_transaction_version(settings: BrokerSettings) -> None:
    given = {"transaction.version": settings.transaction_version}
    for problem in settings.release_behaviour.above(given):
        raise SettingsError(f"{problem}: remove the setting transaction.version")


def data_dir(settings: BrokerSettings) -> Path:
    """Return the path of the data directory: log.dirs takes precedence over log.dir, as in Kafka."""
    return Path((settings.log_dirs or settings.log_dir)[0])
