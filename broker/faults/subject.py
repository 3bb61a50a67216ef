"""Finds the transactional ids, groups, topics and partitions that a request names.

Kafka's messages use only a few field names for each of these (a topic is `name` or `topic`, a partition `index`, `partition` or
`partition_index`), and this project's message classes keep those names. So this module searches fields by name, and a new API needs no code
here. A topic id is resolved to the topic's name; an unknown id is left out.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

from ottla.protocol.api_keys import ApiKey
from ottla.protocol.codec import request_class
from ottla.protocol.fields import ArrayOf, wire_fields

TOPIC_NAMES: Final = ("topic", "name")
PARTITION_NUMBERS: Final = ("partition_index", "partition", "index", "partition_id")
_GROUPS: Final = frozenset({"group_id", "group_ids", "groups", "groups_names"})
_TRANSACTIONS: Final = frozenset({"transactional_id", "transactional_ids", "v3_and_below_transactional_id"})
_TOPIC_LISTS: Final = frozenset(
    {
        "topics",
        "topic_data",
        "topic_names",
        "topic_results",
        "topic_partitions",
        "responses",
        "forgotten_topics_data",
        "v3_and_below_topics",
        "results_by_topic_v3_and_below",
    }
)
_COORDINATOR_GROUP: Final = 0
_COORDINATOR_TRANSACTION: Final = 1

TopicName = Callable[[bytes], str | None]
"""A function that returns the name of the topic with this id, or None if there is no such topic."""


@dataclass(slots=True)
class Subject:
    """The properties of a request that a fault rule can match. In `partitions`, None as the partition number stands for the whole topic."""

    api: ApiKey
    client_id: str
    connection: int
    transactional_ids: set[str] = field(default_factory=set)
    groups: set[str] = field(default_factory=set)
    partitions: list[tuple[str, int | None]] = field(default_factory=list)


def subject_of(api: ApiKey, client_id: str | None, connection: int, body: Any, topic_name: TopicName) -> Subject:
    """Return the properties of a request that a fault rule can match: the groups, transactional ids, topics and partitions that `body`, a
    request of `api`, names."""
    found = Subject(api, client_id or "", connection)
    if api is ApiKey.FIND_COORDINATOR:
        keys = {key for key in (body.key, *body.coordinator_keys) if key}
        if body.key_type == _COORDINATOR_GROUP:
            found.groups |= keys
        elif body.key_type == _COORDINATOR_TRANSACTION:
            found.transactional_ids |= keys
    else:
        _collect(found, body, topic_name)
    return found


@cache
def names_in(api: ApiKey) -> frozenset[str]:
    """Return which of the names `transactional_id`, `group` and `topic` a request of this API can contain. For an API without a message
    class in this project, return all three."""
    if api is ApiKey.FIND_COORDINATOR:
        return frozenset({"transactional_id", "group"})
    try:
        return frozenset(_names_in(request_class(api)))
    except KeyError:
        return frozenset({"transactional_id", "group", "topic"})


def _names_in(struct: Any) -> Iterator[str]:
    for wire in wire_fields(struct):
        inner = wire.type.element if isinstance(wire.type, ArrayOf) else wire.type
        is_struct = dataclasses.is_dataclass(inner)
        if wire.name in _TRANSACTIONS:
            yield "transactional_id"
        elif wire.name in _GROUPS and not is_struct:
            yield "group"
        elif is_topic_list(wire.name):
            yield "topic"
        elif is_struct:
            yield from _names_in(inner)


def topic_of(struct: Any, topic_name: TopicName) -> str | None:
    """Return the name of the topic that an element of a topic list names; None for an unknown topic id."""
    for name in TOPIC_NAMES:
        value = getattr(struct, name, None)
        if isinstance(value, str) and value:
            return value
    topic_id = getattr(struct, "topic_id", None)
    return topic_name(topic_id) if isinstance(topic_id, bytes) and any(topic_id) else None


def partition_of(struct: Any) -> int | None:
    """Return the partition number in a struct of a message; None if the struct has none."""
    for name in PARTITION_NUMBERS:
        value = getattr(struct, name, None)
        if isinstance(value, int):
            return value
    return None


def is_topic_list(name: str) -> bool:
    """Return whether a message's field with the name `name` contains a list of topics."""
    return name in _TOPIC_LISTS


def _collect(found: Subject, struct: Any, topic_name: TopicName) -> None:
    for item in dataclasses.fields(struct):
        value = getattr(struct, item.name)
        if item.name in _TRANSACTIONS:
            found.transactional_ids.update(_texts(value))
        elif item.name in _GROUPS and not _structs(value):
            found.groups.update(_texts(value))
        elif is_topic_list(item.name):
            for topic in value or ():
                found.partitions.extend(_partitions(topic, topic_name))
        else:
            for inner in _structs(value):
                _collect(found, inner, topic_name)


def _partitions(topic: Any, topic_name: TopicName) -> Iterator[tuple[str, int | None]]:
    name = topic if isinstance(topic, str) else topic_of(topic, topic_name)
    if name is None:
        return
    numbers = [] if isinstance(topic, str) else list(_numbers(topic))
    if not numbers:
        yield name, None
    for number in numbers:
        yield name, number


def _numbers(topic: Any) -> Iterator[int]:
    for item in dataclasses.fields(topic):
        if not item.name.startswith("partition"):
            continue
        value = getattr(topic, item.name)
        for element in value if isinstance(value, list) else ():
            number = element if isinstance(element, int) else partition_of(element)
            if number is not None:
                yield number


def _texts(value: Any) -> list[str]:
    return [text for text in (value if isinstance(value, list) else [value]) if isinstance(text, str) and text]


def _structs(value: Any) -> list[Any]:
    return [each for each in (value if isinstance(value, list) else [value]) if dataclasses.is_dataclass(each)]
