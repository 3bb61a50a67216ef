"""The definition of one Kafka configuration key: its name, type, default, allowed values and documentation.

Values arrive as text (command line, environment, file, admin requests) and leave as text (DescribeConfigs). `parse` and `render` are
inverse to each other. Parsing follows Kafka: surrounding whitespace is ignored; a list is split at commas and keeps the first of equal
items; a boolean is `true` or `false` in any case.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, NamedTuple

Value = bool | int | float | str | tuple[str, ...] | None

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1


class ConfigType(IntEnum):
    """Kafka's types of configuration values, with their numbers in DescribeConfigs responses."""

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
    """Raised for a value that a configuration key does not allow. The text names the key, the value and the problem, as the text of Kafka's
    ConfigException does."""

    def __init__(self, name: str, text: str, problem: str) -> None:
        super().__init__(f"Invalid value {text} for configuration {name}: {problem}")
        self.name = name


@dataclass(frozen=True, slots=True)
class Validator:
    """A check of a setting's parsed value. `problem` returns an error text in the words of Kafka's validators, or None if the value is
    allowed.
    """

    problem: Callable[[Value], str | None]

    def allows(self, value: Value) -> bool:
        """Return whether this validator accepts `value`."""
        return self.problem(value) is None


@dataclass(frozen=True, slots=True)
class Synonym:
    """A broker setting that provides the default of a topic or group key. The key's default is the broker setting's value times `factor`,
    which converts units, such as hours to milliseconds.
    """

    name: str
    factor: int = 1


JAVA_TRIMS: Final = "".join(map(chr, range(0x21)))
"""The characters that Java's String.trim removes. Python's `strip` cannot be used, because it also removes Unicode spaces, which Kafka
rejects."""
_DOUBLE: Final = re.compile(r"[+-]?(?:NaN|Infinity|(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[dDfF]?)")
"""Matches a decimal number as Java's Double.parseDouble accepts it. Python's `float` cannot be used alone, because it also accepts digits
of other scripts and `1_000`."""


class ConfigKey(NamedTuple):
    """One configuration key. A `default` of None means "not set". `synonyms` (topic and group keys only) are tried in order before
    `default`.

    * A broker can be started with an `internal` key, but DescribeConfigs does not return it.
    * A key without `has_effect` is stored and described, but does not change the broker's behaviour.
    * A `cluster_only` key has an effect only on a node of a cluster (with process.roles).
    * `in_cluster` is Kafka's default, which the broker of a cluster uses. `default` then differs, because a standalone node could not
      satisfy Kafka's default (such as three replicas). If `in_cluster` is None, `default` applies to both.
    * If `repeats` is true, a value of type LIST may contain equal items; otherwise only the first of them is kept.
    * If `has_default` is false, Kafka defines no default. `default` is then the value that a broker without the setting uses, and
      DescribeConfigs does not return it.
    """

    name: str
    type: ConfigType
    default: Value
    doc: str
    validator: Validator | None = None
    dynamic: bool = False
    internal: bool = False
    cluster_only: bool = False
    has_default: bool = True
    in_cluster: Value = None
    synonyms: tuple[Synonym, ...] = ()
    has_effect: bool = True
    repeats: bool = False

    @property
    def sensitive(self) -> bool:
        """Whether the key's value must not appear in responses and log lines: the key is a password."""
        return self.type is ConfigType.PASSWORD

    def parse(self, text: str) -> Value:
        """Return `text` as a value of this key's type. Raises InvalidConfig if it is not of the type, or the validator rejects
        the value.
        """
        value = self._typed(text.strip(JAVA_TRIMS))
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
            if _DOUBLE.fullmatch(text) is None:
                raise self._invalid(text, "Not a number of type DOUBLE")
            return float(text.rstrip("dDfF"))
        if self.type is ConfigType.LIST:
            items = [item.strip(JAVA_TRIMS) for item in text.split(",")] if text else []
            return tuple(items if self.repeats else dict.fromkeys(items))
        return text

    def _whole(self, text: str, bits: int) -> int:
        try:
            value = int(text) if "_" not in text and text == text.strip() else None
        except ValueError:
            value = None
        if value is None or not -(1 << (bits - 1)) <= value < 1 << (bits - 1):
            raise self._invalid(text, f"Not a number of type {self.type.name}")
        return value

    def _invalid(self, text: str, problem: str) -> InvalidConfig:
        return InvalidConfig(self.name, "[hidden]" if self.sensitive else text, problem)


def render(value: Value) -> str | None:
    """Return the typed value of a setting as text in Kafka's form, or None if it is None (not set)."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(value)
    return str(value).replace("e+", "E").replace("e-", "E-") if isinstance(value, float) else str(value)


def validator(allows: Callable[[Value], bool], problem: str) -> Validator:
    """Return a validator that accepts the values for which `allows` returns True, and reports `problem` for all others."""
    return Validator(lambda value: None if allows(value) else problem)


def at_least(low: float) -> Validator:
    """Return a validator that accepts numbers from `low` up."""
    return validator(lambda value: isinstance(value, int | float) and value >= low, f"Value must be at least {low}")


def between(low: float, high: float) -> Validator:
    """Return a validator that accepts numbers from `low` to `high`, both included."""
    above = f"Value must be no more than {high}"
    return Validator(lambda value: at_least(low).problem(value) or (above if isinstance(value, int | float) and value > high else None))


def one_of(*choices: str) -> Validator:
    """Return a validator that accepts a text that is equal to one of `choices`."""
    return validator(lambda value: value in choices, "String must be one of: " + ", ".join(choices))


def one_of_in_any_case(*choices: str) -> Validator:
    """Return a validator that accepts one of the choices (given in lower case) in upper, lower or mixed case."""
    problem = "String must be one of (case insensitive): " + ", ".join(choices)
    return validator(lambda value: isinstance(value, str) and value.lower() in choices, problem)


def each_of(*choices: str) -> Validator:
    """Return a validator that accepts a list whose items are all among the choices."""
    problem = "String must be one of: " + ", ".join(choices)
    return validator(lambda value: isinstance(value, tuple) and all(item in choices for item in value), problem)


def any_of(validators: Sequence[Validator]) -> Validator:
    """Return a validator that accepts a value if at least one of `validators` accepts it."""

    def problem(value: Value) -> str | None:
        problems = [each.problem(value) for each in validators]
        return None if None in problems else " or ".join(filter(None, problems))

    return Validator(problem)


def exactly(value: Value) -> Validator:
    """Return a validator that accepts only `value`."""
    return validator(lambda found: found == value, f"Value must be {render(value)}")
