"""`dataclass` of the standard library, of which nothing is made before somebody needs it.

The standard one looks at each field by regular expressions, and compiles an `__init__`, an `__eq__`, a `__repr__`, and more for a frozen
class. A broker has three hundred such classes and uses few of them in its first second. So a class with slots is built with nothing but
its slots; what else is told of it, and its functions, the standard library makes when they are first asked for, by its rules. An `__init__`
is compiled when it is called often: to compile one takes as long as a few hundred calls of `_filler`'s, which does the same field by field.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import MISSING
from typing import TYPE_CHECKING, Any, Final

__all__ = ["dataclass"]

OFTEN: Final = 100
"""Calls of an `__init__` after which it is compiled."""

_NO_FIELDS = ("ClassVar", "typing.ClassVar", "InitVar", "dataclasses.InitVar")
"""How annotations begin that make no field of an instance."""

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
    wanted = ["__repr__"] * repr + ["__eq__"] * eq
    body: dict[str, Any] = {"__doc__": cls.__doc__ or cls.__name__}  # else the standard library makes one out of a signature
    if eq and own.get("__hash__") is None:
        if frozen:
            wanted.append("__hash__")
        else:
            body["__hash__"] = None  # what is equal to others and may change has none

    def compiled(name: str) -> Any:
        function = _function(whole, name, frozen=frozen, slots=slots)
        setattr(whole, name, function)
        return function

    def first_call(name: str) -> Any:
        def function(*values: Any) -> Any:
            return compiled(name)(*values)

        return function

    body |= {name: first_call(name) for name in wanted if name == "__hash__" or name not in own}
    if "__init__" not in own:
        calls, filled = 0, None

        def init(self: Any, *values: Any, **named: Any) -> None:
            nonlocal calls, filled
            calls += 1
            filled = filled or _filler(whole, frozen=frozen)
            if calls > OFTEN or not filled(self, values, named):
                compiled("__init__")(self, *values, **named)

        body["__init__"] = init
    if frozen:
        body |= {"__setattr__": _refuse_to_assign, "__delattr__": _refuse_to_delete}
        if slots:
            body |= {"__getstate__": _state, "__setstate__": _set_state}
    if slots:
        whole: type = _with_slots(cls, body, kw_only=kw_only)
    else:
        for name, value in body.items():
            setattr(cls, name, value)
        whole = dataclasses.dataclass(init=False, repr=False, eq=False, kw_only=kw_only)(cls)
    return whole


def _with_slots(cls: type, functions: dict[str, Any], *, kw_only: bool) -> type:
    """`cls` once more, with slots, and without the defaults of its fields: they are kept for whoever asks what its fields are."""
    body = {**vars(cls), **functions, "__qualname__": cls.__qualname__}
    own = cls.__annotations__
    defaults = {name: body[name] for name in own if name in body}
    names = [name for name, kind in own.items() if not str(kind).startswith(_NO_FIELDS)]
    inherited = {slot for base in cls.__mro__[1:-1] for slot in vars(base).get("__slots__", ())}
    for name in (*names, "__dict__", "__weakref__"):
        body.pop(name, None)
    body["__slots__"] = tuple(name for name in names if name not in inherited)

    def declared() -> dict[str, Any]:
        fields: dict[str, Any] = {}
        for base in reversed(cls.__mro__[1:]):
            fields |= getattr(base, "__dataclass_fields__", {})
        annotations = {**{name: field.type for name, field in fields.items()}, **own}
        named = {"__annotations__": annotations, "__module__": cls.__module__, "__doc__": cls.__name__}
        twin = type(cls.__name__, (), {**named, **fields, **defaults})
        return dict(vars(dataclasses.dataclass(init=False, repr=False, eq=False, kw_only=kw_only)(twin)))

    body |= {name: _Told(name, declared) for name in ("__dataclass_fields__", "__dataclass_params__", "__match_args__")}
    return type(cls)(cls.__name__, cls.__bases__, body)


class _Told:
    """What the standard library tells of a class, when somebody asks: the class then has it itself."""

    def __init__(self, name: str, declared: Any) -> None:
        self._name = name
        self._declared = declared

    def __get__(self, _: object, asked: type) -> Any:
        told = self._declared()[self._name]
        for owner in asked.__mro__:
            if vars(owner).get(self._name) is self:
                setattr(owner, self._name, told)
        return told


def _filler(cls: type, *, frozen: bool) -> Callable[[Any, tuple[Any, ...], dict[str, Any]], bool]:
    """What a compiled `__init__` does, field by field. It answers False where arguments do not fit, which a compiled one says best, or
    where some may be for `__post_init__`."""
    declared = dataclasses.fields(cls)
    order = [field.name for field in declared if field.init and not field.kw_only]
    fields = [(field.name, field.init, field.default, field.default_factory) for field in declared]
    assign = object.__setattr__ if frozen else setattr
    ended = getattr(cls, "__post_init__", None)
    for_the_end = ended is not None and ended.__code__.co_argcount > 1

    def filled(self: Any, values: tuple[Any, ...], named: dict[str, Any]) -> bool:
        given = {**dict(zip(order, values, strict=False)), **named}
        if len(given) < len(values) + len(named) or for_the_end:
            return False
        used = 0
        for name, is_argument, default, factory in fields:
            if is_argument and name in given:
                used += 1
                assign(self, name, given[name])
            elif default is not MISSING:
                assign(self, name, default)
            elif factory is not MISSING:
                assign(self, name, factory())
            elif is_argument:
                return False
        if used < len(given):
            return False
        if ended is not None:
            ended(self)
        return True

    return filled


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
