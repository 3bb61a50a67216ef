"""One configuration key of Kafka: its name, type, default, allowed values, and what it does.

Text is the form in which values arrive (command line, environment, file, admin requests) and leave (DescribeConfigs); `parse` and
`render` are each other's inverse. Kafka's rules of parsing: blanks around a value do not count, a list is split at commas, a boolean is
`true` or `false` in any case.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum

Value = bool | int | float | str | tuple[str, ...] | None

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1


class ConfigType(IntEnum):
    """Kafka's types by the numbers that DescribeConfigs gives them."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


_WHOLE_BITS = {ConfigType.SHORT: 16, ConfigType.INT: 32, ConfigType.LONG: 64}


class InvalidConfig(ValueError):
    """A value that its key does not allow; the text names the key, the value, and what is allowed."""

    def __init__(self, name: str, text: str, allowed: str) -> None:
        super().__init__(f"Invalid value {text!r} for configuration {name}: allowed is {allowed}")
        self.name = name


@dataclass(frozen=True, slots=True)
class Rule:
    """Which parsed values are allowed: a test, and the words for an error message."""

    allows: Callable[[Value], bool]
    words: str


@dataclass(frozen=True, slots=True)
class Synonym:
    """A broker setting that is a topic or group key's default; its value times `factor` is the topic's (hours to milliseconds)."""

    name: str
    factor: int = 1


@dataclass(frozen=True, slots=True)
class ConfigKey:
    """One key. `default` None means: not set. `synonyms` (topic and group keys only) are tried in order, then `default`.

    An `internal` key can be set at the start and is described to nobody.
    """

    name: str
    type: ConfigType
    default: Value
    doc: str
    rule: Rule | None = None
    dynamic: bool = False
    internal: bool = False
    synonyms: tuple[Synonym, ...] = ()

    @property
    def sensitive(self) -> bool:
        """True for values that no response or log line may show."""
        return self.type is ConfigType.PASSWORD

    def parse(self, text: str) -> Value:
        """The typed value of `text`; raises InvalidConfig."""
        value = self._typed(text.strip())
        if self.rule is not None and not self.rule.allows(value):
            raise self._invalid(text, self.rule.words)
        return value

    def _typed(self, text: str) -> Value:
        if self.type is ConfigType.BOOLEAN:
            if text.lower() not in {"true", "false"}:
                raise self._invalid(text, "true or false")
            return text.lower() == "true"
        if self.type in _WHOLE_BITS:
            return self._whole(text, _WHOLE_BITS[self.type])
        if self.type is ConfigType.DOUBLE:
            try:
                return float(text)
            except ValueError:
                raise self._invalid(text, "a number") from None
        if self.type is ConfigType.LIST:
            return tuple(item.strip() for item in text.split(",")) if text else ()
        return text

    def _whole(self, text: str, bits: int) -> int:
        try:
            value = int(text) if "_" not in text else None
        except ValueError:
            value = None
        if value is None or not -(1 << (bits - 1)) <= value < 1 << (bits - 1):
            raise self._invalid(text, f"a whole number of {bits} bits")
        return value

    def _invalid(self, text: str, allowed: str) -> InvalidConfig:
        return InvalidConfig(self.name, "[hidden]" if self.sensitive else text, allowed)


def render(value: Value) -> str | None:
    """The text of a typed value as Kafka writes it, or None for one that is not set."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(value)
    return str(value)


def at_least(low: int) -> Rule:
    """Numbers from `low` up."""
    return Rule(lambda value: isinstance(value, int | float) and value >= low, f"at least {low}")


def between(low: float, high: float) -> Rule:
    """Numbers from `low` to `high`, both included."""
    return Rule(lambda value: isinstance(value, int | float) and low <= value <= high, f"between {low} and {high}")


def one_of(*choices: str) -> Rule:
    """One of a few words."""
    return Rule(lambda value: value in choices, "one of " + ", ".join(choices))


def one_of_in_any_case(*choices: str) -> Rule:
    """One of a few words, written in lower or upper case."""
    return Rule(lambda value: isinstance(value, str) and value.lower() in choices, "one of " + ", ".join(choices))


def each_of(*choices: str) -> Rule:
    """A list whose items are among a few words, each at most once."""

    def allows(value: Value) -> bool:
        return isinstance(value, tuple) and len(set(value)) == len(value) and all(item in choices for item in value)

    return Rule(allows, "a list of " + ", ".join(choices) + ", each at most once")


def any_of(rules: Sequence[Rule]) -> Rule:
    """Values that one of `rules` allows."""
    return Rule(lambda value: any(rule.allows(value) for rule in rules), " or ".join(rule.words for rule in rules))


def exactly(value: Value) -> Rule:
    """One value only."""
    return Rule(lambda found: found == value, f"{render(value)}")
