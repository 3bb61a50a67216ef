"""Java's properties files, as `java.util.Properties` reads and writes them: `meta.properties`, `server.properties`.

A line is `key=value`, `key: value` or `key value`. Blank lines and those that begin with `#` or `!` say nothing; a backslash at a line's
end joins the next one to it. `\\t`, `\\n`, `\\f`, `\\r` and `\\uXXXX` are escapes; before any other character a backslash means that
character.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Final

_BLANKS: Final = " \t\f"
_LINE_END: Final = re.compile(r"\r\n|\r|\n")
_ENTRY: Final = re.compile(r"((?:[^\\=: \t\f]|\\.)*)[ \t\f]*[=:]?[ \t\f]*(.*)", re.DOTALL)
_ESCAPE: Final = re.compile(r"\\(u[0-9A-Fa-f]{4}|.)", re.DOTALL)
_SURROGATES: Final = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_ESCAPED: Final = {"t": "\t", "n": "\n", "f": "\f", "r": "\r"}
_IN_KEY: Final = re.compile(r"[\\=:#! ]|[^ -~]")
_IN_VALUE: Final = re.compile(r"^ |[\\=:#!]|[^ -~]")
"""What is escaped: of the blanks in a value only one that begins it."""
_WRITTEN: Final = {char: letter for letter, char in _ESCAPED.items()}
_DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def loads(text: str) -> dict[str, str]:
    """What a file says; of a key that comes twice the last value. Raises ValueError for an escape that is none."""
    entries = (_ENTRY.fullmatch(line) for line in _logical_lines(text))
    return {_unescaped(found[1]): _unescaped(found[2]) for found in entries if found is not None}


def dumps(properties: Mapping[str, str], written: datetime) -> str:
    """A file of `properties` below the two comments with which Kafka's begin: an empty one, and the time of writing."""
    clock = f"{_DAYS[written.weekday()]} {_MONTHS[written.month - 1]} {written:%d %H:%M:%S %Z %Y}"
    entries = (f"{_IN_KEY.sub(_escaped, key)}={_IN_VALUE.sub(_escaped, value)}" for key, value in properties.items())
    return "\n".join(["#", f"#{clock}", *entries, ""])


def _logical_lines(text: str) -> Iterator[str]:
    begun: str | None = None
    for line in _LINE_END.split(text):
        part = line.lstrip(_BLANKS)
        if begun is None and part[:1] in {"", "#", "!"}:
            continue
        backslashes = len(part) - len(part.rstrip("\\"))
        if backslashes % 2:
            begun = (begun or "") + part[:-1]
        else:
            if joined := (begun or "") + part:
                yield joined
            begun = None
    if begun:
        yield begun


def _unescaped(text: str) -> str:
    if "\\" not in text:
        return text
    return _SURROGATES.sub(lambda pair: pair[0].encode("utf-16", "surrogatepass").decode("utf-16"), _ESCAPE.sub(_meant, text))


def _meant(escape: re.Match[str]) -> str:
    said = escape[1]
    if len(said) > 1:
        return chr(int(said[1:], 16))
    if said == "u":
        raise ValueError(f"\\u without four hexadecimal digits at character {escape.start()} of {escape.string!r}")
    return _ESCAPED.get(said, said)


def _escaped(special: re.Match[str]) -> str:
    char = special[0]
    if char in _WRITTEN or " " <= char <= "~":
        return "\\" + _WRITTEN.get(char, char)
    units = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02X}{units[at + 1]:02X}" for at in range(0, len(units), 2))
