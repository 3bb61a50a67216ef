from __future__ import annotations

import pytest

from broker.core.config_keys import ConfigKey, ConfigType, InvalidConfig, at_least, between, each_of, one_of, render


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (ConfigType.BOOLEAN, " True ", True),
        (ConfigType.BOOLEAN, "false", False),
        (ConfigType.INT, "-5", -5),
        (ConfigType.LONG, "9223372036854775807", 2**63 - 1),
        (ConfigType.DOUBLE, "0.5", 0.5),
        (ConfigType.LIST, "a, b,c", ("a", "b", "c")),
        (ConfigType.LIST, "", ()),
        (ConfigType.STRING, " x ", "x"),
    ],
)
def test_text_is_read_as_its_type(kind: ConfigType, text: str, value: object) -> None:
    assert ConfigKey("k", kind, None, "").parse(text) == value


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (ConfigType.BOOLEAN, "yes"),
        (ConfigType.INT, "2147483648"),
        (ConfigType.INT, "1_000"),
        (ConfigType.INT, "1.0"),
        (ConfigType.SHORT, "40000"),
        (ConfigType.LONG, ""),
        (ConfigType.DOUBLE, "half"),
    ],
)
def test_text_of_another_type_is_refused_with_the_name_and_what_is_allowed(kind: ConfigType, text: str) -> None:
    with pytest.raises(InvalidConfig, match=r"configuration some\.key: allowed is "):
        ConfigKey("some.key", kind, None, "").parse(text)


@pytest.mark.parametrize(
    ("key", "good", "bad"),
    [
        (ConfigKey("k", ConfigType.INT, 1, "", at_least(1)), "1", "0"),
        (ConfigKey("k", ConfigType.DOUBLE, 1, "", between(0, 1)), "0.7", "1.1"),
        (ConfigKey("k", ConfigType.STRING, "a", "", one_of("a", "b")), "b", "c"),
        (ConfigKey("k", ConfigType.LIST, (), "", each_of("a", "b")), "b,a", "a,a"),
    ],
)
def test_a_value_against_its_rule_is_refused(key: ConfigKey, good: str, bad: str) -> None:
    key.parse(good)
    with pytest.raises(InvalidConfig):
        key.parse(bad)


def test_a_password_is_not_shown_in_its_error() -> None:
    key = ConfigKey("secret", ConfigType.PASSWORD, None, "", one_of("x"))
    with pytest.raises(InvalidConfig) as caught:
        key.parse("hunter2")
    assert "hunter2" not in str(caught.value)


def test_rendering_gives_back_what_was_parsed() -> None:
    assert [render(value) for value in (True, 5, 0.5, ("a", "b"), (), "x", None)] == ["true", "5", "0.5", "a,b", "", "x", None]
