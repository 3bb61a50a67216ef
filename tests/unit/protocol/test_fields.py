from __future__ import annotations

import pytest

from ottla.protocol.fields import Versions, wire_fields
from ottla.protocol.schema import array, int32, string, struct, uuid, wire_struct


@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [("0+", [0, 99], []), ("3+", [3, 4], [2]), ("2-4", [2, 4], [1, 5]), ("7", [7], [6, 8]), ("none", [], [0, 1])],
)
def test_version_ranges_are_read_in_kafkas_notation(text: str, inside: list[int], outside: list[int]) -> None:
    versions = Versions.parse(text)
    assert all(version in versions for version in inside)
    assert not any(version in versions for version in outside)


@wire_struct
class Inner:
    id: bytes = uuid()


@wire_struct
class Outer:
    name: str = string()
    numbers: list[int] = array(int32, "1+")
    inner: Inner = struct(Inner)
    maybe: Inner | None = struct(Inner, nullable="0+")
    none: list[int] | None = array(int32, nullable="0+", default=None)


def test_every_field_has_the_default_of_its_kind() -> None:
    outer = Outer()
    assert (outer.name, outer.numbers, outer.inner, outer.maybe, outer.none) == ("", [], Inner(bytes(16)), None, None)


def test_no_two_messages_share_a_default() -> None:
    assert Outer().numbers is not Outer().numbers
    assert Outer().inner is not Outer().inner


def test_fields_come_in_the_order_of_the_wire() -> None:
    assert [field.name for field in wire_fields(Outer)] == ["name", "numbers", "inner", "maybe", "none"]
