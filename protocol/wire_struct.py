"""`@wire_struct`: a dataclass with slots, whose functions are made when they are first called.

`dataclass` compiles three functions for every class. A broker knows hundreds of messages and records, uses few of them in its first second,
and compiling the rest was a third of its start.

Every field has a default, as all that `ottla.protocol.fields` declare. Two are equal when their class and all their fields are.
"""

from __future__ import annotations

from dataclasses import MISSING, dataclass, fields
from typing import TYPE_CHECKING, Any, TypeVar

__all__ = ["wire_struct"]

T = TypeVar("T")

if TYPE_CHECKING:
    from dataclasses import dataclass as wire_struct  # what it is to its users
else:

    def wire_struct(cls: type[T]) -> type[T]:
        """Make `cls` a message, or a struct of one."""
        cls.__doc__ = cls.__doc__ or cls.__name__  # else dataclass would make one out of a signature
        cls.__init__ = _first_init
        cls.__eq__ = _equal
        cls.__hash__ = None
        cls.__repr__ = _shown
        return dataclass(init=False, eq=False, repr=False, slots=True)(cls)


def _first_init(self: Any, *values: Any, **named: Any) -> None:
    cls = type(self)
    cls.__init__ = _compiled_init(cls)
    cls.__init__(self, *values, **named)


def _compiled_init(cls: type) -> Any:
    known: dict[str, Any] = {"MISSING": MISSING}
    parameters, lines = ["self"], []
    for field in fields(cls):
        name = field.name
        if field.default_factory is MISSING:
            known[f"default_{name}"] = field.default
            parameters.append(f"{name}=default_{name}")
            lines.append(f"self.{name} = {name}")
        else:
            known[f"make_{name}"] = field.default_factory
            made = "[]" if field.default_factory is list else f"make_{name}()"
            parameters.append(f"{name}=MISSING")
            lines.append(f"self.{name} = {made} if {name} is MISSING else {name}")
    exec(f"def __init__({', '.join(parameters)}):\n " + "\n ".join(lines or ["pass"]), known)
    init = known["__init__"]
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    return init


def _values(self: Any) -> tuple[Any, ...]:
    return tuple(getattr(self, name) for name in self.__match_args__)


def _equal(self: Any, other: object) -> bool:
    return _values(self) == _values(other) if type(other) is type(self) else NotImplemented


def _shown(self: Any) -> str:
    given = ", ".join(f"{name}={value!r}" for name, value in zip(self.__match_args__, _values(self), strict=True))
    return f"{type(self).__qualname__}({given})"
