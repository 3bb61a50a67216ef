from __future__ import annotations

import dataclasses

import pytest

from ottla.protocol.schema import Message, array, decode, encode, int32, string, struct, wire_struct


@wire_struct
class Inner:
    index: int = int32(default=-1)


@wire_struct
class Outer(Message, versions="0-1"):
    """Has a docstring of its own."""

    name: str = string()
    note: str | None = string(nullable="0+", default=None)
    numbers: list[int] = array(int32)
    inner: Inner = struct(Inner)


@dataclasses.dataclass(slots=True)
class Plain:
    name: str = ""
    numbers: list[int] = dataclasses.field(default_factory=list)


@wire_struct
class LikePlain:
    name: str = string()
    numbers: list[int] = array(int32)


def test_fields_are_positional_or_keyword_arguments_with_defaults() -> None:
    made = Outer("a", numbers=[1])
    assert (made.name, made.note, made.numbers, made.inner) == ("a", None, [1], Inner(-1))


def test_mutable_defaults_are_not_shared_between_instances() -> None:
    one, other = Outer(), Outer()
    assert one.numbers is not other.numbers
    assert one.inner is not other.inner


def test_unknown_field_is_rejected_by_the_first_and_later_instances() -> None:
    for _ in range(2):
        with pytest.raises(TypeError, match="nme"):
            Outer(nme="a")  # type: ignore[call-arg]  # what a typo would be


def test_unknown_attribute_cannot_be_set() -> None:
    with pytest.raises(AttributeError):
        Outer().other = 1  # type: ignore[attr-defined]  # what a typo would be


def test_instances_are_equal_if_class_and_fields_are() -> None:
    assert Outer("a", inner=Inner(1)) == Outer("a", inner=Inner(1))
    assert Outer("a", inner=Inner(1)) != Outer("a", inner=Inner(2))
    assert LikePlain("a") != Plain("a")
    assert LikePlain("a") != "a"


def test_wire_struct_is_unhashable() -> None:
    with pytest.raises(TypeError, match="unhashable"):
        hash(Inner())


def test_repr_is_that_of_a_dataclass() -> None:
    assert repr(LikePlain("a", [1])) == repr(Plain("a", [1])).replace("Plain", "LikePlain")


def test_dataclass_functions_work_on_a_wire_struct() -> None:
    made = Outer("a", numbers=[1])
    assert dataclasses.is_dataclass(Outer)
    assert [field.name for field in dataclasses.fields(made)] == ["name", "note", "numbers", "inner"]
    assert dataclasses.replace(made, name="b") == Outer("b", numbers=[1])
    assert dataclasses.asdict(made) == {"name": "a", "note": None, "numbers": [1], "inner": {"index": -1}}


def test_match_statement_takes_fields_by_position() -> None:
    match Inner(3):
        case Inner(index):
            assert index == 3


def test_decoded_class_can_be_constructed_and_compared() -> None:
    data = encode(Outer("a", "n", [1, 2], Inner(5)), 0)
    assert decode(Outer, data, 0) == Outer("a", "n", [1, 2], Inner(5))


def test_explicit_docstring_is_kept() -> None:
    assert Outer.__doc__ == "Has a docstring of its own."
