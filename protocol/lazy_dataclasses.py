"""`dataclass` of the standard library, whose functions are made when one of them is first called.

The standard one compiles an `__init__`, an `__eq__`, a `__repr__`, and more for a frozen class. A broker has two hundred such classes and
uses few of them in its first second: compiling was a quarter of its imports. What is made is the standard library's own, by its rules.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

__all__ = ["dataclass"]

if TYPE_CHECKING:
    from dataclasses import dataclass  # what it is to its users
else:

    def dataclass(cls=None, /, *, eq=True, repr=True, frozen=False, slots=False, kw_only=False):
        """As `dataclasses.dataclass`; of its options those that this project uses."""

        def made(cls):
            return _lazy(cls, eq=eq, repr=repr, frozen=frozen, slots=slots, kw_only=kw_only)

        return made if cls is None else made(cls)


def _lazy(cls: type, *, eq: bool, repr: bool, frozen: bool, slots: bool, kw_only: bool) -> type:
    own = vars(cls)
    wanted = ["__init__"] + ["__repr__"] * repr + ["__eq__"] * eq
    if eq and own.get("__hash__") is None:
        if frozen:
            wanted.append("__hash__")
        else:
            cls.__hash__ = None  # type: ignore[assignment] # what is equal to others and may change has none
    lazy = [name for name in wanted if name == "__hash__" or name not in own]

    def first_call(name: str) -> Any:
        def function(self: Any, *values: Any, **named: Any) -> Any:
            made = _function(whole, name, frozen=frozen, slots=slots)
            setattr(whole, name, made)
            return made(self, *values, **named)

        return function

    for name in lazy:
        setattr(cls, name, first_call(name))
    if frozen:
        cls.__setattr__, cls.__delattr__ = _refuse_to_assign, _refuse_to_delete  # type: ignore[assignment]  # a frozen class refuses
        if slots:
            cls.__getstate__, cls.__setstate__ = _state, _set_state  # type: ignore[attr-defined,assignment]  # mypy knows none of them
    cls.__doc__ = cls.__doc__ or cls.__name__  # else the standard library makes one out of a signature
    whole: type = dataclasses.dataclass(init=False, repr=False, eq=False, slots=slots, kw_only=kw_only)(cls)
    return whole


def _function(cls: type, name: str, *, frozen: bool, slots: bool) -> Any:
    """The standard library's function for the fields of `cls`, made in a class of the same fields that nobody sees.

    With `slots` an `__init__` gives a field that is no argument its default, which is in the class else.
    """
    fields = cls.__dataclass_fields__  # type: ignore[attr-defined] # `fields` leaves out what only __post_init__ gets
    body = {
        "__annotations__": {name: field.type for name, field in fields.items()},
        "__module__": cls.__module__,
        "__qualname__": cls.__qualname__,
        "__doc__": cls.__doc__,
        **fields,
    }
    if hasattr(cls, "__post_init__"):
        body["__post_init__"] = cls.__post_init__
    twin = type(cls.__name__, (), body)
    options = {"init": name == "__init__", "repr": name == "__repr__", "eq": name in {"__eq__", "__hash__"}}
    return vars(dataclasses.dataclass(frozen=frozen, slots=slots, **options)(twin))[name]


def _refuse_to_assign(self: Any, name: str, value: Any) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_to_delete(self: Any, name: str) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


def _state(self: Any) -> list[Any]:
    return [getattr(self, field.name) for field in dataclasses.fields(self)]


def _set_state(self: Any, state: list[Any]) -> None:
    for field, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)
