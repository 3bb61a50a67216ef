"""Kafka's text checkpoints (CheckpointFile): a line with the format's version, `0`, a line with the number of entries, then one line per
entry. A file is always replaced atomically.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

RECOVERY_POINT: Final = "recovery-point-offset-checkpoint"
LOG_START: Final = "log-start-offset-checkpoint"
REPLICATION: Final = "replication-offset-checkpoint"
CLEANER: Final = "cleaner-offset-checkpoint"

_VERSION: Final = "0"


class CorruptCheckpoint(Exception):
    """Raised when a checkpoint file is not in Kafka's format. The message names the line and the reason."""


def encode_lines(lines: Iterable[str]) -> bytes:
    rows = list(lines)
    return "".join(f"{row}\n" for row in [_VERSION, str(len(rows)), *rows]).encode()


def decode_lines(data: bytes, fields: int) -> list[list[str]]:
    """Return the entries of a checkpoint file, each as a list of its `fields` words. Raises `CorruptCheckpoint` if the bytes have another
    format or were truncated."""
    try:
        lines = data.decode().splitlines()
    except UnicodeDecodeError as e:
        raise CorruptCheckpoint("not text") from e
    if not lines:  # Kafka creates the file before it has anything to write
        return []
    if len(lines) < 2:
        raise CorruptCheckpoint(f"{len(lines)} lines; at least a version and a count are required")
    if lines[0] != _VERSION:
        raise CorruptCheckpoint(f"line 1: version {lines[0]!r}")
    if number(lines[1], 2) != len(lines) - 2:
        raise CorruptCheckpoint(f"line 2: the count is {lines[1]}, but there are {len(lines) - 2} entries")
    if not data.endswith(b"\n"):  # a power loss can truncate an unsynced file, even inside its last number
        raise CorruptCheckpoint(f"line {len(lines)} is truncated")
    rows = [line.split() for line in lines[2:]]
    for at, row in enumerate(rows, 3):
        if len(row) != fields:
            raise CorruptCheckpoint(f"line {at}: {len(row)} words instead of {fields}")
    return rows


def number(word: str, line: int) -> int:
    """Return the integer that `word` stands for. Raises `CorruptCheckpoint` if it is no number; the message names the file's line number
    `line`."""
    try:
        return int(word)
    except ValueError as e:
        raise CorruptCheckpoint(f"line {line}: {word!r} is not a number") from e


Offsets = Mapping[tuple[str, int], int]


def encode_offsets(offsets: Offsets) -> bytes:
    """Return the bytes of a checkpoint file: after its two header lines, a line `<topic> <partition> <offset>` per entry."""
    return encode_lines(f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items())


def decode_offsets(data: bytes) -> dict[tuple[str, int], int]:
    """Decode the bytes of a checkpoint file: return offsets by topic and partition. Raises `CorruptCheckpoint` if the bytes have another
    format."""
    rows = decode_lines(data, 3)
    return {(topic, number(partition, at)): number(offset, at) for at, (topic, partition, offset) in enumerate(rows, 3)}
