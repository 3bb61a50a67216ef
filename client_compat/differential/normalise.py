"""Convert decoded responses into plain values that contain only what a broker decided.

Rules:
- An id, a time, an address or a path of one broker is replaced by a placeholder that is the same for both brokers.
- Of an error text, only its presence is compared, except in the modules of `WORDED`, whose texts are Kafka's word for word.
- Lists whose order Kafka does not define are sorted by the fields that identify their elements.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.errors import ProtocolError
from ottla.protocol.records.batch import split_batches
from ottla.protocol.records.record import iter_records

Plain = Any
"""A normalised response or a part of it: None, bool, int or str, or a list or dict of these."""

NOW_MS_MIN = 1_600_000_000_000
"""Values above this (September 2020) come from the clock; the scenarios use timestamps of 2001."""

DROPPED = frozenset({"throttle_time_ms"})
ADDRESSES = {"host": "<host>", "port": "<port>", "cluster_id": "<cluster>", "log_dir": "<dir>", "client_host": "<client>"}
AMOUNTS = frozenset({"total_bytes", "usable_bytes"})
SETS = frozenset({"isr_nodes", "offline_replicas", "eligible_leader_replicas", "last_known_elr", "subscribed_topic_names"})
"""The names of fields that are lists of broker ids or names. Kafka does not define their order, so they are sorted."""
TEXTS = frozenset({"error_message", "batch_index_error_message", "documentation"})
WORDED = frozenset(
    {
        "k43_elect_leaders",
        "k45_alter_partition_reassignments",
        "k46_list_partition_reassignments",
        "k48_describe_client_quotas",
        "k49_alter_client_quotas",
        "k55_describe_quorum",
        "k57_update_features",
        "k60_describe_cluster",
        "k64_unregister_broker",
        "k78_share_fetch",
        "k79_share_acknowledge",
        "share_state",
        "k84_read_share_group_state",
        "k87_read_share_group_state_summary",
        "k88_streams_group_heartbeat",
        "k89_streams_group_describe",
    }
)
"""The modules of those messages whose error texts are compared. Of other messages' error texts, only the presence is compared."""
SORT_KEYS = (
    "name",
    "topic",
    "topic_name",
    "topic_id",
    "key",
    "api_key",
    "group_id",
    "partition_index",
    "partition",
    "index",
    "resource_name",
    "member_id",
    "transactional_id",
    "producer_id",
    "node_id",
    "broker_id",
    "replica_id",
    "entity_type",
    "entity",
    "principal",
    "user",
    "operation",
    "permission_type",
    "user_endpoint",
)
UNORDERED = frozenset({("TopicData", "partitions")})
"""Further lists that are sorted, as (struct, field): the partitions of a transaction."""
_ZERO_ID = bytes(16)
NOT_GIVEN = (-1, 0, _ZERO_ID)


class Names:
    """Placeholders for values that a broker or a cluster chose itself, such as topic ids, so that the responses of two brokers can be
    compared. Producer ids are numbered in order of appearance.

    `by_chance` lists fields, as pairs of struct and field name, whose values are random: only their presence is compared.
    """

    def __init__(self, by_chance: frozenset[tuple[str, str]] = frozenset()) -> None:
        self.by_chance = by_chance
        self._words: dict[Any, str] = {}
        self._counts: dict[str, int] = {}

    def learn(self, value: object, word: str) -> None:
        """From now on, replace `value` (such as a topic id) in responses by the placeholder `<word>`."""
        if value not in ("", b"", -1, 0, _ZERO_ID):
            self._words[value] = f"<{word}>"

    def known(self, value: object) -> str | None:
        return self._words.get(value)

    def words(self) -> list[tuple[Any, str]]:
        """Return all values with their placeholders, longest value first, so that no value is replaced inside a longer one."""
        return sorted(self._words.items(), key=lambda known: -len(str(known[0])))

    def number(self, kind: str, value: object) -> str:
        """Return the placeholder of `value`, such as `<producer_id 2>`; if it has none, assign the next number of its kind."""
        key = (kind, value)
        if key not in self._words:
            self._counts[kind] = self._counts.get(kind, 0) + 1
            self._words[key] = f"<{kind} {self._counts[kind]}>"
        return self._words[key]


def normalise(message: object, names: Names, *, sort: bool = True) -> Plain:
    """Return a decoded response as dicts, lists, numbers and texts, with placeholders for the values that the broker chose itself. With
    `sort`, lists whose order Kafka does not define are sorted."""
    return _value("", message, names, sort)


