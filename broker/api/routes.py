"""The table of served API keys, with versions and handler modules. ApiVersions is answered from this table, so every advertised
API has a handler.

A module `kNN_name` is imported with its first request, or in the background from a second after the start, one module in each turn of the
loop, so that rarely used APIs do not delay the start. An in-process broker of a test imports all at the start (`load_all`). Each module
has `handle(ctx, request)`; request classes are in `ottla.protocol.messages`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import import_module
from typing import Any

from ottla.broker.api.context import Context
from ottla.protocol.api_keys import ApiKey

Handler = Callable[[Context, Any], Awaitable[Any] | Any]
"""`handle(ctx, request) -> response | Awaitable[response] | None`. The type is Any because each handler has its own message classes."""


@dataclass(frozen=True)
class Route:
    """The route of one API key. Versions are inclusive. `advertised_min` is below `min_version` only for Produce (`k00_produce`
    has the reason).
    """

    module: str
    min_version: int
    max_version: int
    advertised_min: int

    @cached_property
    def handle(self) -> Handler:
        """The handler; its module is imported on first use."""
        handler: Handler = import_module(f"ottla.broker.api.{self.module}").handle
        return handler


def _route(module: str, min_version: int, max_version: int, advertised_min: int | None = None) -> Route:
    return Route(module, min_version, max_version, min_version if advertised_min is None else advertised_min)


ROUTES: dict[ApiKey, Route] = {
    ApiKey.PRODUCE: _route("k00_produce", 3, 13, advertised_min=0),
    ApiKey.FETCH: _route("k01_fetch", 4, 18),
    ApiKey.LIST_OFFSETS: _route("k02_list_offsets", 1, 11),
    ApiKey.METADATA: _route("k03_metadata", 0, 13),
    ApiKey.OFFSET_COMMIT: _route("k08_offset_commit", 2, 10),
    ApiKey.OFFSET_FETCH: _route("k09_offset_fetch", 1, 10),
    ApiKey.FIND_COORDINATOR: _route("k10_find_coordinator", 0, 6),
    ApiKey.JOIN_GROUP: _route("k11_join_group", 0, 9),
    ApiKey.HEARTBEAT: _route("k12_heartbeat", 0, 4),
    ApiKey.LEAVE_GROUP: _route("k13_leave_group", 0, 5),
    ApiKey.SYNC_GROUP: _route("k14_sync_group", 0, 5),
    ApiKey.DESCRIBE_GROUPS: _route("k15_describe_groups", 0, 6),
    ApiKey.LIST_GROUPS: _route("k16_list_groups", 0, 5),
    ApiKey.SASL_HANDSHAKE: _route("k17_sasl_handshake", 0, 1),
    ApiKey.API_VERSIONS: _route("k18_api_versions", 0, 4),
    ApiKey.CREATE_TOPICS: _route("k19_create_topics", 2, 7),
    ApiKey.DELETE_TOPICS: _route("k20_delete_topics", 1, 6),
    ApiKey.DELETE_RECORDS: _route("k21_delete_records", 0, 2),
    ApiKey.INIT_PRODUCER_ID: _route("k22_init_producer_id", 0, 5),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: _route("k23_offset_for_leader_epoch", 2, 4),
    ApiKey.ADD_PARTITIONS_TO_TXN: _route("k24_add_partitions_to_txn", 0, 5),
    ApiKey.ADD_OFFSETS_TO_TXN: _route("k25_add_offsets_to_txn", 0, 4),
    ApiKey.END_TXN: _route("k26_end_txn", 0, 5),
    ApiKey.WRITE_TXN_MARKERS: _route("k27_write_txn_markers", 1, 2),
    ApiKey.TXN_OFFSET_COMMIT: _route("k28_txn_offset_commit", 0, 5),
    ApiKey.DESCRIBE_ACLS: _route("k29_describe_acls", 1, 3),
    ApiKey.CREATE_ACLS: _route("k30_create_acls", 1, 3),
    ApiKey.DELETE_ACLS: _route("k31_delete_acls", 1, 3),
    ApiKey.DESCRIBE_CONFIGS: _route("k32_describe_configs", 1, 4),
    ApiKey.ALTER_CONFIGS: _route("k33_alter_configs", 0, 2),
    ApiKey.ALTER_REPLICA_LOG_DIRS: _route("k34_alter_replica_log_dirs", 1, 2),
    ApiKey.DESCRIBE_LOG_DIRS: _route("k35_describe_log_dirs", 1, 5),
    ApiKey.SASL_AUTHENTICATE: _route("k36_sasl_authenticate", 0, 2),
    ApiKey.CREATE_PARTITIONS: _route("k37_create_partitions", 0, 3),
    ApiKey.CREATE_DELEGATION_TOKEN: _route("k38_create_delegation_token", 1, 3),
    ApiKey.RENEW_DELEGATION_TOKEN: _route("k39_renew_delegation_token", 1, 2),
    ApiKey.EXPIRE_DELEGATION_TOKEN: _route("k40_expire_delegation_token", 1, 2),
    ApiKey.DESCRIBE_DELEGATION_TOKEN: _route("k41_describe_delegation_token", 1, 3),
    ApiKey.DELETE_GROUPS: _route("k42_delete_groups", 0, 2),
    ApiKey.ELECT_LEADERS: _route("k43_elect_leaders", 0, 2),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _route("k44_incremental_alter_configs", 0, 1),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: _route("k45_alter_partition_reassignments", 0, 1),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: _route("k46_list_partition_reassignments", 0, 0),
    ApiKey.OFFSET_DELETE: _route("k47_offset_delete", 0, 0),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: _route("k48_describe_client_quotas", 0, 1),
    ApiKey.ALTER_CLIENT_QUOTAS: _route("k49_alter_client_quotas", 0, 1),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: _route("k50_describe_user_scram_credentials", 0, 0),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _route("k51_alter_user_scram_credentials", 0, 0),
    ApiKey.DESCRIBE_QUORUM: _route("k55_describe_quorum", 0, 2),
    ApiKey.UPDATE_FEATURES: _route("k57_update_features", 0, 2),
    ApiKey.DESCRIBE_CLUSTER: _route("k60_describe_cluster", 0, 2),
    ApiKey.DESCRIBE_PRODUCERS: _route("k61_describe_producers", 0, 0),
    ApiKey.UNREGISTER_BROKER: _route("k64_unregister_broker", 0, 0),
    ApiKey.DESCRIBE_TRANSACTIONS: _route("k65_describe_transactions", 0, 0),
    ApiKey.LIST_TRANSACTIONS: _route("k66_list_transactions", 0, 2),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: _route("k68_consumer_group_heartbeat", 0, 1),
    ApiKey.CONSUMER_GROUP_DESCRIBE: _route("k69_consumer_group_describe", 0, 1),
    ApiKey.LIST_CONFIG_RESOURCES: _route("k74_list_config_resources", 0, 1),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: _route("k75_describe_topic_partitions", 0, 0),
    ApiKey.SHARE_FETCH: _route("k78_share_fetch", 1, 2),
    ApiKey.SHARE_ACKNOWLEDGE: _route("k79_share_acknowledge", 1, 2),
    ApiKey.ADD_RAFT_VOTER: _route("k80_add_raft_voter", 0, 1),
    ApiKey.REMOVE_RAFT_VOTER: _route("k81_remove_raft_voter", 0, 0),
    ApiKey.INITIALIZE_SHARE_GROUP_STATE: _route("k83_initialize_share_group_state", 0, 0),
    ApiKey.READ_SHARE_GROUP_STATE: _route("k84_read_share_group_state", 0, 0),
    ApiKey.WRITE_SHARE_GROUP_STATE: _route("k85_write_share_group_state", 0, 1),
    ApiKey.DELETE_SHARE_GROUP_STATE: _route("k86_delete_share_group_state", 0, 0),
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: _route("k87_read_share_group_state_summary", 0, 1),
}
"""One line for each API, in the order of the keys."""

FORWARDED: dict[ApiKey, Route] = {
    ApiKey.CREATE_TOPICS: _route("forwarding", 2, 7),
    ApiKey.DELETE_TOPICS: _route("forwarding", 1, 6),
    ApiKey.CREATE_ACLS: _route("forwarding", 1, 3),
    ApiKey.DELETE_ACLS: _route("forwarding", 1, 3),
    ApiKey.CREATE_PARTITIONS: _route("forwarding", 0, 3),
    ApiKey.ELECT_LEADERS: _route("forwarding", 0, 2),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: _route("forwarding", 0, 1),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: _route("forwarding", 0, 0),
    ApiKey.ALTER_CLIENT_QUOTAS: _route("forwarding", 0, 1),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _route("forwarding", 0, 0),
    ApiKey.DESCRIBE_QUORUM: _route("forwarding", 0, 2),
    ApiKey.UPDATE_FEATURES: _route("forwarding", 0, 2),
    ApiKey.UNREGISTER_BROKER: _route("forwarding", 0, 0),
    ApiKey.ADD_RAFT_VOTER: _route("forwarding", 0, 1),
    ApiKey.REMOVE_RAFT_VOTER: _route("forwarding", 0, 0),
}
"""The APIs that a cluster broker forwards to the controller (`ottla.broker.api.forwarding`)."""

SPLIT = frozenset(
    {
        ApiKey.ALTER_CONFIGS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        ApiKey.CREATE_DELEGATION_TOKEN,
        ApiKey.RENEW_DELEGATION_TOKEN,
        ApiKey.EXPIRE_DELEGATION_TOKEN,
    }
)
"""The APIs that a cluster broker checks itself and forwards in part (`ottla.broker.api.config_changes`, `token_rules`)."""

ROUTES_OF_A_MEMBER: dict[int, Route] = {int(key): route for key, route in (ROUTES | FORWARDED).items()}
"""The APIs of a cluster broker."""

TELEMETRY: dict[ApiKey, Route] = {
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: _route("k71_get_telemetry_subscriptions", 0, 0),
    ApiKey.PUSH_TELEMETRY: _route("k72_push_telemetry", 0, 0),
}
"""Additional APIs with `client.telemetry.enable`."""


@cache
def served(*, in_cluster: bool, telemetry: bool) -> Mapping[int, Route]:
    """Return the APIs that a broker serves, in the order of the keys."""
    tables = (ROUTES, FORWARDED if in_cluster else {}, TELEMETRY if telemetry else {})
    routes = {int(key): route for table in tables for key, route in table.items()}
    return dict(sorted(routes.items()))


def load_all() -> None:
    """Import all handlers and the Produce fast path now."""
    for route in ROUTES.values():
        _ = route.handle
    import_module("ottla.broker.api.produce_lane")
