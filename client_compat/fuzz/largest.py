"""The largest legal requests of an API: with the maximum number of elements, within the size limit of a broker.

A request is built from its schema: one array gets `ELEMENTS` elements (or as many as `BYTES` permits), each other array one. So an API has
one largest request for each array: many topics with one partition each, and one topic with many partitions.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from ottla.protocol.codec import encode_request
from ottla.protocol.codegen import fields_at
from ottla.protocol.fields import ArrayOf, Kind
from ottla.protocol.schema import Message

ELEMENTS: Final = 200_000
"""The number of elements in the long array of a largest request. It is below Ottla's limit of 250,000 elements in a request, because nested
arrays count as well."""
_OF_AN_ACL: Final = {
    "resource_type": 2,
    "resource_type_filter": 2,
    "resource_pattern_type": 3,
    "pattern_type_filter": 3,
    "operation": 3,
    "permission_type": 3,
    "principal": "User:n",
    "principal_filter": "User:n",
}
"""Values of a valid ACL (READ on a topic, allowed). A broker rejects a whole request with an unknown type and closes the connection."""
BYTES: Final = 7 << 20
"""The maximum size of a largest request in bytes. It is below Ottla's limit of 8 MiB for any request except Produce."""


def largest(request: type[Message], version: int, elements: int = ELEMENTS) -> Iterator[tuple[str, Message]]:
    """Yield (name of the long array, request) for each array of the request; nothing for a request without arrays. `elements` is the total
    number of elements, including those of nested arrays."""
    for path in _arrays(request, version, ()):
        count = elements // (1 + _arrays_below(request, version, path))
        message = _filled(request, version, path, count)
        size = sum(map(len, encode_request(request.API_KEY, version, 1, "fuzz", message)))
        if size > BYTES:
            message = _filled(request, version, path, count * BYTES // size)
        yield ".".join(path), message


def _arrays(struct: type, version: int, above: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    ordered, tagged, _ = fields_at(struct, version)
    for field in [*ordered, *tagged]:
        element = field.type.element if isinstance(field.type, ArrayOf) else field.type
        here = (*above, field.name)
        if isinstance(field.type, ArrayOf):
            yield here
        if not isinstance(element, Kind):
            yield from _arrays(element, version, here)


def _arrays_below(struct: type, version: int, path: tuple[str, ...]) -> int:
    return sum(other[: len(path)] == path and other != path for other in _arrays(struct, version, ()))


def _filled(struct: type, version: int, path: tuple[str, ...], count: int, number: int = 0) -> Any:
    ordered, tagged, _ = fields_at(struct, version)
    values: dict[str, Any] = {}
    for field in [*ordered, *tagged]:
        wanted = bool(path) and path[0] == field.name
        if isinstance(field.type, ArrayOf):
            if field.tag is not None and not wanted:
                continue
            many = count if wanted and len(path) == 1 else 1
            inner = path[1:] if wanted else ()
            values[field.name] = [
                _value(field.name, field.type.element, version, inner, count=count, number=each or number) for each in range(many)
            ]
        elif field.tag is None or wanted:
            values[field.name] = _value(field.name, field.type, version, path[1:] if wanted else (), count=count, number=number)
    if "permission_type" in values:  # an ACL or an ACL filter
        values |= {name: value for name, value in _OF_AN_ACL.items() if name in values}
    return struct(**values)


def _value(name: str, kind: Any, version: int, path: tuple[str, ...], *, count: int, number: int) -> Any:
    """Return a value for a request's field that makes the broker process the whole request: unknown names, valid types, no negative
    counts."""
    if not isinstance(kind, Kind):
        return _filled(kind, version, path, count, number)
    if kind.name == "string":
        return f"n{number}"
    if kind.name == "uuid":
        return number.to_bytes(16, "big")
    if kind.name in {"bytes", "records"}:
        return b""
    if kind.name == "bool":
        return name == "validate_only"
    if name == "resource_type":
        return 32  # groups, because a broker describes the settings of groups that do not exist
    if name in {"partition_index", "partition", "index", "partition_indexes", "partitions"}:
        return number
    return 1 if name in {"num_partitions", "replication_factor", "acks"} else kind.zero
