"""Builds error responses without a request handler, and changes the responses of handlers, for fault rules.

- `refusal` builds an error response from the request alone, for a fault or because the controller does not answer. It repeats everything
  that the request names, each with the error, as Kafka's `getErrorResponse` does. It is built from field names, so that most new APIs need
  no code here.
- `overwrite` changes the error codes of a handler's response, `corrupted` its records.
- `committed_in` finds the committed offsets of an OffsetFetch response.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from ottla.broker.faults.subject import PARTITION_NUMBERS, TOPIC_NAMES, TopicName, is_topic_list, partition_of, topic_of
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.codec import response_class
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.fields import ArrayOf, wire_fields
from ottla.protocol.messages.k03_metadata import MetadataResponseTopic
from ottla.protocol.records.batch import HEADER_BYTES, LOG_OVERHEAD
from ottla.protocol.wire import Buffer

_SAME: Final[tuple[tuple[str, ...], ...]] = (
    TOPIC_NAMES,
    PARTITION_NUMBERS,
    ("group_id",),
    ("transactional_id",),
    ("member_id",),
    ("group_instance_id",),
    ("producer_id",),
    ("key",),
    ("resource_name",),
    ("resource_type",),
    ("topic_id",),
)
"""Groups of field names. The names in a group have the same meaning in a request and in its response, such as `name` and `topic`. A struct
belongs to the first group that has one of its fields. An error response has a struct for each struct of the request that belongs to the
same group."""

Wanted = Callable[[str | None, int | None], bool]
"""A function that returns whether a fault rule applies to a topic and partition in a response. An argument is None if the response does not
name a topic or partition."""

_ELEMENTS: Final[Mapping[ApiKey, tuple[str, Callable[[Any], Iterable[dict[str, object]]]]]] = {
    ApiKey.CREATE_ACLS: ("results", lambda request: [{} for _ in request.creations]),
    ApiKey.DELETE_ACLS: ("filter_results", lambda request: [{} for _ in request.filters]),
    ApiKey.ALTER_REPLICA_LOG_DIRS: (
        "results",
        lambda request: [{"topic_name": topic.name, "partitions": topic.partitions} for each in request.dirs for topic in each.topics],
    ),
    ApiKey.ALTER_CLIENT_QUOTAS: ("entries", lambda request: [{"entity": entry.entity} for entry in request.entries]),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: ("results", lambda request: [{} for _ in request.users or ()]),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: (
        "results",
        lambda request: [{"user": name} for name in dict.fromkeys(each.name for each in (*request.deletions, *request.upsertions))],
    ),
}
"""For APIs whose error response cannot be built by field names alone: the response's list field, and a function that takes the request and
returns, for each element of that list, the values of its fields."""


def refusal(api_key: int, request: Any, error: ErrorCode) -> Any:
    """Return an error response to `request`, in which everything that the request names (topics, partitions, groups, …) has the error
    `error`."""
    response = response_class(api_key)()
    _mirror(request, response, error)
    if api_key in _ELEMENTS:
        field, elements = _ELEMENTS[ApiKey(api_key)]
        (of_response,) = (wire.type.element for wire in wire_fields(type(response)) if wire.name == field)
        setattr(response, field, [_element(of_response, values, error) for values in elements(request)])
    return response


def _element(of_response: type[Any], values: Mapping[str, object], error: ErrorCode) -> Any:
    element = of_response(**values)
    if hasattr(element, "error_code"):
        element.error_code = int(error)
        return element
    (of_partition,) = (wire.type.element for wire in wire_fields(of_response) if wire.name == "partitions")
    element.partitions = [of_partition(index, int(error)) for index in element.partitions]
    return element


def overwrite(response: Any, error: ErrorCode, wanted: Wanted, topic_name: TopicName) -> None:
    """Set the error codes in `response` to `error`, for the topics and partitions for which `wanted` returns True. If error codes are
    nested, only the innermost are set. The base offsets beside them become -1."""

    def visit(struct: Any, topic: str | None, partition: int | None) -> bool:
        """Set the error codes in `struct`. Return whether `struct` or a nested struct has an error code at all, changed or not."""
        below = False
        for name, inner in _inner(struct):
            if is_topic_list(name):
                below |= visit(inner, topic_of(inner, topic_name), None)
            else:
                below |= visit(inner, topic, partition_of(inner))
        codes = [item.name for item in dataclasses.fields(struct) if _is_error(item.name)]
        if codes and not below and wanted(topic, partition):
            for name in codes:
                setattr(struct, name, int(error))
            if hasattr(struct, "base_offset"):
                struct.base_offset = -1
        return below or bool(codes)

    visit(response, None, None)


def records_in(response: Any, wanted: Wanted, topic_name: TopicName) -> Any:
    """Return the first partition of a Fetch or ShareFetch response that has a complete batch of records and for which `wanted` returns
    True; None if there is none."""
    for topic in getattr(response, "responses", ()):
        for partition in getattr(topic, "partitions", ()):
            records = getattr(partition, "records", None)
            if records and _first_batch_end(records) and wanted(topic_of(topic, topic_name), partition_of(partition)):
                return partition
    return None


def committed_in(response: Any, group: Callable[[str | None], bool], wanted: Wanted, topic_name: TopicName) -> list[Any]:
    """Return the partitions of an OffsetFetch response that have a committed offset above 0. `group` is called with the group's name, and
    `wanted` with topic and partition; both must return True. Before version 8, responses have no group name, and `group` is called with
    None."""
    return [
        partition
        for of_group in [response, *response.groups]
        if group(getattr(of_group, "group_id", None))
        for topic in of_group.topics
        for partition in topic.partitions
        if partition.committed_offset > 0 and wanted(topic_of(topic, topic_name), partition_of(partition))
    ]


def corrupted(records: Buffer) -> Buffer:
    """Return a copy of record batches with the lowest bit of the first batch's last byte flipped, so that its CRC no longer matches."""
    copy = bytearray(records)
    copy[_first_batch_end(records) - 1] ^= 1
    return copy


