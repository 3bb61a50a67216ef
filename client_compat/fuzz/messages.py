"""Valid requests with random content, for every API and version that a broker advertises.

Rules:
- The random generator is an argument.
- Names never match the topic and group of the normal clients, so that any effect on these is a fault of the broker and not a valid request.
- Counts that a broker has to honour (partitions of a new topic) are small or invalid, never valid and expensive.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

from client_compat.fuzz.batches import any_records
from ottla.protocol.fields import ArrayOf, Kind, WireField, wire_fields
from ottla.protocol.schema import Message

NAMES = ("fuzz", "fuzz-2", "fuzz-group", "", ".", "../../tmp/x", "ünïcode-☃", "n" * 249, "n" * 250, "x" * 30_000, "a\x00b")
COSTLY_COUNTS = frozenset({"num_partitions", "count"})
CHEAP_OR_ABSURD = (-1, 0, 1, 2, 3, 2**31 - 1, -(2**31))
INT_BITS = {"int8": 8, "int16": 16, "uint16": 16, "int32": 32, "uint32": 32, "int64": 64}
ELEMENTS_MAX = 3
BYTES_MAX = 200
NULL_SHARE = 0.15
EXTREME_SHARE = 0.2


@dataclass(frozen=True, slots=True)
class MessageMaker:
    """Creates request messages with random content. `topic_ids` are ids of existing topics, which the messages may name."""

    rng: random.Random
    topic_ids: tuple[bytes, ...] = ()

    def make(self, message: type[Message], version: int) -> Message:
        """Return an instance whose fields are valid for their types at `version`."""
        made = self._struct(message, version)
        assert isinstance(made, Message)
        return made

    def _struct(self, type_: type, version: int) -> object:
        values = {field.name: self._field(field, version) for field in wire_fields(type_) if version in field.versions}
        return type_(**values)

    def _field(self, field: WireField, version: int) -> Any:
        if version in field.nullable and self.rng.random() < NULL_SHARE:
            return None
        if field.name in COSTLY_COUNTS:
            return self.rng.choice(CHEAP_OR_ABSURD)
        return self._value(field.type, version)

    def _value(self, type_: Any, version: int) -> Any:
        if isinstance(type_, ArrayOf):
            return [self._value(type_.element, version) for _ in range(self.rng.randint(0, ELEMENTS_MAX))]
        if isinstance(type_, Kind):
            return self._primitive(type_)
        return self._struct(type_, version)

    def _primitive(self, kind: Kind[Any]) -> Any:
        rng = self.rng
        if kind.name in INT_BITS:
            return self._integer(INT_BITS[kind.name], signed=not kind.name.startswith("u"))
        if kind.name == "boolean":
            return rng.random() < 0.5
        if kind.name == "float64":
            return rng.choice((0.0, -1.0, float("nan"), float("inf"), 1e308))
        if kind.name == "uuid":
            return rng.choice((*self.topic_ids, bytes(16), rng.randbytes(16)))
        if kind.name == "string":
            return rng.choice(NAMES[:3]) if rng.random() < 0.6 else rng.choice(NAMES)
        if kind.name == "records":
            return any_records(rng)
        return rng.randbytes(rng.randint(0, BYTES_MAX))

    def _integer(self, bits: int, *, signed: bool) -> int:
        low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
        if self.rng.random() < EXTREME_SHARE:
            return self.rng.choice((low, high, max(low, -1)))
        return self.rng.randint(0, min(high, 5))
