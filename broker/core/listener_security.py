"""The current TLS and SASL settings of one listener."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.broker.core.config_keys import Value
from ottla.broker.core.security_keys import SECURITY_KEYS
from ottla.broker.core.settings import BrokerSettings


class ListenerSecurity:
    """The current TLS and SASL settings of one listener. Values are typed as `ConfigKey.parse` returns them. `settings` are those with
    which the broker was started; `dynamic` has the dynamic settings, by full name, which take precedence.
    """

    def __init__(self, settings: BrokerSettings, listener: str, dynamic: Mapping[str, Value] | None = None) -> None:
        self._given = {**settings.security, **dynamic} if dynamic else settings.security
        self.release_behaviour = settings.release_behaviour
        self._prefix = f"listener.name.{listener.lower()}."

    def value(self, name: str) -> Value:
        """Return the current typed value of the setting `name`: the listener's own (`listener.name.<listener>.<name>`), else the broker's,
        else the default. Raises KeyError for an unknown name.
        """
        for given in (self._prefix + name, name):
            if given in self._given:
                return self._given[given]
        return SECURITY_KEYS[name].default

    def text(self, name: str) -> str | None:
        """Return the current value of the setting `name` (see `value`) as text, or None if it is None or empty."""
        value = self.value(name)
        return None if value is None or value == "" else str(value)

    def number(self, name: str) -> int:
        """Return the current value of the setting `name` (see `value`), which must be of an integer type."""
        value = self.value(name)
        assert isinstance(value, int)
        return value

    def items(self, name: str) -> tuple[str, ...]:
        """Return the current value of the setting `name` (see `value`), which must be a list, as a tuple of its items."""
        value = self.value(name)
        assert isinstance(value, tuple)
        return value

    def is_given(self, name: str) -> bool:
        """Return whether the setting `name` was set, for this listener or for the whole broker. If not, `value` returns its default."""
        return self._prefix + name in self._given or name in self._given

    def own(self, name: str) -> Value:
        """Return the typed value of the setting `listener.name.<listener>.<name>`, or None if it is not set."""
        return self._given.get(self._prefix + name)

    def of_mechanism(self, mechanism: str, name: str) -> Value:
        """Return the typed value of the setting `listener.name.<listener>.<mechanism>.<name>`, or None if it is not set."""
        return self._given.get(f"{self._prefix}{mechanism.lower()}.{name}")
