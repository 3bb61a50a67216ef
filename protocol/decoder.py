"""Compiles `decode(buf, pos, end) -> message` for one (message class, version).

Rules of the generated function:
* `buf` is a memoryview that does not extend beyond the frame; `pos` and `end` are the positions at which the message's bytes begin and end.
* Runs of adjacent fixed-size fields are one `struct` call, which includes a length or tag count after the run.
* A length is compared with `end` before slicing, and an array's count with the remaining bytes divided by the smallest element before a
  list is allocated.
* As in Kafka's generated readers, a negative length is null; a known tag may occur twice (the last wins) and in any order; unknown tags are
  skipped. Stricter than Kafka: a known tagged field must fill its size, strings must be UTF-8, and nothing may follow the message unless
  `exact` is off. Requests need it off: librdkafka (2.16, Metadata of all topics from version 9) sends extra bytes after its requests, which
  Kafka ignores.
* The elements of all arrays of a request (`exact` off), or of a message with a limit (`elements`), are counted together, before each list
  is allocated. The tagged fields of a structure that has more of them than are known count too.
* It raises only `MalformedMessage`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, NoReturn

from ottla.protocol.codegen import FIXED_SIZES, Source, fields_at, minimal_size, up_to
from ottla.protocol.errors import MalformedMessage
from ottla.protocol.fields import ArrayOf, Kind, WireField, bytes_
from ottla.protocol.wire import Bad, read_string_length, read_tag_count, read_uvarint, skip_tags

REQUEST_ELEMENTS = 250_000
"""The most elements that all arrays of one request may have in total: enough for 100,000 partitions, each in its own topic. Without a
limit, a request of 8 MiB could take five seconds to decode, and thirty times as much memory."""

_READS = (Bad, IndexError, struct.error, UnicodeDecodeError)

_GLOBALS: dict[str, Any] = {
    "Bad": Bad,
    "READS": _READS,
    "new": object.__new__,
    "read_string_length": read_string_length,
    "read_tag_count": read_tag_count,
    "read_uvarint": read_uvarint,
    "skip_tags": skip_tags,
    "unpack_from": struct.unpack_from,
}


def compile_decoder(
    message: type, version: int, flexible: bool, *, exact: bool = True, last: str | None = None, elements: int | None = None
) -> Callable[[memoryview, int, int], Any]:
    """Generate the decoder of `message` at `version`. The caller caches it.

    With `exact`, bytes after the message are an error, and `elements` limits the total number of elements of all arrays (None: no limit).
    Without `exact`, such bytes are ignored, and the limit is REQUEST_ELEMENTS. With `last`, the decoder reads only the fields up to and
    including `last`, leaves the others at their defaults, and returns (message, position of the next byte).
    """
    return _DecoderCompiler(message, version, flexible, exact=exact, last=last, elements=elements).compile()


class _DecoderCompiler:
    """Generates a decoder in one pass over the message's declaration. `run` holds adjacent fixed-size fields, which one `struct` call
    reads."""

    def __init__(self, message: type, version: int, flexible: bool, *, exact: bool, last: str | None, elements: int | None) -> None:
        self.message = message
        self.elements = elements if exact else REQUEST_ELEMENTS
        self.last = last
        self.version = version
        self.flexible = flexible
        self.exact = exact
        self.source = Source(f"{message.__name__} v{version}", "def decode(buf, pos, end):")
        self.run: list[tuple[str, str, str]] = []
        self.locals = 0

    def compile(self) -> Callable[[memoryview, int, int], Any]:
        source = self.source
        if self.elements is not None:
            source.line(f"room = {self.elements}")
        self.struct(self.message, "m", self.last)
        self.flush()
        source.path = source.title
        if self.last is None:
            source.line(f"if pos {'!=' if self.exact else '>'} end: raise Bad(f'{{end - pos}} bytes follow its end')")
        source.line("return m" if self.last is None else "return m, pos")
        names = {**_GLOBALS, "fail": self.fail}
        return source.compile("READS", "fail(exc, pos, end)", names)

    def fail(self, exc: Exception, pos: int, end: int) -> NoReturn:
        """Raise MalformedMessage for the error `exc` of the generated code, with the name of the field that was read and its position.
        `pos` and `end` are the code's variables when the error occurred."""
        fields = self.source.fields_of_failed_line(exc)
        path = fields[-1][0]
        for candidate, size in fields:
            path = candidate
            if size and pos + size > end:
                break
            pos += size
        reason = str(exc) if isinstance(exc, Bad) else "not UTF-8" if isinstance(exc, UnicodeDecodeError) else "the bytes end here"
        raise MalformedMessage(self.source.title, path.removeprefix(self.source.title + "."), pos, reason) from None

    def local(self, stem: str) -> str:
        self.locals += 1
        return f"{stem}{self.locals}"

    def later(self, fmt: str, target: str) -> None:
        """Queue the read of a fixed-size value into `target`, the source text of a local variable or attribute; `fmt` is its `struct`
        format. `flush` emits all queued reads as one `struct` call."""
        self.run.append((fmt, target, self.source.path))

    def flush(self) -> None:
        """Emit the queued reads of fixed-size values as one `struct` call."""
        run, self.run = self.run, []
        if not run:
            return
        size = sum(FIXED_SIZES[fmt] for fmt, _, _ in run)
        targets = ", ".join(target for _, target, _ in run)
        parts = [(path, FIXED_SIZES[fmt]) for fmt, _, path in run]
        if len(run) == 1 and run[0][0] == "B":
            self.source.line(f"{targets} = buf[pos]; pos += 1", parts)
            return
        fmt = ">" + "".join(fmt for fmt, _, _ in run)
        name = "unpack_" + fmt[1:].replace("?", "t")
        self.source.names.setdefault(name, struct.Struct(fmt).unpack_from)
        self.source.line(f"{targets}{',' if len(run) == 1 else ''} = {name}(buf, pos); pos += {size}", parts)

    def struct(self, type_: type, var: str, last: str | None = None) -> None:
        """Generate the code that builds a struct in the local variable `var`: defaults of fields absent in this version, then the other
        fields in order, then the tagged fields. With `last`, the code reads only the fields up to and including the field `last`."""
        source = self.source
        ordered, tagged, absent = fields_at(type_, self.version)
        ordered, rest = up_to(ordered, last)
        absent += rest
        source.line(f"{var} = new({source.name(type_.__name__, type_)})")
        for field in absent + tagged:
            source.line(f"{var}.{field.name} = {self.default(field)}")
        outer = source.path
        for field in ordered:
            source.path = f"{outer}.{field.name}"
            self.value(field.type, f"{var}.{field.name}", nullable=self.version in field.nullable)
        source.path = outer
        if self.flexible and last is None:
            self.tags(tagged, var)

    def default(self, field: WireField) -> str:
        if not callable(field.default):
            return repr(field.default)
        return "[]" if field.default is list else f"{self.source.name(field.default.__name__, field.default)}()"

    def tags(self, tagged: list[WireField], var: str) -> None:
        """Generate the code that reads the tagged fields at the end of a flexible struct. The fields `tagged` become attributes of the
        local variable `var`; others are skipped."""
        source = self.source
        outer = source.path
        source.path = f"{outer}.tags"
        count = self.local("t")
        self.later("B", count)
        self.flush()
        if not tagged:
            source.line(f"if {count}:")
            source.depth += 1
            self.count(count)
            source.line("pos = skip_tags(buf, pos - 1, end)")
            source.depth -= 1
            source.path = outer
            return
        source.line(f"if {count} > {len(tagged)}:")
        source.depth += 1
        self.count(count)
        source.line(f"{count}, pos = read_tag_count(buf, pos - 1)")
        source.depth -= 1
        tag, stop = self.local("tag"), self.local("stop")
        source.line(f"for _ in range({count}):")
        source.depth += 1
        source.line(f"{tag}, pos = read_uvarint(buf, pos)")
        source.line(f"{stop}, pos = read_uvarint(buf, pos); {stop} += pos")
        source.line(f"if {stop} > end: raise Bad(f'tagged field ends {{{stop} - end}} bytes after the message')")
        for index, field in enumerate(tagged):
            source.line(f"{'el' if index else ''}if {tag} == {field.tag}:")
            source.depth += 1
            source.path = f"{outer}.{field.name}"
            self.value(field.type, f"{var}.{field.name}", nullable=self.version in field.nullable, tagged=True)
            self.flush()
            source.line(f"if pos != {stop}: raise Bad(f'tagged field ends {{pos - {stop}}} bytes off its announced end')")
            source.depth -= 1
            source.path = f"{outer}.tags"
        source.line(f"else: pos = {stop}")
        source.depth -= 1
        source.path = outer

    def value(self, type_: Any, target: str, *, nullable: bool, tagged: bool = False) -> None:
        """Generate the code that reads a value of any type into `target`, a local variable or an attribute."""
        if isinstance(type_, Kind) and type_.fmt:
            self.later(type_.fmt, target)
        elif isinstance(type_, Kind) and type_.name == "string":
            self.string(target, nullable)
        elif isinstance(type_, Kind):
            self.bytes(target, nullable, copy=type_ is bytes_)
        elif isinstance(type_, ArrayOf):
            self.array(type_.element, target, nullable)
        elif nullable:
            self.nullable_struct(type_, target, "n <= 0" if tagged else "n < 0")
        else:
            var = self.local("s")
            self.struct(type_, var)
            self.source.line(f"{target} = {var}")

    def count(self, elements: str) -> None:
        """Generate the code that counts `elements`, the name of a local variable, towards the limit of the whole message."""
        if self.elements is not None:
            self.source.line(f"room -= {elements}")
            self.source.line(f"if room < 0: raise Bad('more than {self.elements} elements')")

    def length(self, target: str, nullable: bool, fmt: str) -> None:
        """Generate the code that reads a length into the local variable `n`. A null length sets `target` to None or, unless `nullable`, is
        rejected. Code that is generated next belongs to the branch for other lengths. `fmt` is the length's `struct` format in versions
        that are not flexible."""
        source = self.source
        null = f"{target} = None" if nullable else "raise Bad('null where null is not allowed')"
        self.later("B" if self.flexible else fmt, "n")
        self.flush()
        if self.flexible:
            source.line(f"if n > 127: n, pos = {'read_string_length' if fmt == 'h' else 'read_uvarint'}(buf, pos - 1)")
        source.line(f"if {'not n' if self.flexible else 'n < 0'}: {null}")
        source.line("else:")
        source.depth += 1
        if self.flexible:
            source.line("n -= 1")

    def slice(self) -> None:
        self.source.line("e = pos + n")
        self.source.line("if e > end: raise Bad(f'{n} bytes announced, {end - pos} left')")

    def string(self, target: str, nullable: bool) -> None:
        self.length(target, nullable, "h")
        self.slice()
        self.source.line(f"{target} = str(buf[pos:e], 'utf-8'); pos = e")
        self.source.depth -= 1

    def bytes(self, target: str, nullable: bool, copy: bool) -> None:
        self.length(target, nullable, "i")
        self.slice()
        self.source.line(f"{target} = {'bytes(buf[pos:e])' if copy else 'buf[pos:e]'}; pos = e")
        self.source.depth -= 1

    def nullable_struct(self, type_: type, target: str, is_null: str) -> None:
        """Generate the code that reads a nullable struct, which begins with an int8. `is_null` is the condition for null on that int8, `n`:
        "n < 0", or "n <= 0" in a tagged field."""
        source = self.source
        self.later("b", "n")
        self.flush()
        source.line(f"if {is_null}: {target} = None")
        source.line("else:")
        source.depth += 1
        var = self.local("s")
        self.struct(type_, var)
        self.flush()
        source.line(f"{target} = {var}")
        source.depth -= 1

    def array(self, element: Any, target: str, nullable: bool) -> None:
        source = self.source
        self.length(target, nullable, "i")
        size = minimal_size(element, self.version, self.flexible)
        if size < 1:
            raise TypeError(f"{source.path}: an element without bytes cannot be counted")
        source.line(f"if n * {size} > end - pos: raise Bad(f'{{n}} elements announced, {{end - pos}} bytes left')")
        self.count("n")
        if isinstance(element, Kind) and element.fmt and element.fmt != "16s":
            source.line(f"{target} = list(unpack_from(f'>{{n}}{element.fmt}', buf, pos)); pos += n * {size}")
        else:
            items, item = self.local("a"), self.local("x")
            source.line(f"{items} = []")
            source.line("for _ in range(n):")
            source.depth += 1
            outer = source.path
            source.path = f"{outer}[]"
            if isinstance(element, Kind):
                self.value(element, item, nullable=False)
            else:
                self.struct(element, item)
            self.flush()
            source.line(f"{items}.append({item})")
            source.path = outer
            source.depth -= 1
            source.line(f"{target} = {items}")
        source.depth -= 1
