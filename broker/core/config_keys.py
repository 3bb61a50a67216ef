"""One configuration key of Kafka: its name, type, default, allowed values, and what it does.

Text is the form in which values arrive (command line, environment, file, admin requests) and leave (DescribeConfigs); `parse` and
`render` are each other's inverse. Kafka's rules of parsing: blanks around a value do not count, a list is split at commas and keeps the
first of equal items, a boolean is `true` or `false` in any case.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

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
    """A value that its key does not allow; the text names the key, the value, and what is wrong, as Kafka's ConfigException does."""

    def __init__(self, name: str, text: str, problem: str) -> None:
        super().__init__(f"Invalid value {text} for configuration {name}: {problem}")
        self.name = name


@dataclass(frozen=True, slots=True)
class Validator:
    """Which parsed values are allowed: what is wrong with one, in the words of Kafka's validators, or None."""

    problem: Callable[[Value], str | None]

    def allows(self, value: Value) -> bool:
        """Whether nothing is wrong with it."""
        return self.problem(value) is None


@dataclass(frozen=True, slots=True)
class Synonym:
    """A broker setting that is a topic or group key's default; its value times `factor` is the topic's (hours to milliseconds)."""

    name: str
    factor: int = 1


class ConfigKey(NamedTuple):
    """One key. `default` None means: not set. `synonyms` (topic and group keys only) are tried in order, then `default`.

    An `internal` key can be set at the start and is described to nobody. One for a `member` means nothing to a broker without a cluster.
    Without `has_default` Kafka has none: the one here is for a broker that does without the setting, and is told to nobody.
    """

    name: str
    type: ConfigType
    default: Value
    doc: str
    validator: Validator | None = None
    dynamic: bool = False
    internal: bool = False
    member: bool = False
    has_default: bool = True
    synonyms: tuple[Synonym, ...] = ()

    @property
    def sensitive(self) -> bool:
        """True for values that no response or log line may show."""
        return self.type is ConfigType.PASSWORD

    def parse(self, text: str) -> Value:
        """The typed value of `text`; raises InvalidConfig."""
        value = self._typed(text.strip())
        problem = None if self.validator is None else self.validator.problem(value)
        if problem is not None:
            raise self._invalid(text, problem)
        return value

    def _typed(self, text: str) -> Value:
        if self.type is ConfigType.BOOLEAN:
            if text.lower() not in {"true", "false"}:
                raise self._invalid(text, "Expected value to be either true or false")
            return text.lower() == "true"
        if self.type in _WHOLE_BITS:
            return self._whole(text, _WHOLE_BITS[self.type])
        if self.type is ConfigType.DOUBLE:
            try:
                return float(text)
            except ValueError:
                raise self._invalid(text, "Not a number of type DOUBLE") from None
        if self.type is ConfigType.LIST:
            return tuple(dict.fromkeys(item.strip() for item in text.split(","))) if text else ()
        return text

    def _whole(self, text: str, bits: int) -> int:
        try:
            value = int(text) if "_" not in text else None
        except ValueError:
            value = None
        if value is None or not -(1 << (bits - 1)) <= value < 1 << (bits - 1):
            raise self._invalid(text, f"Not a number of type {self.type.name}")
        return value

    def _invalid(self, text: str, problem: str) -> InvalidConfig:
        return InvalidConfig(self.name, "[hidden]" if self.sensitive else text, problem)


def render(value: Value) -> str | None:
    """The text of a typed value as Kafka writes it, or None for one that is not set."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(value)
    return str(value).replace("e+", "E").replace("e-", "E-") if isinstance(value, float) else str(value)


def validator(allows: Callable[[Value], bool], problem: str) -> Validator:
    """Values for which `allows` is true; `problem` says of all others what is wrong."""
    return Validator(lambda value: None if allows(value) else problem)


def at_least(low: float) -> Validator:
    """Numbers from `low` up."""
    return validator(lambda value: isinstance(value, int | float) and value >= low, f"Value must be at least {low}")


def between(low: float, high: float) -> Validator:
    """Numbers from `low` to `high`, both included."""
    above = f"Value must be no more than {high}"
    return Validator(lambda value: at_least(low).problem(value) or (above if isinstance(value, int | float) and value > high else None))


def one_of(*choices: str) -> Validator:
    """One of a few words."""
    return validator(lambda value: value in choices, "String must be one of: " + ", ".join(choices))


def one_of_in_any_case(*choices: str) -> Validator:
    """One of a few words, written in lower or upper case."""
    problem = "String must be one of (case insensitive): " + ", ".join(choices)
    return validator(lambda value: isinstance(value, str) and value.lower() in choices, problem)


def each_of(*choices: str) -> Validator:
    """A list whose items are among a few words."""
    problem = "String must be one of: " + ", ".join(choices)
    return validator(lambda value: isinstance(value, tuple) and all(item in choices for item in value), problem)


def any_of(validators: Sequence[Validator]) -> Validator:
    """Values that one of `validators` allows."""

    def problem(value: Value) -> str | None:
        problems = [each.problem(value) for each in validators]
        return None if None in problems else " or ".join(filter(None, problems))

    return Validator(problem)


def exactly(value: Value) -> Validator:
    """One value only."""
    return validator(lambda found: found == value, f"Value must be {render(value)}")
