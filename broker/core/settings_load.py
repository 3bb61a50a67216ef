"""Settings from three sources: a server.properties file, then the environment (`OTTLA_LOG_SEGMENT_BYTES`), then the command line; the
later wins.

Rules: every mistake stops the start and is told at once, with the setting's name, its value and what is allowed; an unknown name comes
with the nearest known one; so does a lock of Kafka's that would not hold here; Kafka's other settings that mean nothing here are listed
in `Loaded.notes`. In the place of Kafka (`tolerant`), which starts with names that it does not know, they are `Loaded.warnings`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ottla.broker.core.config_keys import InvalidConfig, Value
from ottla.broker.core.ignored_settings import IGNORED_NAMES, is_ignored
from ottla.broker.core.membership import advice, role_problems
from ottla.broker.core.security_settings import lock_problem
from ottla.broker.core.settings import BROKER_KEYS, STORED_SETTINGS, BrokerSettings, attribute_of, listener_key, lock_key
from ottla.broker.core.stored_settings import OF_CONTROLLERS
from ottla.protocol.bodiless import module_of

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
    }
)
"""Variables that commands read: no settings of a broker."""

_UNDERLINES = re.compile("_+")
_MEANT = {1: ".", 2: "_", 3: "-"}
"""What so many in the name of a variable stand for, as in Kafka's own images."""
_LOGIN_FILE = "java.security.auth.login.config"
_KERBEROS_FILE = "java.security.krb5.conf"
_OF_THE_JVM = ("org.apache.kafka.sasl.oauthbearer.allowed.urls",)
"""Settings that with Kafka are properties of the JVM."""

_ALIASES = {"broker.id": "node.id"}
"""Older names of Kafka's that server.properties files still hold."""


class SettingsError(ValueError):
    """The start cannot go on; the text lists every mistake, one a line."""


@dataclass(frozen=True)
class Loaded:
    """The settings, and what is to be said about them at start."""

    settings: BrokerSettings
    notes: list[str]
    warnings: list[str]


def load(
    cli: Mapping[str, str], env: Mapping[str, str], file: Path | None, *, of_image: Mapping[str, str] | None = None, tolerant: bool = False
) -> Loaded:
    """Read all sources; raises SettingsError. `env` is the whole environment, of which only `OTTLA_…` counts. `of_image` is what was read
    out of `KAFKA_…` variables; it comes after the file."""
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
            texts.pop("log.dirs", None)  # an earlier source's, which would win over the later one's log.dir
        if (problem := _two_ids(given)) is not None:
            mistakes.append(f"{problem} (from the {source})")
        for given_name, text in given.items():
            name = _ALIASES.get(given_name, given_name)
            if (problem := lock_problem(name, text)) is not None:
                mistakes.append(f"{problem} (from the {source})")
            elif name in BROKER_KEYS or name in STORED_SETTINGS or listener_key(name) is not None or lock_key(name) is not None:
                texts[name] = (text, source)
            elif is_ignored(name):
                notes.append(_without_effect(name, source))
            else:
                unknown.append(_unknown(given_name, source))
    if not tolerant:
        mistakes += unknown
    settings = _parsed(texts, mistakes)
    settings.login_file = options[_LOGIN_FILE].removeprefix("=") if _LOGIN_FILE in options else None
    settings.kerberos_file = options.get(_KERBEROS_FILE)
    _check_together(settings)
    notes += [_without_effect(name, source) for name, (_, source) in texts.items() if _has_no_effect(name, settings)]
    return Loaded(settings, notes + list(advice(settings)), unknown)


def source_of(
    name: str, cli: Mapping[str, str], env: Mapping[str, str], file: Path | None, *, of_image: Mapping[str, str] | None = None
) -> str | None:
    """Which of `load`'s sources gives the setting, the one that wins; None where nobody does. Raises SettingsError."""
    sources = (
        ("command line", cli),
        ("environment", _from_environment(env)),
        ("KAFKA_ variables", of_image or {}),
        ("file", read_properties(file)),
    )
    return next((source for source, given in sources if name in given), None)


