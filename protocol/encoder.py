"""Compiles `encode(m, w, parts) -> w` for one (message class, version).

`w` is the bytearray under construction, and `parts` are the finished buffers before it. The function returns the bytearray to continue
with.
Rules of the generated function:
* Runs of adjacent fixed-size values are one `struct` call; an empty section of tags is one zero byte of the run.
* `records` and `bytes` of at least `SEPARATE_MIN` bytes are never copied but become separate parts. Shorter ones are appended, which costs
  less than another buffer in the socket's list.
* A tagged field is written only if it differs from its default, in the order of the tags, as in Kafka.
* A value that its field cannot hold raises `EncodeError` with the field's name.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, NoReturn

from ottla.protocol.codegen import Source, fields_at, up_to
from ottla.protocol.errors import EncodeError
from ottla.protocol.fields import ArrayOf, Kind, WireField
from ottla.protocol.wire import Bad, Buffer, string_length, uvarint

SEPARATE_MIN = 4096

_WRITES = (Bad, AttributeError, TypeError, UnicodeEncodeError, struct.error)

_GLOBALS: dict[str, Any] = {
    "Bad": Bad,
    "WRITES": _WRITES,
    "pack": struct.pack,
    "string_length": string_length,
    "uvarint": uvarint,
}


def compile_encoder(
    message: type, version: int, flexible: bool, *, last: str | None = None
) -> Callable[[Any, bytearray, list[Buffer]], bytearray]:
    """Generate the encoder of `message` at `version`. The caller caches it. With `last`, the encoder writes only the fields up to and
    including `last`."""
    return _EncoderCompiler(message, version, flexible, last).compile()


class _EncoderCompiler:
    """Generates an encoder in one pass over the message's declaration. `run` holds adjacent fixed-size values, which one `struct` call
    writes."""

    def __init__(self, message: type, version: int, flexible: bool, last: str | None) -> None:
        self.message = message
        self.last = last
        self.version = version
        self.flexible = flexible
        self.source = Source(f"{message.__name__} v{version}", "def encode(m, w, parts):")
        self.run: list[tuple[str, str, str]] = []
        self.locals = 0
        self.out = "w"

    def compile(self) -> Callable[[Any, bytearray, list[Buffer]], bytearray]:
        self.struct(self.message, "m", self.last)
        self.flush()
        self.source.line("return w")
        return self.source.compile("WRITES", "fail(exc)", {**_GLOBALS, "fail": self.fail})

    def fail(self, exc: Exception) -> NoReturn:
        """Raise EncodeError. It names the field whose value cannot be written, or all fields of the failed `struct` call."""
        paths = [path.removeprefix(self.source.title + ".") for path, _ in self.source.fields_of_failed_line(exc)]
        raise EncodeError(f"{self.source.title}: {', '.join(paths)}: {exc}") from exc

    def local(self, stem: str) -> str:
        self.locals += 1
        return f"{stem}{self.locals}"

    def later(self, fmt: str, value: str) -> None:
        """Queue a fixed-size value, where `value` is its Python expression. `flush` emits all queued values as one `struct` call. The
        format "x" queues a zero byte and ignores `value`."""
        self.run.append((fmt, value, self.source.path))

    def flush(self) -> None:
        """Emit the queued fixed-size values as one `struct` call."""
        run, self.run = self.run, []
        if not run:
            return
        parts = [(path, 0) for fmt, _, path in run if fmt != "x"]
        values = ", ".join(value for fmt, value, _ in run if fmt != "x")
        if not values:
            self.source.line(f"{self.out} += {bytes(len(run))!r}")
            return
        fmt = ">" + "".join(fmt for fmt, _, _ in run)
        name = "pack_" + fmt[1:].replace("?", "t")
        self.source.names.setdefault(name, struct.Struct(fmt).pack)
        self.source.line(f"{self.out} += {name}({values})", parts)

    def struct(self, type_: type, var: str, last: str | None = None) -> None:
        source = self.source
        ordered, tagged, _ = fields_at(type_, self.version)
        ordered, _ = up_to(ordered, last)
        outer = source.path
        for field in ordered:
            source.path = f"{outer}.{field.name}"
            self.value(field.type, f"{var}.{field.name}", nullable=self.version in field.nullable)
        source.path = f"{outer}.tags"
        flexible = self.flexible and last is None
        if flexible and tagged:
            self.tags(tagged, var, outer)
        elif flexible:
            self.later("x", "")
        source.path = outer

    def tags(self, tagged: list[WireField], var: str, outer: str) -> None:
        """Generate the code that writes the tagged fields of the struct in the variable `var`, except those whose value is the default.
        Each field is encoded into its own buffer first, because its size precedes it. `outer` is the struct's path in error messages."""
        source = self.source
        self.flush()
        flags = []
        for field in tagged:
            source.path = f"{outer}.{field.name}"
            flag = self.local("has")
            source.line(f"{flag} = {self.is_set(field, f'{var}.{field.name}')}")
            flags.append(flag)
        source.line(f"if {' or '.join(flags)}:")
        source.depth += 1
        source.line(f"{self.out} += uvarint({' + '.join(flags)})")
        into = self.out
        for flag, field in zip(flags, tagged, strict=True):
            source.path = f"{outer}.{field.name}"
            source.line(f"if {flag}:")
            source.depth += 1
            self.out = self.local("w")
            source.line(f"{self.out} = bytearray()")
            self.value(field.type, f"{var}.{field.name}", nullable=self.version in field.nullable, tagged=True)
            self.flush()
            source.line(f"{into} += uvarint({field.tag}) + uvarint(len({self.out})) + {self.out}")
            source.depth -= 1
            self.out = into
        source.depth -= 1
        source.line(f"else: {self.out}.append(0)")

    def is_set(self, field: WireField, value: str) -> str:
        """Return a Python expression, as source text, that is true if the value of a tagged field differs from the field's default."""
        if isinstance(field.type, ArrayOf):
            return f"{value} is not None" if field.default is None else f"{value} is None or len({value}) > 0"
        if isinstance(field.type, Kind):
            return f"{value} != {field.default!r}"
        if field.default is None:
            return f"{value} is not None"
        ordered, tagged, _ = fields_at(field.type, self.version)
        if all(isinstance(inner.type, Kind) for inner in ordered + tagged):
            return " or ".join(f"{value}.{inner.name} != {inner.default!r}" for inner in ordered + tagged)
        return f"{value} != {self.source.name('default', field.default())}"

    def value(self, type_: Any, value: str, *, nullable: bool, tagged: bool = False) -> None:
        if isinstance(type_, Kind) and type_.fmt:
            if type_.name == "uuid":
                self.source.line(f"if len({value}) != 16: raise Bad('a uuid has 16 bytes')")
            self.later(type_.fmt, value)
        elif isinstance(type_, Kind) and type_.name == "string":
            self.string(value, nullable)
        elif isinstance(type_, Kind):
            self.bytes(value, nullable)
        elif isinstance(type_, ArrayOf):
            self.array(type_.element, value, nullable)
        elif nullable:
            self.nullable_struct(type_, value, tagged=tagged)
        else:
            var = self.local("s")
            self.source.line(f"{var} = {value}")
            self.struct(type_, var)

    def open_nullable(self, value: str, null: bytes) -> str:
        """Generate the code that assigns `value` to a local variable and, if it is None, writes the bytes `null`. Return the variable's
        name. Code that is generated next belongs to the branch for other values, until `close_nullable`."""
        var = self.local("v")
        self.flush()
        self.source.line(f"{var} = {value}")
        self.source.line(f"if {var} is None: {self.out} += {null!r}")
        self.source.line("else:")
        self.source.depth += 1
        return var

    def close_nullable(self) -> None:
        self.flush()
        self.source.depth -= 1

    def length(self, size: str, fmt: str) -> None:
        """Generate the code that writes the length `size`, a Python expression. Flexible versions have an unsigned varint of the length
        plus one; older versions have an int16 or int32 (`fmt`)."""
        if not self.flexible:
            self.later(fmt, size)
            return
        self.flush()
        long = "string_length" if fmt == "h" else "uvarint"
        self.source.line(f"n = {size} + 1")
        self.source.line(f"if n < 128: {self.out}.append(n)")
        self.source.line(f"else: {self.out} += {long}(n)")

    def string(self, value: str, nullable: bool) -> None:
        if nullable:
            value = self.open_nullable(value, b"\0" if self.flexible else b"\xff\xff")
        var = self.local("b")
        self.source.line(f"{var} = {value}.encode()")
        self.length(f"len({var})", "h")
        self.flush()
        self.source.line(f"{self.out} += {var}")
        if nullable:
            self.close_nullable()

    def bytes(self, value: str, nullable: bool) -> None:
        if nullable:
            value = self.open_nullable(value, b"\0" if self.flexible else b"\xff\xff\xff\xff")
        source = self.source
        var, size = self.local("b"), self.local("n")
        source.line(f"{var} = {value}; {size} = len({var})")
        self.length(size, "i")
        self.flush()
        if self.out == "w":
            source.line(f"if {size} < {SEPARATE_MIN}: w += {var}")
            source.line(f"else: parts.append(w); parts.append({var}); w = bytearray()")
        else:
            source.line(f"{self.out} += {var}")
        if nullable:
            self.close_nullable()

    def nullable_struct(self, type_: type, value: str, *, tagged: bool) -> None:
        """Generate the code that writes a nullable struct. It begins with an int8: 1 before a struct, -1 for null, or 0 for null in a
        tagged field."""
        var = self.open_nullable(value, b"\0" if tagged else b"\xff")
        self.source.line(f"{self.out}.append(1)")
        self.struct(type_, var)
        self.close_nullable()

    def array(self, element: Any, value: str, nullable: bool) -> None:
        source = self.source
        if nullable:
            value = self.open_nullable(value, b"\0" if self.flexible else b"\xff\xff\xff\xff")
        items = self.local("a")
        source.line(f"{items} = {value}")
        self.length(f"len({items})", "i")
        self.flush()
        if isinstance(element, Kind) and element.fmt and element.fmt != "16s":
            source.line(f"{self.out} += pack(f'>{{len({items})}}{element.fmt}', *{items})")
        else:
            item = self.local("x")
            source.line(f"for {item} in {items}:")
            source.depth += 1
            outer = source.path
            source.path = f"{outer}[]"
            if isinstance(element, Kind):
                self.value(element, item, nullable=False)
            else:
                self.struct(element, item)
            self.flush()
            source.path = outer
            source.depth -= 1
        if nullable:
            self.close_nullable()