def _first_batch_end(records: Buffer) -> int:
    """Return the position after the first batch in `records`; 0 if that batch has no records or is incomplete."""
    if len(records) <= HEADER_BYTES:
        return 0
    end = LOG_OVERHEAD + int.from_bytes(records[LOG_OVERHEAD - 4 : LOG_OVERHEAD], "big")
    return end if HEADER_BYTES < end <= len(records) else 0


def _mirror(requested: Any, answer: Any, error: ErrorCode) -> None:
    for wire in wire_fields(type(answer)):
        if _is_error(wire.name):
            setattr(answer, wire.name, int(error))
        elif isinstance(wire.type, ArrayOf) and dataclasses.is_dataclass(wire.type.element):
            setattr(
                answer, wire.name, [_response_for(each, wire.type.element, error) for each in _request_parts(requested, wire.type.element)]
            )


def _request_parts(requested: Any, answer_class: Any) -> list[Any]:
    """Return the items of the request struct `requested` (structs, names or numbers) that the error response must repeat, each as a struct
    of the class `answer_class`; an empty list if there are none."""
    kind = _stands_for(answer_class)
    if kind is None:
        return []
    for item in dataclasses.fields(requested):
        value = getattr(requested, item.name)
        if not isinstance(value, list) or not value:
            continue
        if dataclasses.is_dataclass(value[0]):
            if _stands_for(type(value[0])) == kind:
                return value
        elif _plain_stands_for(item.name, value[0]) == kind:
            return value
    return []


def _response_for(requested: Any, answer_class: Any, error: ErrorCode) -> Any:
    answer = answer_class()
    names = {item.name for item in dataclasses.fields(answer)}
    if dataclasses.is_dataclass(requested):
        for same in _SAME:
            theirs = next((name for name in same if hasattr(requested, name)), None)
            ours = next((name for name in same if name in names), None)
            if theirs is not None and ours is not None:
                setattr(answer, ours, getattr(requested, theirs))
        if isinstance(answer, MetadataResponseTopic) and answer.name is None:
            answer.name = ""  # the request had only an id; before version 12 the response's name is not nullable
        _mirror(requested, answer, error)
        return answer
    same = _stands_for(answer_class) or ()
    setattr(answer, next(name for name in same if name in names), requested)
    for name in names:
        if _is_error(name):
            setattr(answer, name, int(error))
    return answer


def _stands_for(struct: Any) -> tuple[str, ...] | None:
    names = {item.name for item in dataclasses.fields(struct)}
    return next((same for same in _SAME if names.intersection(same)), None)


def _plain_stands_for(name: str, value: Any) -> tuple[str, ...] | None:
    if isinstance(value, int):
        return PARTITION_NUMBERS if name.startswith("partition") else None
    if name == "coordinator_keys":
        return ("key",)
    if name.startswith("group"):
        return ("group_id",)
    if name.startswith("transactional"):
        return ("transactional_id",)
    return TOPIC_NAMES if name.startswith("topic") else None


def _inner(struct: Any) -> Iterator[tuple[str, Any]]:
    for item in dataclasses.fields(struct):
        value = getattr(struct, item.name)
        for each in value if isinstance(value, list) else [value]:
            if dataclasses.is_dataclass(each):
                yield item.name, each


def _is_error(name: str) -> bool:
    return name in {"error_code", "partition_error_code"}
