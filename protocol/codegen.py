"""Shared parts of the encoder and decoder compilers: generated source lines with the fields they handle, and queries about structs.

A compiled function is straight-line Python in one try block. When a line raises, the field that it reads or writes is found by the line's
number (`Source.fields_of_failed_line`), so that the normal path does no bookkeeping for error messages.
"""

from __future__ import annotations

import linecache
import struct
from collections.abc import Callable
from typing import Any

from ottla.protocol.fields import ArrayOf, Kind, WireField, wire_fields

FIXED_SIZES = {fmt: struct.calcsize(">" + fmt) for fmt in ("?", "b", "B", "h", "H", "i", "I", "q", "d", "16s")}


class Source:
    """The source text of an encoder or decoder that is being generated: its lines, the globals that they use, and the message field that
    each line handles (as a path, such as `topics[].name`)."""

    def __init__(self, title: str, signature: str) -> None:
        self.title = title
        self.lines = [signature, "    try:"]
        self.paths: list[list[tuple[str, int]]] = [[], []]
        self.names: dict[str, Any] = {}
        self.depth = 2
        self.path = title

    def line(self, text: str, parts: list[tuple[str, int]] | None = None) -> None:
        """Add a line of source text. `parts` has the (path, size in bytes) of each message field that the line handles. None: the line
        handles the field whose path is in the attribute `path`."""
        self.lines.append("    " * self.depth + text)
        self.paths.append(parts or [(self.path, 0)])

    def name(self, stem: str, value: Any) -> str:
        """Return the name by which the generated code refers to `value` as a global variable. The same value always gets the same name."""
        for name, known in self.names.items():
            if known is value:
                return name
        name = f"{stem}_{len(self.names)}"
        self.names[name] = value
        return name

    def compile(self, errors: str, handler: str, globals_: dict[str, Any]) -> Callable[..., Any]:
        """Compile the source text and return the function. Its try block ends with `except errors` and the statement `handler`, which
        raises the final error. `globals_`: global variables of the generated code, besides those that `name` has defined."""
        self.lines += [f"    except {errors} as exc:", f"        {handler}"]
        text = "\n".join(self.lines) + "\n"
        filename = f"<{self.title}>"
        linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
        namespace = {**globals_, **self.names}
        exec(compile(text, filename, "exec"), namespace)
        function: Callable[..., Any] = namespace[self.lines[0].split("(")[0].removeprefix("def ")]
        return function

    def fields_of_failed_line(self, exc: BaseException) -> list[tuple[str, int]]:
        """Return the (field path, size in bytes) pairs of the generated line that raised `exc`."""
        traceback = exc.__traceback__
        line = traceback.tb_lineno if traceback is not None else 0
        return self.paths[line - 1] or [(self.title, 0)]


def fields_at(type_: type, version: int) -> tuple[list[WireField], list[WireField], list[WireField]]:
    """Split a struct's fields at one version; return (fields in wire order, tagged fields by ascending tag, fields that this version
    lacks)."""
    fields = wire_fields(type_)
    present = [field for field in fields if version in field.versions]
    return (
        [field for field in present if field.tag is None],
        sorted((field for field in present if field.tag is not None), key=lambda field: field.tag or 0),
        [field for field in fields if version not in field.versions],
    )


def up_to(ordered: list[WireField], last: str | None) -> tuple[list[WireField], list[WireField]]:
    """Split a list of fields after the field named `last`; return (the fields up to and including it, the fields after it). If `last` is
    None, all fields are in the first list."""
    at = len(ordered) if last is None else [field.name for field in ordered].index(last) + 1
    return ordered[:at], ordered[at:]


def minimal_size(type_: Any, version: int, flexible: bool, *, nullable: bool = False) -> int:
    """Return the fewest bytes that a value of this type takes. A decoder uses it to reject an array whose count is too large for the
    remaining bytes, before it allocates the list."""
    if isinstance(type_, Kind):
        if type_.fmt:
            return FIXED_SIZES[type_.fmt]
        return 1 if flexible else 2 if type_.name == "string" else 4
    if isinstance(type_, ArrayOf):
        return 1 if flexible else 4
    if nullable:
        return 1
    ordered, _, _ = fields_at(type_, version)
    size = sum(minimal_size(field.type, version, flexible, nullable=version in field.nullable) for field in ordered)
    return size + (1 if flexible else 0)
