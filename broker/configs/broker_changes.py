"""Decides which settings of a running broker can change, and to what (Kafka's `DynamicBrokerConfig.validate`, `ConfigAdminManager`).

Invariants:
- Only a setting whose definition (`ConfigKey`) is `dynamic` can be set; any setting can be deleted. A name that the imitated Kafka
  release does not know is stored with its value hidden, because it may belong to a plug-in.
- An invalid value is INVALID_REQUEST (KAFKA-13609).
- `listener.name.<name>.<key>` is `key` for one listener, and can be set for a single broker only. Of the TLS and SASL settings, running
  listeners apply only new key and trust stores, if `check_stores` finds that they can be used. Other TLS and SASL settings are stored, as
  in Kafka, and running listeners ignore them.
- A thread count can at most halve or double, also by a deletion; each cleaner thread must have more than 1 MiB of buffer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Final

from ottla.broker.core.config_keys import ConfigKey, ConfigType, InvalidConfig, Value
from ottla.broker.core.ignored_settings import IGNORED_SECRETS, is_defined, is_ignored
from ottla.broker.core.rejected import Rejected
from ottla.broker.core.security_settings import start_problem
from ottla.broker.core.settings import BROKER_KEYS, STORED_SETTINGS, BrokerSettings, security_setting, topic_defaults
from ottla.broker.core.stored_settings import CLEANER_BUFFER, CLEANER_THREADS, CORDONED, THREADS
from ottla.broker.releases.release_behaviour import ReleaseBehaviour
from ottla.protocol.error_codes import ErrorCode

CheckStores = Callable[[Mapping[str, str]], None]
"""A function that gets all settings that are set dynamically for this broker, and raises Rejected if the listeners cannot use the key and
trust stores that these settings name.
"""
CLUSTER_DEFAULT: Final = ""
"""The name of the BROKER resource whose settings apply to every broker."""

_OF_A_LISTENER: Final = re.compile(r"listener\.name\.[^.]*\.(.+)")
_SECURING: Final = ("principal.builder.", "sasl.", "ssl.")
_OF_ANY_TEXT: Final = frozenset({"ssl.enabled.protocols", "ssl.protocol"})
"""TLS settings that accept any text on a running broker, as in Kafka. In the properties file, a text that names no TLS version prevents the
start.
"""
_OF_ANY_BROKER: Final = frozenset({"max.connections", "max.connection.creation.rate", "num.network.threads"})
"""Settings with a listener prefix (`listener.name.…`) that can be set for all brokers at once. Every other setting with such a prefix can
be set only for a single broker."""
_ABOVE_ZERO: Final = frozenset({"max.connections", "max.connection.creation.rate"})
"""Settings (of the broker and of single listeners) that must not be 0. With 0 no client could connect, not even to correct the setting."""
_PER_IP: Final = "max.connections.per.ip"
_PER_IP_OVERRIDES: Final = "max.connections.per.ip.overrides"
_RETENTION_MS: Final = "log.retention.ms"
_LOCAL_MS: Final = "log.local.retention.ms"
_LOCAL_RETENTION: Final = frozenset({_RETENTION_MS, _LOCAL_MS, "log.retention.bytes", "log.local.retention.bytes"})
_CLEANUP_POLICY: Final = "log.cleanup.policy"
_ASSIGNMENT_INTERVAL: Final = re.compile(r"group\.(consumer|share|streams)\.assignment\.interval\.ms")
_CLEANER_BYTES_MIN: Final = 1024 * 1024


def broker_key(name: str, like: ReleaseBehaviour) -> ConfigKey | None:
    """Return the definition (`ConfigKey`: type, default, validator) of a broker setting or a `listener.name.…` setting. Return None for a
    name that the Kafka release `like` does not have, or whose type is unknown.
    """
    if like.lacks(name):
        return None
    key, base = BROKER_KEYS.get(name) or STORED_SETTINGS.get(name) or security_setting(name), base_name(name)
    if key is not None or base is None:
        return key
    of_all = BROKER_KEYS.get(base) or STORED_SETTINGS.get(base)
    if of_all is not None:
        return of_all._replace(name=name)
    if is_ignored(base):
        return ConfigKey(name, ConfigType.PASSWORD if base in IGNORED_SECRETS else ConfigType.STRING, None, "Stored, but not applied.")
    return None


def base_name(name: str) -> str | None:
    """Return the name of a listener's setting without its prefix, such as `max.connections` for `listener.name.x.max.connections`; None for
    a setting without such a prefix."""
    match = _OF_A_LISTENER.fullmatch(name)
    return None if match is None else match[1]


def is_of_kafka(name: str, like: ReleaseBehaviour) -> bool:
    """Return whether the Kafka release `like`, which the broker imitates, has the setting `name`."""
    return not like.lacks(name) and (broker_key(name, like) is not None or is_defined(name))


def check_broker_changes(resource_name: str, named: Iterable[str], wanted: Mapping[str, str], like: ReleaseBehaviour) -> None:
    """Raise `Rejected(INVALID_REQUEST)` if one of the settings `named` in a request cannot be set to its value in `wanted`, the dynamic
    settings of the BROKER resource after the change. Settings that `wanted` lacks are deleted, which is always allowed here.
    `resource_name` is a broker id, or CLUSTER_DEFAULT.
    """
    changed = [name for name in named if name in wanted]
    fixed = [name for name in changed if not _can_change(name, like)]
    if fixed:
        raise Rejected(ErrorCode.INVALID_REQUEST, f"Cannot update these configs dynamically: [{', '.join(fixed)}]")
    for name in changed:
        if (problem := start_problem(name, wanted[name])) is not None:
            raise Rejected(ErrorCode.INVALID_REQUEST, problem)
        if (base_name(name) or name) not in _OF_ANY_TEXT:
            parse_setting(name, wanted[name], like)
    own = [name for name in changed if _is_of_one_broker(name, like)]
    if resource_name == CLUSTER_DEFAULT and own:
        what = "Cannot update these configs at default cluster level, broker id must be specified"
        raise Rejected(ErrorCode.INVALID_REQUEST, f"{what}: [{', '.join(own)}]")


def parse_setting(name: str, text: str, like: ReleaseBehaviour) -> Value:
    """Parse `text`, a value of the broker setting `name`. Return it unparsed if the Kafka release `like` does not have the setting, or the
    setting's type is unknown. Raises `Rejected(INVALID_REQUEST)` if the text is not a valid value.
    """
    key = broker_key(name, like)
    try:
        return text if key is None else key.parse(text)
    except InvalidConfig as error:
        raise Rejected(ErrorCode.INVALID_REQUEST, str(error)) from error


def check_cordoned(wanted: Mapping[str, str], settings: BrokerSettings) -> None:
    """Raise `Rejected(INVALID_REQUEST)` if `wanted`, the dynamic settings of a BROKER resource after a change, has a directory in
    cordoned.log.dirs that does not belong to this broker (KIP-1066).
    """
    if settings.release_behaviour.lacks(CORDONED):
        return
    cordoned = parse_setting(CORDONED, wanted.get(CORDONED, ""), settings.release_behaviour)
    assert isinstance(cordoned, tuple)
    missing = [each for each in cordoned if each not in {"*", *(settings.log_dirs or settings.log_dir)}]
    if missing:
        problem = f"All entries in {CORDONED} must be present in log.dirs or log.dir. Missing entries : {','.join(missing)}"
        raise Rejected(ErrorCode.INVALID_REQUEST, f"requirement failed: {problem}")


def check_threads(now: Mapping[str, str], then: Mapping[str, str], settings: BrokerSettings) -> None:
    """Raise `Rejected(INVALID_REQUEST)` if a thread count changes to less than half or more than double, or a log cleaner thread has 1 MiB
    of buffer or less. `now` and `then` are the broker's dynamic settings before and after the change.
    """
    for name in THREADS:
        before, after = _number(name, now, settings), _number(name, then, settings)
        _refuse(_threads_problem(name, before, after))
    before, after = _number(CLEANER_THREADS, now, settings), _number(CLEANER_THREADS, then, settings)
    _refuse(_cleaner_problem(before, after))
    if after and _number(CLEANER_BUFFER, then, settings) // after <= _CLEANER_BYTES_MIN:
        _refuse(f"{CLEANER_BUFFER} must be at least 1MB per cleaner thread.")


def check_values(then: Mapping[str, str], named: Iterable[str], settings: BrokerSettings) -> None:
    """Raise `Rejected(INVALID_REQUEST)` if one of the settings `named` in a request has a forbidden value in `then`, the broker's dynamic
    settings after the change: one that Kafka accepts only in the properties file, or that contradicts another setting (ConnectionQuotas,
    KafkaConfig.validateValues, GroupCoordinatorConfig.validate). `settings` has the values without dynamic changes.
    """
    for name in sorted(name for name in named if name in then and not settings.release_behaviour.lacks(name)):
        base, interval = base_name(name) or name, _ASSIGNMENT_INTERVAL.fullmatch(name)
        if base in _ABOVE_ZERO and _number(name, then, settings) <= 0:
            _refuse(f"Invalid {base} {then[name]}")
        elif name == _PER_IP and not _number(name, then, settings) and not then.get(_PER_IP_OVERRIDES, settings.value(_PER_IP_OVERRIDES)):
            _refuse(f"{_PER_IP} can be set to zero only if {_PER_IP_OVERRIDES} property is set.")
        elif name == _RETENTION_MS and _number(name, then, settings) == 0:
            _refuse(f"{_RETENTION_MS} must be unlimited (-1) or, greater than or equal to 1")
        elif (
            name == _CLEANUP_POLICY
            and settings.release_behaviour.refuses_repeated_policies
            and len(_items(then[name])) > len(set(_items(then[name])))
        ):
            _refuse(f"Configuration '{_CLEANUP_POLICY}' values must not be duplicated.")
        elif interval is not None:
            low, high = (f"group.{interval[1]}.{bound}.assignment.interval.ms" for bound in ("min", "max"))
            if _number(name, then, settings) < _number(low, {}, settings):
                _refuse(f"{name} must be greater than or equal to {low}")
            if _number(name, then, settings) > _number(high, {}, settings):
                _refuse(f"{name} must be less than or equal to {high}")
    if not _LOCAL_RETENTION.isdisjoint(named):
        _check_local_retention(then, settings)


def _check_local_retention(then: Mapping[str, str], settings: BrokerSettings) -> None:
    """Raise `Rejected(INVALID_REQUEST)` if the broker's default of local retention (tiered storage) exceeds its default of total retention.
    Deleting a setting can cause this, too (Kafka's `DynamicLogConfig`).
    """
    if settings.release_behaviour.lacks(_LOCAL_MS):
        return
    defaults = topic_defaults(settings)
    for name, local in ((_RETENTION_MS, _LOCAL_MS), ("log.retention.bytes", "log.local.retention.bytes")):
        whole = _number(name, then, settings) if name in then else defaults[name.removeprefix("log.")]
        part = _number(local, then, settings)
        assert isinstance(whole, int)
        if whole >= 0 and part == -1:
            _refuse(f"Invalid value -1 for configuration {local}: Value must not be -1 as {name} value is set as {whole}.")
        if whole >= 0 and part > whole:
            _refuse(f"Invalid value {part} for configuration {local}: Value must not be more than property: {name} value.")


def _items(text: str) -> list[str]:
    return [item.strip() for item in text.split(",")]


def _number(name: str, overrides: Mapping[str, str], settings: BrokerSettings) -> int:
    """Return the value of a numeric setting. A dynamic value in `overrides` that is no number is ignored, as by `BrokerConfigs`: it was
    stored by a controller, and must not block later changes."""
    key = broker_key(name, settings.release_behaviour) if name in overrides else None
    value = None
    if key is not None:
        with suppress(InvalidConfig):
            value = key.parse(overrides[name])
    value = settings.value(name) if value is None else value
    assert isinstance(value, int)
    return value


def _refuse(problem: str | None) -> None:
    if problem is not None:
        raise Rejected(ErrorCode.INVALID_REQUEST, f"Invalid dynamic configuration: {problem}")


def _threads_problem(name: str, before: int, after: int) -> str | None:
    failed = f"Dynamic thread count update validation failed for {name}={after}"
    if after < before // 2:
        return f"{failed}, value should be at least half the current value {before}"
    if after > before * 2:
        return f"{failed}, value should not be greater than double the current value {before}"
    return None


def _cleaner_problem(before: int, after: int) -> str | None:
    if after == before:
        return None
    if after < 1:
        return "Log cleaner threads should be at least 1"
    if after < before // 2:
        return f"Log cleaner threads cannot be reduced to less than half the current value {before}"
    if after > before * 2:
        return f"Log cleaner threads cannot be increased to more than double the current value {before}"
    return None


def _is_of_one_broker(name: str, like: ReleaseBehaviour) -> bool:
    """Return whether Kafka allows the setting `name` only for single brokers, and rejects a change of it for all brokers at once."""
    base = base_name(name)
    if base is not None:
        return base not in _OF_ANY_BROKER
    return (name == CORDONED and not like.lacks(name)) or name.startswith(_SECURING)


def _can_change(name: str, like: ReleaseBehaviour) -> bool:
    if like.lacks(name):
        return True
    base = base_name(name)
    if base is None and security_setting(name) is not None:
        return is_settable_while_running(name)
    if base is not None:
        return True
    key = broker_key(name, like)
    return key.dynamic if key is not None else not is_defined(name)


def is_settable_while_running(name: str) -> bool:
    """Return whether a client can set `name`, a TLS or SASL setting without a `listener.name.` prefix, on a running broker. As in Kafka,
    the value is only stored; running listeners ignore it.
    """
    from ottla.broker.core.security_keys import SETTABLE_WHILE_RUNNING  # noqa: PLC0415 # only secured brokers need it

    return name in SETTABLE_WHILE_RUNNING


def is_reloadable(base: str) -> bool:
    """Return whether a running listener can reload the setting `base`, which is named without the listener's prefix. Only the settings of
    key and trust stores can be reloaded.
    """
    if not base.startswith("ssl."):
        return False
    from ottla.broker.core.security_keys import RELOADABLE  # noqa: PLC0415 # only secured brokers need it

    return base in RELOADABLE


def check_is_this_broker(name: str, settings: BrokerSettings) -> None:
    """Raise `Rejected(INVALID_REQUEST)` unless the BROKER resource `name` is this node's id."""
    if name == str(settings.node_id):
        return
    if re.fullmatch(r"-?[0-9]+", name) is None:
        raise Rejected(ErrorCode.INVALID_REQUEST, f"Node id must be an integer, but it is: {name}")
    raise Rejected(ErrorCode.INVALID_REQUEST, f"Unexpected broker id, expected {settings.node_id}, but received {name}")
