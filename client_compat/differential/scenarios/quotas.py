"""Compare Ottla with Apache Kafka by requests about the quotas of users, client ids and addresses: altering them, and the filters of
DescribeClientQuotas."""

from __future__ import annotations

from client_compat.differential.probe import Probe
from client_compat.differential.scenarios.common import until
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.k48_describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from ottla.protocol.messages.k49_alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData, OpData

Entity = dict[str, str | None]
EXACT, DEFAULT, SPECIFIED = 0, 1, 2
KEYS = ("producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate", "connection_creation_rate")
LEFT: tuple[Entity, ...] = (
    {"user": "alice"},
    {"client-id": "app"},
    {"user": "alice", "client-id": "app"},
    {"user": "nearly"},
    {"user": None, "client-id": None},
    {"ip": None},
    {"ip": "127.0.0.9"},
    {"user": "u"},
    {"user": "u", "client-id": None},
)
"""The entities that have quotas at the end of the scenario. The last two have quotas only in releases that accept any value."""
MUCH = 1e15
"""A quota so high that it throttles nobody, because the scenario does not test throttling."""


def _entry(entity: Entity, *ops: tuple[str, float | None]) -> EntryData:
    return EntryData([EntityData(*part) for part in entity.items()], [OpData(key, value or 0.0, value is None) for key, value in ops])


ALTERED: dict[str, list[EntryData]] = {
    "a user": [_entry({"user": "alice"}, ("producer_byte_rate", MUCH), ("request_percentage", MUCH))],
    "a client id": [_entry({"client-id": "app"}, ("consumer_byte_rate", MUCH))],
    "both": [_entry({"user": "alice", "client-id": "app"}, ("controller_mutation_rate", MUCH + 0.5))],
    "defaults": [_entry({"user": None, "client-id": None}, ("consumer_byte_rate", MUCH))],
    "an address": [_entry({"ip": "127.0.0.9"}, ("connection_creation_rate", 1e6))],
    "every address": [_entry({"ip": None}, ("connection_creation_rate", 1e6))],
    "a host": [_entry({"ip": "no such host"}, ("connection_creation_rate", 1e6))],
    "no entity": [_entry({}, ("consumer_byte_rate", 1.0))],
    "an unknown type": [_entry({"group": "g"}, ("consumer_byte_rate", 1.0))],
    "an empty name": [_entry({"user": ""}, ("consumer_byte_rate", 1.0))],
    "an address and a user": [_entry({"ip": "127.0.0.9", "user": "u"}, ("connection_creation_rate", 1.0))],
    "an unknown key": [_entry({"user": "u"}, ("a.b", 1.0))],
    "an address' key": [_entry({"user": "u"}, ("connection_creation_rate", 1.0))],
    "nothing": [_entry({"user": "u"}, ("consumer_byte_rate", 0.0), ("a.b", None))],
    "less": [_entry({"user": "u"}, ("request_percentage", -1.0))],
    "a fraction": [_entry({"user": "u"}, ("consumer_byte_rate", 1.5))],
    "nearly whole": [_entry({"user": "nearly"}, ("consumer_byte_rate", 1e15 + 1e-7))],
    "no INT": [_entry({"ip": "127.0.0.9"}, ("connection_creation_rate", 2.0**31))],
    "no LONG": [_entry({"user": "u"}, ("consumer_byte_rate", 2.0**64))],
    "a key twice": [_entry({"user": "u", "client-id": None}, ("consumer_byte_rate", 1.0), ("consumer_byte_rate", 2.0))],
    "an entity twice": [_entry({"user": "twice"}, ("consumer_byte_rate", MUCH)), _entry({"user": "twice"}, ("consumer_byte_rate", 2.0))],
    "removed": [_entry({"user": "twice"}, ("consumer_byte_rate", None), ("producer_byte_rate", None))],
    "nobody": [],
}
FILTERS: dict[str, list[tuple[str, int, str | None]]] = {
    "all": [],
    "alice": [("user", EXACT, "alice")],
    "every user": [("user", SPECIFIED, None)],
    "the default user": [("user", DEFAULT, None)],
    "alice's app": [("user", EXACT, "alice"), ("client-id", EXACT, "app")],
    "addresses": [("ip", SPECIFIED, None)],
    "addresses and users": [("ip", SPECIFIED, None), ("user", SPECIFIED, None)],
    "an empty type": [("", EXACT, "x")],
    "an unknown type": [("group", EXACT, "x")],
    "a type twice": [("user", EXACT, "x"), ("user", DEFAULT, None)],
    "no name": [("user", EXACT, None)],
    "the default of a name": [("user", DEFAULT, "x")],
    "any of a name": [("user", SPECIFIED, "x")],
    "an unknown match": [("user", 3, None)],
}


def quotas(probe: Probe) -> None:
    """Set and remove quotas with AlterClientQuotas, also invalid ones, and list them with each filter of DescribeClientQuotas."""
    for validate_only in (True, False):
        for label, entries in ALTERED.items():
            for version in probe.range(ApiKey.ALTER_CLIENT_QUOTAS):
                probe.ask(f"{label}, {'tried' if validate_only else 'done'}", AlterClientQuotasRequest(entries, validate_only), version)
    _wait_for(probe, {"nearly"}, without={"twice"})
    for label, parts in FILTERS.items():
        for version in probe.range(ApiKey.DESCRIBE_CLIENT_QUOTAS):
            for strict in (False, True):
                request = DescribeClientQuotasRequest([ComponentData(*part) for part in parts], strict)
                probe.ask(f"{label}{', no others' * strict}", request, version)
    for entity in LEFT:
        probe.ask(f"remove {entity}", AlterClientQuotasRequest([_entry(entity, *((key, None) for key in KEYS))]))
    _wait_for(probe, set(), without={"alice", "app", "nearly", "127.0.0.9", "u", None})
    probe.ask("none are left", DescribeClientQuotasRequest())


def _wait_for(probe: Probe, names: set[str], without: set[str | None]) -> None:
    """Wait until `names` have quotas and `without` have none.

    Apache Kafka's controller responds before the broker has applied the change.
    """
    for _ in until("quotas are known"):
        entries = probe.ask_unrecorded(DescribeClientQuotasRequest(), 1).entries
        found = {part.entity_name for entry in entries for part in entry.entity}
        if names <= found and not without & found:
            return
