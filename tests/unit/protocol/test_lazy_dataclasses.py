from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError, InitVar, field
from typing import Any, ClassVar

import pytest

from ottla.protocol.lazy_dataclasses import OFTEN, dataclass

Decorator = Callable[..., Any]
BOTH = pytest.mark.parametrize("decorator", [dataclass, dataclasses.dataclass], ids=["lazy", "of the standard library"])


@dataclass(frozen=True, slots=True)
class Point:
    x: int
    seen: list[int] = field(default_factory=list, compare=False)
    AXES: ClassVar[int] = 2


def of(decorator: Decorator, **options: bool) -> Any:
    """A class of every kind of field."""

    @decorator(**options)
    class Made:
        name: str
        size: int = 3
        parts: list[int] = field(default_factory=list)
        quiet: int = field(default=0, repr=False, compare=False, kw_only=True)
        twice: InitVar[bool] = False
        KIND: ClassVar[str] = "made"

        def __post_init__(self, twice: bool) -> None:
            object.__setattr__(self, "size", self.size * (1 + twice))

    return Made


@BOTH
@pytest.mark.parametrize("options", [{}, {"slots": True}, {"frozen": True, "slots": True}], ids=["plain", "slots", "frozen"])
def test_it_is_made_shown_and_compared_as_the_standard_librarys(decorator: Decorator, options: dict[str, bool]) -> None:
    made = of(decorator, **options)
    one, same, other = made("a", 1, [2], True, quiet=5), made("a", 2, [2]), made("b", parts=[])
    assert (one.name, one.size, one.parts, one.quiet, other.size, other.parts) == ("a", 2, [2], 5, 3, [])
    assert repr(one).endswith("Made(name='a', size=2, parts=[2])")
    assert one == same
    assert one != other
    assert made.__match_args__ == ("name", "size", "parts", "twice")
    assert [each.name for each in dataclasses.fields(made)] == ["name", "size", "parts", "quiet"]
    assert dataclasses.replace(one, name="c", twice=False) == made("c", 2, [2])
    assert list(inspect.signature(type(one).__init__).parameters) == ["self", "name", "size", "parts", "twice", "quiet"]
    with pytest.raises(TypeError, match="sise"):
        made("a", sise=1)


@BOTH
def test_what_may_change_has_no_hash_and_what_may_not_has_one_of_what_is_compared(decorator: Decorator) -> None:
    assert of(decorator).__hash__ is None
    frozen = of(decorator, frozen=True)
    assert hash(frozen("a", parts=())) == hash(frozen("a", parts=(), quiet=9)) != hash(frozen("b", parts=()))


@BOTH
def test_without_eq_an_instance_is_equal_to_itself_alone(decorator: Decorator) -> None:
    made = of(decorator, eq=False)
    assert made("a") != made("a")
    assert len({made("a"), made("a")}) == 2


@BOTH
def test_functions_of_the_classs_own_are_kept(decorator: Decorator) -> None:
    @decorator(frozen=True, slots=True)
    class Made:
        name: str

        def __repr__(self) -> str:
            return "mine"

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Made)

        def __hash__(self) -> int:
            return 7

    assert (repr(Made("a")), hash(Made("a"))) == ("mine", 7)
    assert Made("a") == Made("b")


def test_a_frozen_one_is_neither_assigned_to_nor_deleted_from() -> None:
    point = Point(1)
    with pytest.raises(FrozenInstanceError, match="x"):
        point.x = 2  # type: ignore[misc]  # what is refused
    with pytest.raises(FrozenInstanceError, match="x"):
        del point.x  # type: ignore[misc]  # as above


def test_a_frozen_one_with_slots_is_copied_and_pickled() -> None:
    point = Point(1, [2])
    assert pickle.loads(pickle.dumps(point)).seen == copy.deepcopy(point).seen == copy.copy(point).seen == [2]


def test_a_class_that_inherits_adds_its_fields_and_the_first_of_either_changes_nothing_of_the_other() -> None:
    @dataclass(frozen=True, slots=True)
    class Space(Point):
        z: int = 0

    assert Space(1, [], 2) == Space(x=1, z=2)
    assert Space(1) != Point(1)
    assert Point(1) == Point(1)


def test_what_is_called_seldom_is_not_compiled() -> None:
    @dataclass(slots=True)
    class Made:
        name: str

    for _ in range(OFTEN):
        Made("a")
        assert Made.__init__.__code__.co_filename.endswith("lazy_dataclasses.py")
    assert Made("a").name == "a"
    assert Made.__init__.__code__.co_filename == "<string>"
    assert Made.__eq__.__code__.co_filename.endswith("lazy_dataclasses.py")
    assert Made("a") == Made("a")
    assert Made.__eq__.__code__.co_filename == "<string>"


@BOTH
@pytest.mark.parametrize("options", [{}, {"slots": True}, {"frozen": True, "slots": True}], ids=["plain", "slots", "frozen"])
@pytest.mark.parametrize("calls_before", [0, OFTEN])
def test_arguments_fit_or_are_refused_as_the_standard_librarys(decorator: Decorator, options: dict[str, bool], calls_before: int) -> None:
    @decorator(**options)
    class Made:
        name: str
        parts: list[int] = field(default_factory=list)
        hits: int = field(default=0, init=False)
        quiet: int = field(default=7, kw_only=True)

        def __post_init__(self) -> None:
            self.parts.append(self.quiet)

    for _ in range(calls_before):
        Made("a")
    assert (Made("a", [1], quiet=2).parts, Made(name="a").parts, Made("a").hits) == ([1, 2], [7], 0)
    wrong: list[tuple[list[Any], dict[str, Any]]] = [
        ([], {}),
        (["a", [], 3], {}),
        (["a"], {"name": "b"}),
        (["a"], {"hits": 1}),
        (["a"], {"size": 1}),
    ]
    for values, named in wrong:
        with pytest.raises(TypeError, match=r"__init__\(\)"):
            Made(*values, **named)


@BOTH
@pytest.mark.parametrize("options", [{}, {"slots": True}, {"frozen": True, "slots": True}], ids=["plain", "slots", "frozen"])
def test_a_field_that_is_no_argument_has_its_default(decorator: Decorator, options: dict[str, bool]) -> None:
    @decorator(**options)
    class Rule:
        name: str
        hits: int = field(default=0, init=False)
        seen: list[int] = field(default_factory=list, init=False)

    assert (Rule("a").hits, Rule("a").seen, repr(Rule("a")).rpartition(".")[2]) == (0, [], "Rule(name='a', hits=0, seen=[])")
