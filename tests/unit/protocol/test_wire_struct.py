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


def test_fields_are_given_by_place_or_by_name_and_others_have_their_defaults() -> None:
    made = Outer("a", numbers=[1])
    assert (made.name, made.note, made.numbers, made.inner) == ("a", None, [1], Inner(-1))


def test_each_instance_has_its_own_lists_and_structs() -> None:
    one, other = Outer(), Outer()
    assert one.numbers is not other.numbers
    assert one.inner is not other.inner


def test_a_field_that_does_not_exist_is_refused_by_the_first_instance_and_by_later_ones() -> None:
    for _ in range(2):
        with pytest.raises(TypeError, match="nme"):
            Outer(nme="a")  # type: ignore[call-arg]  # what a typo would be


def test_there_is_no_room_for_another_attribute() -> None:
    with pytest.raises(AttributeError):
        Outer().other = 1  # type: ignore[attr-defined]  # what a typo would be


def test_two_are_equal_when_their_class_and_all_their_fields_are() -> None:
    assert Outer("a", inner=Inner(1)) == Outer("a", inner=Inner(1))
    assert Outer("a", inner=Inner(1)) != Outer("a", inner=Inner(2))
    assert LikePlain("a") != Plain("a")
    assert LikePlain("a") != "a"


def test_it_cannot_be_a_key_because_it_changes() -> None:
    with pytest.raises(TypeError, match="unhashable"):
        hash(Inner())


def test_it_is_shown_as_a_dataclass_is() -> None:
    assert repr(LikePlain("a", [1])) == repr(Plain("a", [1])).replace("Plain", "LikePlain")


def test_it_is_a_dataclass_to_those_who_ask() -> None:
    made = Outer("a", numbers=[1])
    assert dataclasses.is_dataclass(Outer)
    assert [field.name for field in dataclasses.fields(made)] == ["name", "note", "numbers", "inner"]
    assert dataclasses.replace(made, name="b") == Outer("b", numbers=[1])
    assert dataclasses.asdict(made) == {"name": "a", "note": None, "numbers": [1], "inner": {"index": -1}}


def test_a_match_takes_its_fields_by_place() -> None:
    match Inner(3):
        case Inner(index):
            assert index == 3


def test_one_that_was_only_decoded_can_be_made_and_compared() -> None:
    data = encode(Outer("a", "n", [1, 2], Inner(5)), 0)
    assert decode(Outer, data, 0) == Outer("a", "n", [1, 2], Inner(5))


def test_its_docstring_is_its_own() -> None:
    assert Outer.__doc__ == "Has a docstring of its own."
