"""Hypothesis strategies for requests that alter something: well formed, malformed and with duplicate elements, about existing things.

Fields are drawn from small pools, so that requests often pass every check except authorization.
"""

from __future__ import annotations

from typing import Any, Final

from hypothesis import strategies as st

from ottla.protocol.api_keys import ApiKey
from ottla.protocol.codegen import fields_at
from ottla.protocol.fields import ArrayOf, Kind, WireField
from ottla.protocol.messages.registry import request_class
from ottla.protocol.schema import Message
from tests.support.logs import batch

TOPIC: Final = "t"
AT_BROKERS: Final = (0, 8, 11, 12, 13, 14, 19, 20, 21, 22, 24, 25, 26, 27, 28, 30, 31, 33, 34, 37, 38, 39, 40, 42, 43, 44, 45, 47, 49, 51)
AT_BROKERS_OF_KRAFT: Final = (57, 64, 68, 80, 81)
AT_CONTROLLERS: Final = (19, 20, 30, 31, 33, 37, 38, 39, 40, 43, 44, 45, 49, 51, 53, 54, 56, 57, 58, 59, 62, 63, 64, 67, 70, 73, 80, 81, 82)
"""Every API with which a client or a node changes something."""

_NAMES: Final = (TOPIC, TOPIC, "", "1", "g", "a/b", "new", "*", "kafka-cluster", "User:ann", "ann", "user", "metadata.version")
_SETTINGS: Final = ("retention.ms", "cleanup.policy", "log.retention.ms", "interval.ms", "consumer.session.timeout.ms", "root", "no.such")
_VALUES: Final = ("1", "5000", "50000", "compact", "delete", "INFO", "x", "")
_TYPES: Final = (2, 4, 8, 16, 32, 99)
_SMALL: Final = (-1, 0, 1, 2, 3, 5)
_BATCHES: Final = tuple(batch(1, 0, 0, transactional=transactional) for transactional in (False, True))


@st.composite
def requests(draw: st.DrawFn, keys: tuple[int, ...], topic_id: bytes) -> tuple[Message, int]:
    """Draw a request of one of these APIs, and its version."""
    cls = request_class(ApiKey(draw(st.sampled_from(keys))))
    version = draw(st.integers(cls.MIN_VERSION, cls.MAX_VERSION))
    return draw(_struct(cls, version, topic_id)), version


def _struct(cls: type, version: int, topic_id: bytes) -> st.SearchStrategy[Any]:
    ordered, tagged, _ = fields_at(cls, version)
    return st.builds(cls, **{field.name: _field(field, version, topic_id) for field in ordered + tagged})


def _field(field: WireField, version: int, topic_id: bytes) -> st.SearchStrategy[Any]:
    values = _value(field.type, field.name, version, topic_id)
    return st.none() | values if version in field.nullable else values


def _value(kind: Any, name: str, version: int, topic_id: bytes) -> st.SearchStrategy[Any]:
    if isinstance(kind, ArrayOf):
        elements = st.lists(_value(kind.element, name, version, topic_id), min_size=1, max_size=2)
        return elements | elements.map(lambda given: given * 2)
    if not isinstance(kind, Kind):
        return _struct(kind, version, topic_id)
    match kind.name:
        case "string":
            return st.sampled_from(_VALUES if name == "value" else (*_NAMES, *_SETTINGS) if name == "name" else _NAMES)
        case "records":
            return st.sampled_from(_BATCHES)
        case "bytes":
            return st.sampled_from((b"", b"\0" * 4))
        case "uuid":
            return st.sampled_from((topic_id, bytes(16)))
        case "bool":
            return st.booleans()
    if name == "resource_type":
        return st.sampled_from(_TYPES)
    return st.sampled_from((0.0, 1.0) if kind.fmt == "d" else (0, 1) if kind.fmt in "HI" else _SMALL)
