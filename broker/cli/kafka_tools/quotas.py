"""Quotas of users, client ids and addresses, as `kafka-configs` describes and changes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ottla.broker.cli.basics import CliError
from ottla.broker.cli.cluster import AdminClient, check
from ottla.protocol.messages.k48_describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from ottla.protocol.messages.k48_describe_client_quotas import EntryData as DescribedEntry
from ottla.protocol.messages.k49_alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData, OpData

QUOTAS: Final = frozenset(
    {"producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate", "connection_creation_rate"}
)
_ENTITIES: Final = {"users": "user", "clients": "client-id", "ips": "ip"}
_SHOWN: Final = {"user": "user-principal", "client-id": "client-id", "ip": "ip"}
_EXACT, _DEFAULT, _ANY = 0, 1, 2

Entities = Sequence[tuple[str, str | None]]


def alter_quotas(cluster: AdminClient, entities: Entities, added: Sequence[tuple[str, str]], removed: Sequence[str]) -> None:
    """Set and remove quotas of one entity (a user, client id or address, or a combination): `added` has names and values, `removed` names.
    Raises `CliError` if the cluster rejects the change."""
    operations = [OpData(name, 0.0, True) for name in removed]
    for name, text in added:
        try:
            operations.append(OpData(name, float(text), False))
        except ValueError:
            raise CliError(f"Cannot parse quota configuration value for {name}: {text}") from None
    target = [EntityData(_ENTITIES[kind], name or None) for kind, name in entities]
    for entry in cluster.any(AlterClientQuotasRequest([EntryData(target, operations)])).entries:
        check(entry.error_code, "The quotas were not changed", entry.error_message)


def print_quotas(cluster: AdminClient, entities: Entities) -> None:
    """Print the quotas of each matching entity, one entity a line. An entity matches only if it has exactly the given types: the quotas of
    a user with a client id are not printed if only users are asked for. Raises `CliError` if the cluster rejects the request."""
    wanted = [
        ComponentData(_ENTITIES[kind], _ANY if name is None else _EXACT if name else _DEFAULT, name or None) for kind, name in entities
    ]
    answer = cluster.any(DescribeClientQuotasRequest(wanted, strict=True))
    check(answer.error_code, "The quotas", answer.error_message)
    for entry in answer.entries or ():
        print(f"Quota configs for {_whose(entry)} are {', '.join(f'{each.key}={each.value}' for each in entry.values)}")


def _whose(entry: DescribedEntry) -> str:
    names = {each.entity_type: each.entity_name for each in entry.entity}
    shown = [(_SHOWN[kind], names[kind]) for kind in _SHOWN if kind in names]
    return ", ".join(f"the default {kind}" if name is None else f"{kind} '{name}'" for kind, name in shown)
