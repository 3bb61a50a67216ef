"""Decides AlterClientQuotas: quotas of users, client ids and addresses. Brokers enforce them.

Invariants:
- An invalid quota rejects all changes of its entity, but not those of other entities. If an entity is named twice, the first change is
  applied, and the result is an error about the second one.
- An entity is a user, a client id, a user with a client id, or an IP address. Each is given by name, or as the default, which applies to
  all users, client ids or addresses without a quota of their own.
- An unchanged quota makes no record; removing a quota that does not exist is not an error.

Source: Kafka's ClientQuotaControlManager, QuotaConfig.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from ipaddress import ip_address
from math import isfinite
from typing import Final

from ottla.broker.cluster.image import MetadataImage, QuotaTarget
from ottla.broker.cluster.metadata_records import ClientQuotaRecord, MetadataRecord, QuotaEntity
from ottla.broker.core.config_keys import INT32_MAX, INT64_MAX
from ottla.broker.core.effects import Effects
from ottla.broker.core.rejected import Rejected
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k49_alter_client_quotas import EntryData, OpData

_CLIENT_ID, _USER, _IP = "client-id", "user", "ip"
_TYPES: Final = (_IP, _CLIENT_ID, _USER)
"""The types of a quota entity's parts, in the order in which Kafka writes and reports them (that of a Java HashMap)."""
_OF_CLIENTS: Final[Mapping[str, int | None]] = {
    "producer_byte_rate": INT64_MAX,
    "consumer_byte_rate": INT64_MAX,
    "request_percentage": None,
    "controller_mutation_rate": None,
}
"""The quotas that users and client ids can have: by key, the largest allowed value of a quota that must be a whole number, or None if
fractions are allowed.
"""
_OF_ADDRESSES: Final[Mapping[str, int | None]] = {"connection_creation_rate": INT32_MAX}
_FRACTION_MAX: Final = 1e-6


def is_address(text: str) -> bool:
    """Return whether the text is an IP address. Names are not accepted, because a decision must not wait for a DNS look-up."""
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def alter_client_quotas(image: MetadataImage, entries: Sequence[EntryData]) -> Effects[MetadataRecord, dict[QuotaTarget, Rejected | None]]:
    """Decide an AlterClientQuotas request: return the metadata records to write, and an error or None for each entity."""
    records: list[MetadataRecord] = []
    results: dict[QuotaTarget, Rejected | None] = {}
    for entry in entries:
        entity = {part.entity_type: part.entity_name for part in entry.entity}
        target = frozenset(entity.items())
        keys = [op.key for op in entry.ops]
        if target in results or len(set(keys)) < len(keys):
            results[target] = _invalid(f"Ignoring duplicate entity {_entity_text(entity)}")
            continue
        try:
            records += _changes(image, entity, entry.ops)
            results[target] = None
        except Rejected as error:
            results[target] = error.without_traceback()
    return Effects(records, results)


def _changes(image: MetadataImage, entity: Mapping[str, str | None], ops: Sequence[OpData]) -> list[MetadataRecord]:
    allowed = _allowed(entity)
    current = image.client_quotas.get(frozenset(entity.items()), {})
    records: list[MetadataRecord] = []
    for op in ops:
        if not op.remove:
            _check_value(allowed, op)
        if (op.key in current) if op.remove else (current.get(op.key) != op.value):
            parts = [QuotaEntity(kind, entity[kind]) for kind in _TYPES if kind in entity]
            records.append(ClientQuotaRecord(parts, op.key, 0.0 if op.remove else op.value, op.remove))
    return records


def _allowed(entity: Mapping[str, str | None]) -> Mapping[str, int | None]:
    """Return the quota keys that an entity with these parts (name by type) can have. The value of a key is the largest allowed value of a
    quota that must be a whole number, or None if fractions are allowed. Raises `Rejected(INVALID_REQUEST)` for an entity that cannot exist.
    """
    if not entity:
        raise _invalid("Invalid empty client quota entity")
    for kind, name in entity.items():
        if kind not in _TYPES:
            raise _invalid(f"Unhandled client quota entity type: {kind}")
        if name == "":
            raise _invalid(f"Empty {kind} not supported")
    if _IP not in entity:
        return _OF_CLIENTS
    if len(entity) > 1:
        raise _invalid("Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId")
    if (address := entity[_IP]) is not None and not is_address(address):
        raise _invalid(f"{address} is not a valid IP or resolvable host.")
    return _OF_ADDRESSES


def _check_value(allowed: Mapping[str, int | None], op: OpData) -> None:
    if op.key not in allowed:
        raise _invalid(f"Invalid configuration key {op.key}")
    if not isfinite(op.value):
        raise _invalid(f"Quota {op.key} must be a finite number")
    if op.value <= 0:
        raise _invalid(f"Quota {op.key} must be greater than 0")
    highest = allowed[op.key]
    if highest is None:
        return
    if op.value > float(highest):
        raise _invalid(f"Proposed value for {op.key} is too large for {'an INT' if highest == INT32_MAX else 'a LONG'}.")
    if op.value % 1 > _FRACTION_MAX:
        raise _invalid(f"{op.key} cannot be a fractional value.")


def _entity_text(entity: Mapping[str, str | None]) -> str:
    kinds = [kind for kind in _TYPES if kind in entity] + [kind for kind in entity if kind not in _TYPES]
    named = ", ".join(f"{kind}={'null' if entity[kind] is None else entity[kind]}" for kind in kinds)
    return f"ClientQuotaEntity(entries={{{named}}})"


def _invalid(message: str) -> Rejected:
    return Rejected(ErrorCode.INVALID_REQUEST, message)
