"""Declarations of message fields: `index: int = int32("3+", default=-1)`.

The annotation has the type of the value. The call has the wire format: the versions with the field, those in which it may be null, its tag
and its default. The calls are typed, so that mypy rejects `name: str = int32()`. Version ranges are written as in Kafka's schemas: "0+",
"2-7", "4". `bytes_` and `records_` end in an underscore to avoid clashes with field names.
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
    """A closed range of versions; empty if `last` is below `first`."""

    first: int
    last: int

    def __contains__(self, version: int) -> bool:
        return self.first <= version <= self.last

    @classmethod
    def parse(cls, text: str) -> Versions:
        """Parse a version range in Kafka's notation, such as "2-7" or "3+"; "" and "none" are the empty range."""
        if text in ("", "none"):
            return cls(1, 0)
        if text.endswith("+"):
            return cls(int(text[:-1]), _LAST)
        first, _, last = text.partition("-")
        return cls(int(first), int(last or first))


_versions = cache(Versions.parse)


@dataclass(frozen=True, slots=True)
class WireField:
    """The declaration of a field, from which encoders and decoders are compiled. `type` is a `Kind`, an `ArrayOf`, or the
    dataclass of a nested struct."""

    name: str
    type: Any
    versions: Versions
    nullable: Versions
    tag: int | None
    default: Any
    """The value in versions without the field; for arrays and structs, a function that makes one."""


class ArrayOf(NamedTuple):
    """An array whose element is a `Kind` or the dataclass of a struct."""

    element: Any


class Kind(Generic[T]):
    """A primitive type of the protocol. Calling it declares a field of that type.

    `fmt` is its `struct` format if the size is fixed, and empty for `string`, `bytes` and `records`.
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
"""Kafka's type `bytes`. It is decoded to a copy of the received bytes, which can be stored."""
records_: Kind[Buffer] = Kind("records", b"")
"""Record batches: decoded to a `memoryview` of the frame, so that a batch is not copied before it is written to the log."""


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
    """Declare a field that is an array of primitives or structs. `versions`: the message versions that have the field; `nullable`: those in
    which it may be null; `tag`: its tag number, None if it is not a tagged field. The default value is an empty list, or null with
    `default=None`."""
    metadata = _metadata(ArrayOf(element), versions, nullable, tag)
    if default is None:
        return dataclasses.field(default=None, metadata=metadata)
    return dataclasses.field(default_factory=default, metadata=metadata)


@overload
def struct(type_: type[T], versions: str = ..., *, tag: int | None = ...) -> T: ...
@overload
def struct(type_: type[T], versions: str = ..., *, nullable: str, default: type[T] | None = ..., tag: int | None = ...) -> T | None: ...
def struct(type_: type[T], versions: str = "0+", *, nullable: str = "", default: type[T] | None = None, tag: int | None = None) -> Any:
    """Declare a field that is a nested struct. `versions`: the message versions that have the field; `nullable`: those in which it may be
    null; `tag`: its tag number, None if it is not a tagged field. The default value is null if the field is nullable and `default` is not
    given, otherwise a struct with default fields."""
    metadata = _metadata(type_, versions, nullable, tag)  # type: ignore[arg-type] # mypy asks a class's instances whether it can be hashed
    if nullable and default is None:
        return dataclasses.field(default=None, metadata=metadata)
    return dataclasses.field(default_factory=type_, metadata=metadata)


def wire_fields(type_: type) -> list[WireField]:
    """Return the fields of a message or struct in wire order."""
    out = []
    for field in dataclasses.fields(type_):
        default = field.default if field.default_factory is dataclasses.MISSING else field.default_factory
        out.append(WireField(name=field.name, default=default, **field.metadata))
    return out


@cache
def _metadata(type_: Any, versions: str, nullable: str, tag: int | None) -> Mapping[str, Any]:
    """Return a field's wire format as metadata for `dataclasses.field`. Equal declarations share one object to save memory."""
    return {"type": type_, "versions": _versions(versions), "nullable": _versions(nullable), "tag": tag}
