"""Hypothesis strategies for requests that change state: valid, invalid and with duplicate elements, about resources that exist.

Fields are drawn from small sets of values, so that a request often fails no check but authorization.
"""

from __future__ import annotations

from typing import Any, Final

from hypothesis import strategies as st

from ottla.broker.api.routes import broker_routes, controller_routes
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.codegen import fields_at
from ottla.protocol.fields import ArrayOf, Kind, WireField
from ottla.protocol.messages.registry import request_class
from ottla.protocol.schema import Message
from tests.support.logs import batch

TOPIC: Final = "t"
READING: Final = frozenset(
    {
        *(ApiKey.FETCH, ApiKey.LIST_OFFSETS, ApiKey.METADATA, ApiKey.OFFSET_FETCH, ApiKey.FIND_COORDINATOR, ApiKey.DESCRIBE_GROUPS),
        *(ApiKey.LIST_GROUPS, ApiKey.SASL_HANDSHAKE, ApiKey.API_VERSIONS, ApiKey.OFFSET_FOR_LEADER_EPOCH, ApiKey.DESCRIBE_ACLS),
        *(ApiKey.DESCRIBE_CONFIGS, ApiKey.DESCRIBE_LOG_DIRS, ApiKey.SASL_AUTHENTICATE, ApiKey.DESCRIBE_DELEGATION_TOKEN),
        *(ApiKey.LIST_PARTITION_REASSIGNMENTS, ApiKey.DESCRIBE_CLIENT_QUOTAS, ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS),
        *(ApiKey.DESCRIBE_QUORUM, ApiKey.DESCRIBE_CLUSTER, ApiKey.DESCRIBE_PRODUCERS, ApiKey.DESCRIBE_TRANSACTIONS),
        *(ApiKey.LIST_TRANSACTIONS, ApiKey.CONSUMER_GROUP_DESCRIBE, ApiKey.LIST_CONFIG_RESOURCES, ApiKey.DESCRIBE_TOPIC_PARTITIONS),
    }
)
"""The APIs that change nothing."""
AT_BROKERS: Final = tuple(key for key in broker_routes() if key not in READING)
AT_CONTROLLERS: Final = tuple(key for key in controller_routes() if key not in READING)
_SERVED: Final = {key: route.max_version for routes in (controller_routes(), broker_routes()) for key, route in routes.items()}
"""The highest version of each API that a controller or a broker of this project serves."""

_NAMES: Final = (TOPIC, TOPIC, "", "1", "g", "a/b", "new", "*", "kafka-cluster", "User:ann", "ann", "user", "metadata.version")
_SETTINGS: Final = ("retention.ms", "cleanup.policy", "log.retention.ms", "interval.ms", "consumer.session.timeout.ms", "root", "no.such")
_VALUES: Final = ("1", "5000", "50000", "compact", "delete", "INFO", "x", "")
_TYPES: Final = (2, 4, 8, 16, 32, 99)
_SMALL: Final = (-1, 0, 1, 2, 3, 5)
_BATCHES: Final = tuple(batch(1, 0, 0, transactional=transactional) for transactional in (False, True))


@st.composite
def requests(draw: st.DrawFn, keys: tuple[int, ...], topic_id: bytes) -> tuple[Message, int]:
    """Draw a request of one of the APIs in `keys`, and its version."""
    cls = request_class(ApiKey(draw(st.sampled_from(keys))))
    version = draw(st.integers(cls.MIN_VERSION, _SERVED[cls.API_KEY]))
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
