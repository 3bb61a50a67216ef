"""How a message's fields are declared: `index: int = int32("3+", default=-1)`.

The type of the value stands in the annotation, what the wire needs in the call: the versions in which the field exists, those in
which it may be null, its tag, its default. Calls are typed by what they declare, so mypy refuses `name: str = int32()`.
Version ranges are written as in Kafka's own schemas: "0+", "2-7", "4".
`bytes_` and `records_` end in an underscore to stay clear of the names of fields.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Generic, NamedTuple, TypeVar, overload

from ottla.protocol.wire import Buffer

T = TypeVar("T")

_LAST = 0x7FFF


@dataclass(frozen=True, slots=True)
class Versions:
    """A closed range of versions; empty when `last` is below `first`."""

    first: int
    last: int

    def __contains__(self, version: int) -> bool:
        return self.first <= version <= self.last

    @classmethod
    def parse(cls, text: str) -> Versions:
        """Read Kafka's notation; "" and "none" are the empty range."""
        if text in ("", "none"):
            return cls(1, 0)
        if text.endswith("+"):
            return cls(int(text[:-1]), _LAST)
        first, _, last = text.partition("-")
        return cls(int(first), int(last or first))


_versions = cache(Versions.parse)


@dataclass(frozen=True, slots=True)
class WireField:
    """What the compilers know of one field. `type` is a `Kind`, an `ArrayOf`, or the dataclass of a nested struct."""

    name: str
    type: Any
    versions: Versions
    nullable: Versions
    tag: int | None
    default: Any
    """The value in versions that lack the field; for arrays and structs the function that makes one."""


class ArrayOf(NamedTuple):
    """An array whose element is a `Kind` or the dataclass of a struct."""

    element: Any


class Kind(Generic[T]):
    """A primitive type of the protocol. Calling it declares a field of that type.

    `fmt` is its `struct` format for the fixed-size ones, empty for `string`, `bytes` and `records`.
    """

    __slots__ = ("fmt", "name", "zero")

    def __init__(self, name: str, zero: T, fmt: str = "") -> None:
        self.name = name
        self.zero = zero
        self.fmt = fmt

    @overload
    def __call__(self, versions: str = ..., *, default: T = ..., tag: int | None = ...) -> T: ...
    @overload
    def __call__(self, versions: str = ..., *, nullable: str, default: T | None = ..., tag: int | None = ...) -> T | None: ...
    def __call__(self, versions: str = "0+", *, nullable: str = "", default: Any = dataclasses.MISSING, tag: int | None = None) -> Any:
        value = self.zero if default is dataclasses.MISSING else default
        return dataclasses.field(default=value, metadata=_metadata(self, versions, nullable, tag))


boolean: Kind[bool] = Kind("bool", False, "?")
int8: Kind[int] = Kind("int8", 0, "b")
int16: Kind[int] = Kind("int16", 0, "h")
uint16: Kind[int] = Kind("uint16", 0, "H")
int32: Kind[int] = Kind("int32", 0, "i")
uint32: Kind[int] = Kind("uint32", 0, "I")
int64: Kind[int] = Kind("int64", 0, "q")
float64: Kind[float] = Kind("float64", 0.0, "d")
uuid: Kind[bytes] = Kind("uuid", bytes(16), "16s")
string: Kind[str] = Kind("string", "")
bytes_: Kind[Buffer] = Kind("bytes", b"")
"""Kafka's `bytes`: decoded to `bytes` of its own, so that it can be kept."""
records_: Kind[Buffer] = Kind("records", b"")
"""Record batches: decoded to a `memoryview` of the frame, so that a batch is not copied before it is written."""


@overload
def array(element: Kind[T] | type[T], versions: str = ..., *, tag: int | None = ...) -> list[T]: ...
@overload
def array(
    element: Kind[T] | type[T], versions: str = ..., *, nullable: str, default: type[list[Any]] | None = ..., tag: int | None = ...
) -> list[T] | None: ...
def array(
    element: Kind[T] | type[T],
    versions: str = "0+",
    *,
    nullable: str = "",
    default: type[list[Any]] | None = list,
    tag: int | None = None,
) -> Any:
    """Declare an array of primitives or structs; empty by default, null with `default=None`."""
    metadata = _metadata(ArrayOf(element), versions, nullable, tag)
    if default is None:
        return dataclasses.field(default=None, metadata=metadata)
    return dataclasses.field(default_factory=default, metadata=metadata)


@overload
def struct(type_: type[T], versions: str = ..., *, tag: int | None = ...) -> T: ...
@overload
def struct(type_: type[T], versions: str = ..., *, nullable: str, default: type[T] | None = ..., tag: int | None = ...) -> T | None: ...
def struct(type_: type[T], versions: str = "0+", *, nullable: str = "", default: type[T] | None = None, tag: int | None = None) -> Any:
    """Declare a nested struct: by default one with its own defaults, or null where null is allowed and `default` does not say otherwise."""
    metadata = _metadata(type_, versions, nullable, tag)  # type: ignore[arg-type] # mypy asks a class's instances whether it can be hashed
    if nullable and default is None:
        return dataclasses.field(default=None, metadata=metadata)
    return dataclasses.field(default_factory=type_, metadata=metadata)


def wire_fields(type_: type) -> list[WireField]:
    """The fields of a message or struct in the order of the wire."""
    out = []
    for field in dataclasses.fields(type_):
        default = field.default if field.default_factory is dataclasses.MISSING else field.default_factory
        out.append(WireField(name=field.name, default=default, **field.metadata))
    return out


@cache
def _metadata(type_: Any, versions: str, nullable: str, tag: int | None) -> Mapping[str, Any]:
    """What is declared of a field; one object for all the fields that say the same, as most do."""
    return {"type": type_, "versions": _versions(versions), "nullable": _versions(nullable), "tag": tag}
