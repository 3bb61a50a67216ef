from __future__ import annotations

import pytest

from ottla.broker.core.config_keys import ConfigKey, ConfigType, InvalidConfig, any_of, at_least, between, each_of, exactly, one_of, render


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (ConfigType.BOOLEAN, " True ", True),
        (ConfigType.BOOLEAN, "false", False),
        (ConfigType.INT, "-5", -5),
        (ConfigType.LONG, "9223372036854775807", 2**63 - 1),
        (ConfigType.INT, " 5\x00", 5),
        (ConfigType.DOUBLE, "0.5", 0.5),
        (ConfigType.DOUBLE, "-.5e1d", -5.0),
        (ConfigType.DOUBLE, "Infinity", float("inf")),
        (ConfigType.LIST, "a, b,c", ("a", "b", "c")),
        (ConfigType.LIST, "b,a, b", ("b", "a")),
        (ConfigType.LIST, "", ()),
        (ConfigType.STRING, " x ", "x"),
    ],
)
def test_parse_returns_the_keys_type(kind: ConfigType, text: str, value: object) -> None:
    assert ConfigKey("k", kind, None, "").parse(text) == value


@pytest.mark.parametrize(
    ("kind", "text", "problem"),
    [
        (ConfigType.BOOLEAN, "yes", "Expected value to be either true or false"),
        (ConfigType.INT, "2147483648", "Not a number of type INT"),
        (ConfigType.INT, "1_000", "Not a number of type INT"),
        (ConfigType.INT, "1.0", "Not a number of type INT"),
        (ConfigType.SHORT, "40000", "Not a number of type SHORT"),
        (ConfigType.LONG, "", "Not a number of type LONG"),
        (ConfigType.INT, "\u00a05", "Not a number of type INT"),
        (ConfigType.LONG, "5\u2003", "Not a number of type LONG"),
        (ConfigType.DOUBLE, "half", "Not a number of type DOUBLE"),
        (ConfigType.DOUBLE, "1_000", "Not a number of type DOUBLE"),
        pytest.param(ConfigType.DOUBLE, "1" * 1_000_000 + "x", "Not a number of type DOUBLE", id="a long number, in linear time"),
        (ConfigType.DOUBLE, "\u0663", "Not a number of type DOUBLE"),
        (ConfigType.DOUBLE, "inf", "Not a number of type DOUBLE"),
    ],
)
def test_parse_rejects_text_of_another_type_in_kafkas_words(kind: ConfigType, text: str, problem: str) -> None:
    with pytest.raises(InvalidConfig) as caught:
        ConfigKey("some.key", kind, None, "").parse(text)
    assert str(caught.value) == f"Invalid value {text} for configuration some.key: {problem}"


@pytest.mark.parametrize(
    ("key", "good", "bad", "problem"),
    [
        (ConfigKey("k", ConfigType.INT, 1, "", at_least(1)), "1", "0", "Value must be at least 1"),
        (ConfigKey("k", ConfigType.DOUBLE, 1, "", between(0, 1)), "0.7", "1.1", "Value must be no more than 1"),
        (ConfigKey("k", ConfigType.DOUBLE, 1, "", between(0, 1)), "0", "-1", "Value must be at least 0"),
        (ConfigKey("k", ConfigType.STRING, "a", "", one_of("a", "b")), "b", "c", "String must be one of: a, b"),
        (ConfigKey("k", ConfigType.LIST, (), "", each_of("a", "b")), "b,a,a", "a,c", "String must be one of: a, b"),
        (
            ConfigKey("k", ConfigType.INT, -1, "", any_of([exactly(-1), at_least(1)])),
            "-1",
            "0",
            "Value must be -1 or Value must be at least 1",
        ),
    ],
)
def test_parse_rejects_values_that_the_validator_does_not_allow_in_kafkas_words(key: ConfigKey, good: str, bad: str, problem: str) -> None:
    key.parse(good)
    with pytest.raises(InvalidConfig) as caught:
        key.parse(bad)
    assert str(caught.value) == f"Invalid value {bad} for configuration k: {problem}"


def test_an_invalid_passwords_error_hides_the_value() -> None:
    key = ConfigKey("secret", ConfigType.PASSWORD, None, "", one_of("x"))
    with pytest.raises(InvalidConfig) as caught:
        key.parse("hunter2")
    assert "hunter2" not in str(caught.value)


def test_render_is_the_inverse_of_parse() -> None:
    assert [render(value) for value in (True, 5, 0.5, ("a", "b"), (), "x", None)] == ["true", "5", "0.5", "a,b", "", "x", None]
