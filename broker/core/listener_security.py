"""The settings of TLS and SASL as one listener has them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ottla.broker.core.security_keys import SECURITY_KEYS

if TYPE_CHECKING:
    from ottla.broker.core.config_keys import Value
    from ottla.broker.core.settings import BrokerSettings


class ListenerSecurity:
    """What is set for one listener. Values are typed as `ConfigKey.parse` gives them. `over`, by full names, comes before what the broker
    was started with."""

    def __init__(self, settings: BrokerSettings, listener: str, over: Mapping[str, Value] | None = None) -> None:
        self._given = {**settings.secured, **over} if over else settings.secured
        self._prefix = f"listener.name.{listener.lower()}."

    def value(self, name: str) -> Value:
        """The value in force at the listener."""
        for given in (self._prefix + name, name):
            if given in self._given:
                return self._given[given]
        return SECURITY_KEYS[name].default

    def text(self, name: str) -> str | None:
        """One that is a text; None where it is not set, or empty."""
        value = self.value(name)
        return None if value is None or value == "" else str(value)

    def number(self, name: str) -> int:
        """One that is a number."""
        value = self.value(name)
        assert isinstance(value, int)
        return value

    def items(self, name: str) -> tuple[str, ...]:
        """One that is a list."""
        value = self.value(name)
        assert isinstance(value, tuple)
        return value

    def is_given(self, name: str) -> bool:
        """Whether somebody set it, for the listener or for all."""
        return self._prefix + name in self._given or name in self._given

    def own(self, name: str) -> Value:
        """What is given for this very listener; None where nothing is."""
        return self._given.get(self._prefix + name)

    def of_mechanism(self, mechanism: str, name: str) -> Value:
        """What is given for this very mechanism of this very listener; None where nothing is."""
        return self._given.get(f"{self._prefix}{mechanism.lower()}.{name}")
