"""A broker's settings in layers: dynamic settings override static ones (Kafka's `DynamicBrokerConfig`).

Invariants:
- The value in force is the one that was set dynamically for this broker, else the one set dynamically for all brokers, else the static one
  (file, environment, command line), else the default.
- Dynamic values are records of the metadata log, so they survive a restart. The static ones are kept here, because they apply again when a
  dynamic value is deleted.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from copy import copy
from enum import IntEnum
from typing import Final

from ottla.broker.cluster.catalog import Catalog
from ottla.broker.cluster.image import ResourceType
from ottla.broker.configs.broker_changes import CLUSTER_DEFAULT, CheckStores, base_name
from ottla.broker.configs.broker_loggers import BrokerLoggers
from ottla.broker.core.config_keys import ConfigKey, InvalidConfig, Value, render
from ottla.broker.core.settings import BROKER_KEYS, STORED_SETTINGS, BrokerSettings, attribute_of, listener_key, security_setting

log = logging.getLogger(__name__)


class ConfigSource(IntEnum):
    """The layer from which a setting's value comes, numbered as in DescribeConfigs."""

    DYNAMIC_TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


SourcedText = tuple[str, str, ConfigSource]
"""A setting in one layer: its name, its value as text, and the layer (source)."""


class BrokerConfigs:
    """The values of a broker's settings in all layers: dynamic, static and default. `settings` always holds the values in force."""

    def __init__(self, settings: BrokerSettings, catalog: Catalog) -> None:
        self.settings = settings
        self.loggers = BrokerLoggers()
        self.check_stores: CheckStores = lambda _wanted: None
        """A function that gets the settings set dynamically for this broker, and raises Rejected if the listeners cannot use the key and
        trust stores in them. This default accepts all stores; the owner of the listeners replaces it.
        """
        self._catalog = catalog
        of_all = {name: settings.value(name) for name in (*BROKER_KEYS, *STORED_SETTINGS)}
        self._started: Final[dict[str, Value]] = of_all | dict(settings.listener_connections)

    def as_started(self) -> BrokerSettings:
        """Return a copy of the settings with the values that the broker had at its start, before all dynamic changes."""
        settings = copy(self.settings)
        for name in BROKER_KEYS:
            setattr(settings, attribute_of(name), self._started[name])
        return settings

    def cluster_wide(self) -> Mapping[str, str]:
        """Return the settings that were set dynamically for all brokers, by name, as text."""
        return self._catalog.configs(ResourceType.BROKER, CLUSTER_DEFAULT)

    def of_this_broker(self) -> Mapping[str, str]:
        """Return the settings that were set dynamically for this broker, by name, as text."""
        return self._catalog.configs(ResourceType.BROKER, str(self.settings.node_id))

    def layers(self, name: str) -> list[SourcedText]:
        """Return (name, text, source) for each layer that has a value for the setting `name`, including the default. The value in force is
        first.
        """
        found: list[SourcedText] = []
        if (text := self.of_this_broker().get(name)) is not None:
            found.append((name, text, ConfigSource.DYNAMIC_BROKER))
        if (text := self.cluster_wide().get(name)) is not None:
            found.append((name, text, ConfigSource.DYNAMIC_DEFAULT_BROKER))
        if name in self.settings.explicit and (text := render(self._as_started(name))) is not None:
            found.append((name, text, ConfigSource.STATIC_BROKER))
        if (text := self._default(name)) is not None:
            found.append((name, text, ConfigSource.DEFAULT))
        return found

    def _default(self, name: str) -> str | None:
        key = BROKER_KEYS.get(name) or STORED_SETTINGS.get(name)
        if key is not None:
            return render(self.settings.default(name)) if key.has_default else None
        key = security_setting(name) if base_name(name) is None else None  # a listener's setting falls back on the broker-wide one
        return render(key.default) if key is not None and key.has_default else None

    def overridden_static_value(self, name: str) -> tuple[str, str] | None:
        """Return a setting's static value and its value in force, both as text, if they differ because a dynamic value overrides the static
        one; otherwise None.
        """
        found = self.layers(name)
        started = next((text for _, text, source in found if source is ConfigSource.STATIC_BROKER), None)
        return None if started is None or started == found[0][1] else (started, found[0][1])

    def _as_started(self, name: str) -> Value:
        given = self.settings.security
        return given[name] if name in given else self._started[name]

    def names(self) -> set[str]:
        """Return the names of all settings that DescribeConfigs returns for a broker. An internal setting, or one that Kafka does not
        define, is included only if it was set.
        """
        keys = (*BROKER_KEYS.values(), *STORED_SETTINGS.values())
        given = {*self.of_this_broker(), *self.cluster_wide(), *self.settings.explicit}
        like = self.settings.release_behaviour
        return {key.name for key in keys if not (key.internal or like.lacks(key.name))} | given

    def refresh(self) -> set[str]:
        """Update `settings` to the values in force, after dynamic settings were changed. Return the names of the settings whose values
        changed.
        """
        changed = self._refresh_listeners()
        for name, key in BROKER_KEYS.items():
            if not key.dynamic or self.settings.release_behaviour.lacks(name):
                continue
            value = self._in_force(key)
            if value != self.settings.value(name):
                setattr(self.settings, attribute_of(name), value)
                changed.add(name)
        return changed

    def _refresh_listeners(self) -> set[str]:
        """Update the settings of single listeners (`listener.name.…`) in `settings`. Return the names of those that changed."""
        before = self.settings.listener_connections
        names = {*self._started, *self.of_this_broker(), *self.cluster_wide()}
        keys = filter(None, map(listener_key, sorted(names)))
        now = {key.name: value for key in keys if isinstance(value := self._in_force(key), int)}
        self.settings.listener_connections = now
        return {name for name in {*before, *now} if before.get(name) != now.get(name)}

    def _in_force(self, key: ConfigKey) -> Value:
        value = self.dynamic_value(key)
        return self._started.get(key.name) if value is None else value

    def dynamic_value(self, key: ConfigKey) -> Value:
        """Return the valid value that was set dynamically for this broker, or else for all brokers; None if there is none. An invalid one
        is skipped and logged: Kafka's controller stores any text that a client sends to it directly."""
        for layer in (self.of_this_broker(), self.cluster_wide()):
            if key.name in layer:
                try:
                    return key.parse(layer[key.name])
                except InvalidConfig as error:
                    log.warning("ignoring the stored value: %s", error)
        return None