def _parsed(texts: Mapping[str, tuple[str, str]], mistakes: list[str]) -> BrokerSettings:
    values: dict[str, Any] = {}
    kept: dict[str, Value] = {}
    connections: dict[str, Any] = {}
    secured: dict[str, Value] = {}
    for name, (text, source) in texts.items():
        try:
            if (key := lock_key(name)) is not None:
                secured[name] = key.parse(text)
            elif name in STORED_SETTINGS:
                kept[name] = STORED_SETTINGS[name].parse(text)
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
    settings = BrokerSettings(**values, kept=kept, listener_connections=connections, secured=secured, explicit=explicit)
    for name in BROKER_KEYS.keys() - explicit.keys():
        if (value := settings.default(name)) != BROKER_KEYS[name].default:
            setattr(settings, attribute_of(name), value)
    return settings


def _two_ids(given: Mapping[str, str]) -> str | None:
    broker_id, node_id = given.get("broker.id"), given.get("node.id")
    if None in {broker_id, node_id} or broker_id == node_id:
        return None
    return f"broker.id={broker_id} and node.id={node_id} must be the same"


def _has_no_effect(name: str, settings: BrokerSettings) -> bool:
    if name in STORED_SETTINGS:
        return not settings.is_controller or name not in OF_CONTROLLERS
    return name in BROKER_KEYS and BROKER_KEYS[name].member and not settings.process_roles


def _java_properties(options: str) -> dict[str, str]:
    """Those that the options of a JVM define, as Kafka's own images are told of them: the last of each."""
    if "-D" not in options:
        return {}
    import shlex  # noqa: PLC0415 # most starts have no such options

    return {name: value for name, _, value in (item[2:].partition("=") for item in shlex.split(options) if item.startswith("-D"))}


def parse_assignments(items: Iterable[str]) -> dict[str, str]:
    """`name=value` of the command line's `--set`; raises SettingsError."""
    found = {}
    for item in items:
        name, equals, value = item.partition("=")
        if not equals:
            raise SettingsError(f"--set {item}: expected name=value")
        found[name.strip()] = value
    return found


def read_properties(file: Path | None) -> dict[str, str]:
    """A file of properties, nothing where there is none; raises SettingsError."""
    if file is None:
        return {}
    try:
        with file.open(encoding="utf-8") as lines:
            return dict(module_of("javaproperties", "reading").load(lines))
    except (OSError, ValueError) as error:
        raise SettingsError(f"cannot read {file}: {error}") from error


def _from_environment(env: Mapping[str, str]) -> dict[str, str]:
    return {
        _UNDERLINES.sub(lambda run: _MEANT.get(len(run[0]), run[0]), name.removeprefix(ENVIRONMENT_PREFIX).lower()): text
        for name, text in env.items()
        if name.startswith(ENVIRONMENT_PREFIX) and name not in OF_THE_TOOLS
    }


def _without_effect(name: str, source: str) -> str:
    return f"{name} ({source}) is a setting of Kafka's that has no effect here"


def _unknown(name: str, source: str) -> str:
    import difflib  # noqa: PLC0415 # only starts that fail pay for it

    nearest = difflib.get_close_matches(name, [*BROKER_KEYS, *STORED_SETTINGS, *IGNORED_NAMES], n=1, cutoff=0.5)
    hint = f"; did you mean {nearest[0]}?" if nearest else ""
    return f"Unknown setting {name} (from the {source}){hint}"


def _check_together(settings: BrokerSettings) -> None:
    for name, given in (("log.dir", settings.log_dir), ("log.dirs", settings.log_dirs or settings.log_dir)):
        if len(given) != 1:
            raise SettingsError(f"{name}={','.join(given)}: one data directory is supported, not {len(given)}")
    if settings.max_connections_per_ip == 0 and not settings.max_connections_per_ip_overrides:
        raise SettingsError("max.connections.per.ip=0 lets nobody in: it needs max.connections.per.ip.overrides")
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
        return
    for name in ("default.replication.factor", "offsets.topic.replication.factor", "transaction.state.log.replication.factor"):
        if name in settings.explicit and settings.value(name) != 1:
            raise SettingsError(f"{name}={settings.value(name)}: allowed is 1, for there is one broker")


def data_dir(settings: BrokerSettings) -> Path:
    """The data directory: log.dirs before log.dir, as in Kafka."""
    return Path((settings.log_dirs or settings.log_dir)[0])