def _value(field: str, value: object, names: Names, sort: bool) -> Plain:
    if is_dataclass(value) and not isinstance(value, type):
        return _struct(value, names, sort)
    if isinstance(value, list):
        items = [_value(field, item, names, sort) for item in (sorted(value) if field in SETS else value)]
        return sorted(items, key=_sort_key) if sort and items and isinstance(items[0], dict) else items
    if value is None or isinstance(value, bool):
        return value
    if field in ADDRESSES and value not in ("", -1):
        return names.known((field, value)) or ADDRESSES[field]
    if field in TEXTS:
        return "<text>" if value else value
    if field == "records":
        return _records(bytes(value), names)  # type: ignore[call-overload] # the schema says that the field is bytes
    if isinstance(value, int):
        return _number(field, value, names)
    if isinstance(value, bytes | bytearray | memoryview):
        raw = bytes(value)
        known = names.known(raw)
        if known is None and field.endswith("_id") and raw != _ZERO_ID:
            return names.number(field, raw)
        return known or raw.hex()
    return names.known(value) or value


def _struct(value: Any, names: Names, sort: bool) -> dict[str, Plain]:
    if getattr(value, "name", "") and isinstance(getattr(value, "topic_id", None), bytes):
        names.learn(value.topic_id, f"id of {value.name}")
    shown = {field.name: getattr(value, field.name) for field in fields(value) if field.name not in DROPPED}
    shown |= {name: sorted(found) for name, found in shown.items() if (type(value).__name__, name) in UNORDERED}
    chance = {name for name, found in shown.items() if (type(value).__name__, name) in names.by_chance and found not in NOT_GIVEN}
    worded = type(value).__module__.rpartition(".")[2] in WORDED
    return {
        name: "<by chance>" if name in chance else found if worded and name in TEXTS else _value(name, found, names, sort)
        for name, found in shown.items()
    }


def _number(field: str, value: int, names: Names) -> Plain:
    if field.endswith("error_code"):
        return f"{value} {ErrorCode(value).name}" if value in {int(code) for code in ErrorCode} else value
    if field in AMOUNTS:
        return "<amount>" if value > 0 else value
    if field == "producer_id" and value >= 0:
        return names.number(field, value)
    if field == "session_id" and value > 0:
        return "<session>"
    return "<now>" if value > NOW_MS_MIN and value < NOW_MS_MIN * 2 else value


def _records(data: bytes, names: Names) -> Plain:
    try:
        return [_batch(data[pos : pos + header.size_bytes], header, names) for pos, header in split_batches(data)]
    except ProtocolError:
        return data.hex()


def _batch(data: bytes, header: Any, names: Names) -> dict[str, Plain]:
    shown = {
        name: _number(name, getattr(header, name), names)
        for name in ("base_offset", "last_offset_delta", "partition_leader_epoch", "attributes", "base_timestamp", "max_timestamp")
    }
    shown |= {name: getattr(header, name) for name in ("producer_epoch", "base_sequence", "record_count")}
    shown["producer_id"] = _number("producer_id", header.producer_id, names)
    shown["values"] = [repr((r.offset_delta, r.key, r.value, *r.headers)) for r in iter_records(data)]
    return shown


def _sort_key(item: Mapping[str, Plain]) -> str:
    return repr([item.get(key) for key in SORT_KEYS])


def differences(kafka: Plain, ours: Plain, path: str = "") -> list[tuple[str, Plain, Plain]]:
    """Return the differences of two normalised responses, each as (path, Kafka's value, Ottla's value); a path is such as
    `topics[0].error_code`."""
    if isinstance(kafka, dict) and isinstance(ours, dict):
        keys = list(kafka) + [key for key in ours if key not in kafka]
        return [found for key in keys for found in differences(kafka.get(key), ours.get(key), f"{path}.{key}" if path else key)]
    if isinstance(kafka, list) and isinstance(ours, list):
        theirs, mine = _by_label(kafka), _by_label(ours)
        keys = list(theirs) + [key for key in mine if key not in theirs]
        return [found for key in keys for found in differences(theirs.get(key), mine.get(key), f"{path}[{key}]")]
    return [] if kafka == ours else [(path, kafka, ours)]


def _by_label(items: list[Plain]) -> dict[str, Plain]:
    """Return the elements by a key that identifies each of them, so that an additional element on one side does not shift the others;
    without such a key, by position."""
    labels = [_label(item, index) for index, item in enumerate(items)]
    if len(set(labels)) < len(labels):
        labels = [str(index) for index in range(len(items))]
    return dict(zip(labels, items, strict=True))


def _label(item: Plain, index: int) -> str:
    if isinstance(item, dict):
        return next((str(item[key]) for key in SORT_KEYS if item.get(key) not in (None, "", -1)), str(index))
    return str(index)
