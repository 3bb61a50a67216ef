"""The broker's settings. Each is declared once: its name (Kafka's, with `.` written `_`), type, default, validator and documentation.

`BROKER_KEYS` is derived from the attributes of `BrokerSettings`, so every documented setting exists. `settings_load` reads the sources
(file, environment, command line).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from typing import Any

from ottla.broker.core.acl import AUTHORIZERS, PRINCIPALS, STANDARD_AUTHORIZER
from ottla.broker.core.config_keys import (
    INT64_MAX,
    ConfigKey,
    ConfigType,
    Validator,
    Value,
    any_of,
    at_least,
    between,
    each_of,
    exactly,
    one_of,
    one_of_in_any_case,
    render,
)
from ottla.broker.core.ip_overrides import IP_OVERRIDES
from ottla.broker.core.quorum_addresses import BOOTSTRAP_SERVERS, VOTERS
from ottla.broker.core.stored_settings import STORED_SETTINGS
from ottla.broker.core.topic_keys import (
    CODECS,
    DECOMPRESSED_BYTES,
    DECOMPRESSED_MAX,
    GZIP_LEVELS,
    LZ4_LEVELS,
    OLDER_TOPIC_KEYS,
    POLICIES,
    SEGMENT_BYTES,
    TIMESTAMP_TYPES,
    TOPIC_KEYS,
    ZSTD_LEVELS,
)
from ottla.broker.releases.release_behaviour import ReleaseBehaviour, default_behaviour

__all__ = ["BROKER_KEYS", "STORED_SETTINGS", "TOPIC_KEYS", "BrokerSettings", "topic_defaults"]

_BOOLEAN, _STRING, _INT, _LONG = ConfigType.BOOLEAN, ConfigType.STRING, ConfigType.INT, ConfigType.LONG
_SHORT, _DOUBLE, _LIST = ConfigType.SHORT, ConfigType.DOUBLE, ConfigType.LIST
_POSITIVE = at_least(1)
_NOT_NEGATIVE = at_least(0)
_OFF_OR_POSITIVE = any_of([exactly(-1), at_least(1)])

_OF_A_LISTENER = re.compile(r"listener\.name\.[^.]*\.(max\.connections|max\.connection\.creation\.rate)")

_SECURING = (
    *("ssl.", "sasl.", "listener.name.", "connection.failed.", "connections.max.reauth.", "principal.builder.", "security.providers"),
    "org.apache.kafka.sasl.",
)
"""Names of TLS and SASL settings begin with one of these prefixes. A name with such a prefix can still be another setting."""


def _key(kind: ConfigType, default: Value, doc: str, validator: Validator | None = None, **facts: Value) -> Any:
    """Return a dataclass field of BrokerSettings, from which an entry of BROKER_KEYS is made. `facts` are further attributes of the entry's
    ConfigKey. The return type is Any because dataclasses.field returns its default's type.
    """
    shown = kind is not ConfigType.PASSWORD
    return field(default=default, repr=shown, metadata={"type": kind, "default": default, "doc": doc, "validator": validator, **facts})


def _cluster(kind: ConfigType, default: Value, doc: str, validator: Validator | None = None, **facts: Value) -> Any:
    return _key(kind, default, doc, validator, cluster_only=True, **facts)


@dataclass(slots=True)
class BrokerSettings:
    """Every setting that the broker applies. Times are in milliseconds and sizes in bytes unless the name says otherwise; None is
    "not set".
    """

    # --- identity and addresses ----------------------------------------------------------------------------------------------
    node_id: int = _key(_INT, 1, "The id of this broker.", _NOT_NEGATIVE, has_default=False)
    broker_id: int = _key(_INT, -1, "The older name of node.id; if both are given they must be equal.")
    cluster_id: str | None = _key(
        _STRING,
        None,
        "Cluster id of a new data directory; by default a random one. An existing directory must have the same id. "
        "With process.roles, a new directory is formatted with this id, as by `ottla format`; without cluster.id it is not formatted.",
    )
    broker_rack: str | None = _key(_STRING, None, "The rack that Metadata reports.")
    log_dir: tuple[str, ...] = _key(_LIST, ("ottla-data",), "The data directory.")
    log_dirs: tuple[str, ...] = _key(_LIST, (), "List of data directories; exactly one is supported.", has_default=False)
    listeners: tuple[str, ...] = _key(
        _LIST, ("PLAINTEXT://127.0.0.1:9092",), "Addresses to listen on: NAME://host:port, comma separated; port 0 picks a free port."
    )
    advertised_listeners: tuple[str, ...] = _key(
        _LIST, (), "Addresses in Metadata responses; by default the address that each client connected to.", has_default=False
    )
    listener_security_protocol_map: str = _key(
        _STRING, "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT", "Security protocol of each listener name."
    )
    controller_listener_names: tuple[str, ...] = _cluster(
        _LIST,
        (),
        "Names of the controllers' listeners. A broker connects to the first; a controller listens on them.",
        has_default=False,
    )

    early_start_listeners: tuple[str, ...] = _cluster(
        _LIST, (), "Listeners that Kafka opens before it has read the ACLs. Here every listener opens after that.", has_default=False
    )

    # --- cluster node --------------------------------------------------------------------------------------------------------
    process_roles: tuple[str, ...] = _cluster(
        _LIST,
        (),
        "Roles in a cluster: broker, controller, or both; without roles this is a standalone node.",
        each_of("broker", "controller"),
        has_default=False,
    )
    controller_quorum_bootstrap_servers: tuple[str, ...] = _cluster(
        _LIST, (), "Addresses at which to find the controllers: host:port, comma separated.", BOOTSTRAP_SERVERS
    )
    controller_quorum_voters: tuple[str, ...] = _cluster(
        _LIST, (), "The controllers of a static quorum: id@host:port, comma separated.", VOTERS
    )
    controller_quorum_fetch_timeout_ms: int = _cluster(
        _INT, 2_000, "Time without a fetch response after which the quorum's leader is looked for again.", _NOT_NEGATIVE
    )
    controller_quorum_request_timeout_ms: int = _cluster(_INT, 2_000, "Longest wait for a controller's response to a fetch.", _NOT_NEGATIVE)
    controller_quorum_retry_backoff_ms: int = _cluster(_INT, 20, "Pause before a request to a controller is retried.", _NOT_NEGATIVE)
    controller_quorum_fetch_max_bytes: int = _cluster(_INT, 1_048_576, "Most bytes of one fetch of metadata.", _POSITIVE)
    controller_quorum_fetch_snapshot_max_bytes: int = _cluster(_INT, 1_048_576, "Most bytes of one part of a snapshot.", _POSITIVE)
    controller_socket_timeout_ms: int = _cluster(_INT, 30_000, "Longest wait for a controller's response to any other request.", _POSITIVE)
    inter_broker_listener_name: str | None = _cluster(_STRING, None, "The listener for connections between brokers.")
    security_inter_broker_protocol: str = _cluster(
        _STRING,
        "PLAINTEXT",
        "If inter.broker.listener.name is not set: the listener with this protocol's name.",
        one_of("SSL", "SASL_PLAINTEXT", "PLAINTEXT", "SASL_SSL"),
    )
    request_timeout_ms: int = _cluster(_INT, 30_000, "Longest wait for another broker's response.", _POSITIVE)
    socket_connection_setup_timeout_ms: int = _cluster(_LONG, 10_000, "Timeout of the first attempt to connect to another node.", _POSITIVE)
    socket_connection_setup_timeout_max_ms: int = _cluster(
        _LONG, 30_000, "Longest timeout of an attempt to connect to another node.", _POSITIVE
    )
    broker_heartbeat_interval_ms: int = _cluster(_INT, 2_000, "Interval of the heartbeats to the controller.", _POSITIVE)
    initial_broker_registration_timeout_ms: int = _cluster(
        _INT, 60_000, "A broker that cannot register within this time after its start stops.", _POSITIVE
    )
    controlled_shutdown_enable: bool = _cluster(_BOOLEAN, True, "Whether the controller moves this broker's leaderships before it stops.")
    log_dir_failure_timeout_ms: int = _cluster(
        _LONG, 30_000, "A broker that cannot report its failed directory to the controller within this time stops.", _POSITIVE
    )
    metadata_log_dir: str | None = _cluster(
        _STRING, None, "Directory of the metadata log; must be the data directory, which is the default."
    )
    metadata_log_segment_bytes: int = _cluster(_INT, 1_073_741_824, "Size of a segment of the metadata log.", at_least(8 * 1024 * 1024))
    metadata_log_segment_ms: int = _cluster(_LONG, 604_800_000, "Time after which a segment of the metadata log is closed.")
    metadata_max_retention_bytes: int = _cluster(
        _LONG, 104_857_600, "Size of the metadata log and snapshots above which the oldest are deleted."
    )
    metadata_max_retention_ms: int = _cluster(_LONG, 604_800_000, "Age at which snapshots and the log before them are deleted.")
    metadata_log_max_record_bytes_between_snapshots: int = _cluster(
        _LONG, 20_971_520, "Bytes of metadata after which a snapshot is written.", _POSITIVE
    )
    metadata_log_max_snapshot_interval_ms: int = _cluster(
        _LONG, 3_600_000, "Time after which a snapshot is written, if anything changed; 0 is never.", _NOT_NEGATIVE
    )

    # --- replication ---------------------------------------------------------------------------------------------------------
    replica_lag_time_max_ms: int = _cluster(_LONG, 30_000, "A follower that lags for this long is removed from the ISR.", _POSITIVE)
    replica_fetch_max_bytes: int = _cluster(_INT, 1_048_576, "Bytes that a follower fetches from one partition at a time.", _NOT_NEGATIVE)
    replica_fetch_min_bytes: int = _cluster(_INT, 1, "Minimum bytes of a response to a follower's fetch.")
    replica_fetch_wait_max_ms: int = _cluster(_INT, 500, "Longest wait of a follower's fetch for replica.fetch.min.bytes.")
    replica_fetch_response_max_bytes: int = _cluster(_INT, 10_485_760, "Most bytes of a response to a follower's fetch.", _NOT_NEGATIVE)
    replica_fetch_backoff_ms: int = _cluster(_INT, 1_000, "A follower's pause after an error.", _NOT_NEGATIVE)
    replica_socket_timeout_ms: int = _cluster(_INT, 30_000, "Longest wait for a connection to a leader.")
    num_replica_fetchers: int = _cluster(_INT, 1, "Fetchers, each with a connection, for each leader.", _POSITIVE, dynamic=True)
    replication_quota_window_num: int = _cluster(_INT, 11, "Windows over which the rate of throttled replication is measured.", _POSITIVE)
    replication_quota_window_size_seconds: int = _cluster(_INT, 1, "Length in seconds of one window of throttled replication.", _POSITIVE)
    replica_selector_class: str | None = _cluster(
        _STRING, None, "Selects the replica for a consumer: by default the leader, with RackAwareReplicaSelector the nearest."
    )

    # --- connections and requests --------------------------------------------------------------------------------------------
    socket_request_max_bytes: int = _key(_INT, 104_857_600, "The largest request.", _POSITIVE)
    socket_listen_backlog_size: int = _key(_INT, 50, "Connections that may wait to be accepted.", _POSITIVE)
    max_connections: int = _key(_INT, 2**31 - 1, "Maximum number of connections.", _NOT_NEGATIVE, dynamic=True)
    max_connections_per_ip: int = _key(_INT, 2**31 - 1, "Maximum number of connections from one address.", _NOT_NEGATIVE, dynamic=True)
    max_connections_per_ip_overrides: str = _key(
        _STRING, "", "Maximum number of connections from individual addresses: address:count, comma separated.", IP_OVERRIDES, dynamic=True
    )
    max_connection_creation_rate: int = _key(
        _INT, 2**31 - 1, "New connections a second; those beyond it are accepted later.", _NOT_NEGATIVE, dynamic=True
    )
    connections_max_idle_ms: int = _key(
        _LONG, 600_000, "A connection without requests for this long is closed.", any_of([exactly(-1), _POSITIVE])
    )
    queued_max_request_bytes: int = _key(_LONG, -1, "Bytes buffered for all connections; -1 selects the built-in bound.", _OFF_OR_POSITIVE)

    quota_window_num: int = _key(_INT, 11, "Windows over which clients' usage is measured.", _POSITIVE)
    quota_window_size_seconds: int = _key(_INT, 1, "Length in seconds of one window of clients' usage.", _POSITIVE)
    controller_quota_window_num: int = _key(_INT, 11, "Windows over which clients' controller mutations are measured.", _POSITIVE)
    controller_quota_window_size_seconds: int = _key(_INT, 1, "Length in seconds of one window of controller mutations.", _POSITIVE)

    # --- authorization -------------------------------------------------------------------------------------------------------
    authorizer_class_name: str = _key(
        _STRING, "", f"{STANDARD_AUTHORIZER} enforces ACLs; if empty, every request is authorized.", AUTHORIZERS
    )
    super_users: str = _key(
        _STRING, "", "Principals that are authorized for everything: User:name, semicolon separated.", PRINCIPALS, internal=True
    )
    allow_everyone_if_no_acl_found: bool = _key(_BOOLEAN, False, "Whether everyone may access a resource without ACLs.", internal=True)

    # --- topics --------------------------------------------------------------------------------------------------------------
    auto_create_topics_enable: bool = _key(_BOOLEAN, True, "Whether a client's request for an unknown topic creates it.")
    delete_topic_enable: bool = _key(_BOOLEAN, True, "Whether topics can be deleted.")
    num_partitions: int = _key(_INT, 1, "Partitions of a topic that is created without a partition count.", _POSITIVE)
    default_replication_factor: int = _key(_INT, 1, "Replicas of a topic that is created without a replication factor.", _POSITIVE)

    # --- defaults of topic configurations ------------------------------------------------------------------------------------
    log_cleanup_policy: tuple[str, ...] = _key(_LIST, ("delete",), "Default of cleanup.policy.", POLICIES, dynamic=True)
    compression_type: str = _key(_STRING, "producer", "Default of compression.type.", CODECS, dynamic=True)
    compression_gzip_level: int = _key(_INT, -1, "Default of compression.gzip.level.", GZIP_LEVELS, dynamic=True)
    compression_lz4_level: int = _key(_INT, 9, "Default of compression.lz4.level.", LZ4_LEVELS, dynamic=True)
    compression_zstd_level: int = _key(_INT, 3, "Default of compression.zstd.level.", ZSTD_LEVELS, dynamic=True)
    log_cleaner_delete_retention_ms: int = _key(_LONG, 86_400_000, "Default of delete.retention.ms.", _NOT_NEGATIVE, dynamic=True)
    log_cleaner_max_compaction_lag_ms: int = _key(_LONG, INT64_MAX, "Default of max.compaction.lag.ms.", _POSITIVE, dynamic=True)
    log_cleaner_min_compaction_lag_ms: int = _key(_LONG, 0, "Default of min.compaction.lag.ms.", _NOT_NEGATIVE, dynamic=True)
    log_cleaner_min_cleanable_ratio: float = _key(_DOUBLE, 0.5, "Default of min.cleanable.dirty.ratio.", between(0, 1), dynamic=True)
    log_segment_delete_delay_ms: int = _key(_LONG, 60_000, "Default of file.delete.delay.ms.", _NOT_NEGATIVE, dynamic=True)
    log_flush_interval_messages: int = _key(_LONG, INT64_MAX, "Default of flush.messages.", _POSITIVE, dynamic=True)
    log_flush_interval_ms: int | None = _key(_LONG, None, "Default of flush.ms.", _NOT_NEGATIVE, dynamic=True)
    log_index_interval_bytes: int = _key(_INT, 4096, "Default of index.interval.bytes.", _NOT_NEGATIVE, dynamic=True)
    log_index_size_max_bytes: int = _key(_INT, 10_485_760, "Default of segment.index.bytes.", at_least(4), dynamic=True)
    log_local_retention_bytes: int = _key(_LONG, -2, "Default of local.retention.bytes.", at_least(-2), dynamic=True)
    log_local_retention_ms: int = _key(_LONG, -2, "Default of local.retention.ms.", at_least(-2), dynamic=True)
    log_remote_copy_lag_bytes: int = _key(_LONG, -1, "Default of remote.copy.lag.bytes.", at_least(-1), dynamic=True)
    log_remote_copy_lag_ms: int = _key(_LONG, 0, "Default of remote.copy.lag.ms.", at_least(-1), dynamic=True)
    max_decompressed_message_bytes: int = _key(
        _INT, DECOMPRESSED_MAX, "Default of max.decompressed.message.bytes.", DECOMPRESSED_BYTES, dynamic=True
    )
    message_max_bytes: int = _key(_INT, 1_048_588, "Default of max.message.bytes.", _NOT_NEGATIVE, dynamic=True)
    log_message_timestamp_type: str = _key(_STRING, "CreateTime", "Default of message.timestamp.type.", TIMESTAMP_TYPES, dynamic=True)
    log_message_timestamp_before_max_ms: int = _key(
        _LONG, INT64_MAX, "Default of message.timestamp.before.max.ms.", _NOT_NEGATIVE, dynamic=True
    )
    log_message_timestamp_after_max_ms: int = _key(
        _LONG, 3_600_000, "Default of message.timestamp.after.max.ms.", _NOT_NEGATIVE, dynamic=True
    )
    min_insync_replicas: int = _key(_INT, 1, "Default of min.insync.replicas.", _POSITIVE, dynamic=True)
    log_preallocate: bool = _key(_BOOLEAN, False, "Default of preallocate.", dynamic=True)
    log_retention_bytes: int = _key(_LONG, -1, "Default of retention.bytes.", dynamic=True)
    log_retention_ms: int | None = _key(_LONG, None, "Default of retention.ms.", at_least(-1), dynamic=True)
    log_retention_minutes: int | None = _key(_INT, None, "Default of retention.ms, in minutes.", at_least(-1))
    log_retention_hours: int = _key(_INT, 168, "Default of retention.ms, in hours.", at_least(-1))
    log_segment_bytes: int = _key(_INT, 1_073_741_824, "Default of segment.bytes.", SEGMENT_BYTES, dynamic=True)
    internal_segment_bytes: int | None = _key(
        _INT, None, "Segment size below log.segment.bytes' minimum; for tests.", _POSITIVE, internal=True
    )
    log_roll_ms: int | None = _key(_LONG, None, "Default of segment.ms.", _POSITIVE, dynamic=True)
    log_roll_hours: int = _key(_INT, 168, "Default of segment.ms, in hours.", _POSITIVE)
    log_roll_jitter_ms: int | None = _key(_LONG, None, "Default of segment.jitter.ms.", _NOT_NEGATIVE, dynamic=True)
    log_roll_jitter_hours: int = _key(_INT, 0, "Default of segment.jitter.ms, in hours.", _NOT_NEGATIVE)
    unclean_leader_election_enable: bool = _key(_BOOLEAN, False, "Default of unclean.leader.election.enable.", dynamic=True)

    # --- retention and cleaning of logs --------------------------------------------------------------------------------------
    log_retention_check_interval_ms: int = _key(_LONG, 300_000, "Interval of the retention checks.", _POSITIVE)
    log_initial_task_delay_ms: int = _key(_LONG, 30_000, "Delay of the first retention check.", _NOT_NEGATIVE, internal=True)
    log_flush_offset_checkpoint_interval_ms: int = _key(
        _INT, 60_000, "Interval at which recovery points and log start offsets are written.", _POSITIVE
    )
    replica_high_watermark_checkpoint_interval_ms: int = _key(_LONG, 5_000, "Interval at which high watermarks are written.", _POSITIVE)
    log_cleaner_enable: bool = _key(_BOOLEAN, True, "Whether compacted topics are compacted.")
    log_cleaner_backoff_ms: int = _key(_LONG, 15_000, "Pause of the log cleaner when no log needs cleaning.", _NOT_NEGATIVE, dynamic=True)
    producer_id_expiration_ms: int = _key(
        _INT, 86_400_000, "Time after which an idle producer's state is removed.", _POSITIVE, dynamic=True
    )
    producer_id_expiration_check_interval_ms: int = _key(
        _INT, 600_000, "Interval of the checks for expired producer state.", _POSITIVE, internal=True
    )

    # --- fetch ---------------------------------------------------------------------------------------------------------------
    fetch_max_bytes: int = _key(_INT, 57_671_680, "The largest Fetch response, whatever the client asks for.", at_least(1024))
    max_incremental_fetch_session_cache_slots: int = _key(_INT, 1000, "Maximum number of fetch sessions.", _NOT_NEGATIVE)

    # --- consumer groups -----------------------------------------------------------------------------------------------------
    group_initial_rebalance_delay_ms: int = _key(_INT, 0, "How long a new group waits for more members (Kafka: 3000).", _NOT_NEGATIVE)
    group_coordinator_rebalance_protocols: tuple[str, ...] = _key(
        _LIST,
        ("classic", "consumer", "streams"),
        "The enabled group protocols; classic is required; without consumer or streams, the requests of that protocol are rejected.",
        each_of("consumer", "classic", "share", "streams"),
    )
    group_min_session_timeout_ms: int = _key(_INT, 6_000, "Shortest session timeout that a member may request.", _NOT_NEGATIVE)
    group_max_session_timeout_ms: int = _key(_INT, 1_800_000, "Longest session timeout that a member may request.", _NOT_NEGATIVE)
    group_max_size: int = _key(_INT, 2**31 - 1, "Maximum number of members of a classic group.", _POSITIVE)
    group_consumer_session_timeout_ms: int = _key(_INT, 45_000, "Session timeout of a consumer group's members.", _POSITIVE)
    group_consumer_min_session_timeout_ms: int = _key(_INT, 45_000, "Lowest session timeout of a consumer group.", _POSITIVE)
    group_consumer_max_session_timeout_ms: int = _key(_INT, 60_000, "Highest session timeout of a consumer group.", _POSITIVE)
    group_consumer_heartbeat_interval_ms: int = _key(_INT, 5_000, "Heartbeat interval of a consumer group's members.", _POSITIVE)
    group_consumer_min_heartbeat_interval_ms: int = _key(_INT, 5_000, "Lowest heartbeat interval of a consumer group.", _POSITIVE)
    group_consumer_max_heartbeat_interval_ms: int = _key(_INT, 15_000, "Highest heartbeat interval of a consumer group.", _POSITIVE)
    group_consumer_assignment_interval_ms: int = _key(
        _INT, 1_000, "Minimum time between two assignments of a consumer group.", _NOT_NEGATIVE, dynamic=True
    )
    group_consumer_min_assignment_interval_ms: int = _key(_INT, 0, "Lowest assignment interval of a consumer group.", _NOT_NEGATIVE)
    group_consumer_max_assignment_interval_ms: int = _key(_INT, 15_000, "Highest assignment interval of a consumer group.", _NOT_NEGATIVE)
    group_consumer_regex_refresh_interval_ms: int = _key(
        _INT, 600_000, "Interval at which a consumer group's regular expressions are resolved again.", at_least(10_000), internal=True
    )
    group_consumer_max_size: int = _key(_INT, 2**31 - 1, "Maximum number of members of a consumer group.", _POSITIVE)
    group_consumer_assignors: tuple[str, ...] = _key(
        _LIST, ("uniform", "range"), "Assignors of consumer groups; the first is the default.", each_of("uniform", "range")
    )
    group_consumer_migration_policy: str = _key(
        _STRING,
        "bidirectional",
        "Whether groups with members may switch between the classic and the consumer protocol.",
        one_of_in_any_case("bidirectional", "upgrade", "downgrade", "disabled"),
    )
    offset_metadata_max_bytes: int = _key(_INT, 4096, "Longest metadata of a committed offset.", _NOT_NEGATIVE)
    offsets_commit_timeout_ms: int = _key(_INT, 5_000, "Longest wait until a group's record is committed.", _POSITIVE)
    offsets_load_buffer_size: int = _key(_INT, 5_242_880, "Bytes read at a time when offsets are loaded.", _POSITIVE)
    offsets_retention_minutes: int = _key(_INT, 10_080, "Time for which an empty group's offsets are retained.", _POSITIVE)
    offsets_retention_check_interval_ms: int = _key(_LONG, 600_000, "Interval of the checks for expired offsets.", _POSITIVE)
    offsets_topic_num_partitions: int = _key(_INT, 50, "Partitions of __consumer_offsets.", _POSITIVE)
    offsets_topic_replication_factor: int = _key(
        _SHORT, 1, "Replicas of __consumer_offsets (default in a cluster: 3).", _POSITIVE, in_cluster=3
    )
    offsets_topic_segment_bytes: int = _key(_INT, 104_857_600, "Segment size of __consumer_offsets.", _POSITIVE)

    # --- streams groups (KIP-1071) -------------------------------------------------------------------------------------------
    group_streams_session_timeout_ms: int = _key(_INT, 45_000, "Session timeout of a streams group's members.", _POSITIVE)
    group_streams_min_session_timeout_ms: int = _key(_INT, 45_000, "Lowest session timeout of a streams group.", _POSITIVE)
    group_streams_max_session_timeout_ms: int = _key(_INT, 60_000, "Highest session timeout of a streams group.", _POSITIVE)
    group_streams_heartbeat_interval_ms: int = _key(_INT, 5_000, "Heartbeat interval of a streams group's members.", _POSITIVE)
    group_streams_min_heartbeat_interval_ms: int = _key(_INT, 5_000, "Lowest heartbeat interval of a streams group.", _POSITIVE)
    group_streams_max_heartbeat_interval_ms: int = _key(_INT, 15_000, "Highest heartbeat interval of a streams group.", _POSITIVE)
    group_streams_max_size: int = _key(_INT, 2**31 - 1, "Maximum number of members of a streams group.", _POSITIVE)
    group_streams_num_standby_replicas: int = _key(_INT, 0, "Standby tasks of each stateful task of a streams group.", _NOT_NEGATIVE)
    group_streams_max_standby_replicas: int = _key(_INT, 2, "Highest number of standby tasks of a streams group.", _NOT_NEGATIVE)
    group_streams_initial_rebalance_delay_ms: int = _key(_INT, 3_000, "How long a new streams group waits for more members.", _NOT_NEGATIVE)
    group_streams_rack_aware_assignment_tags: tuple[str, ...] = _key(
        _LIST, (), "Keys of client tags that the members of a streams group must have."
    )
    group_streams_assignment_interval_ms: int = _key(
        _INT, 1_000, "Minimum time between two assignments of a streams group.", _NOT_NEGATIVE, dynamic=True
    )
    group_streams_min_assignment_interval_ms: int = _key(_INT, 0, "Lowest assignment interval of a streams group.", _NOT_NEGATIVE)
    group_streams_max_assignment_interval_ms: int = _key(_INT, 15_000, "Highest assignment interval of a streams group.", _NOT_NEGATIVE)

    # --- share groups (KIP-932) ----------------------------------------------------------------------------------------------
    group_share_session_timeout_ms: int = _key(_INT, 45_000, "Session timeout of a share group's members.", _POSITIVE)
    group_share_min_session_timeout_ms: int = _key(_INT, 45_000, "Lowest session timeout of a share group.", _POSITIVE)
    group_share_max_session_timeout_ms: int = _key(_INT, 60_000, "Highest session timeout of a share group.", _POSITIVE)
    group_share_heartbeat_interval_ms: int = _key(_INT, 5_000, "Heartbeat interval of a share group's members.", _POSITIVE)
    group_share_min_heartbeat_interval_ms: int = _key(_INT, 5_000, "Lowest heartbeat interval of a share group.", _POSITIVE)
    group_share_max_heartbeat_interval_ms: int = _key(_INT, 15_000, "Highest heartbeat interval of a share group.", _POSITIVE)
    group_share_assignment_interval_ms: int = _key(
        _INT, 1_000, "Minimum time between two assignments of a share group.", _NOT_NEGATIVE, dynamic=True
    )
    group_share_min_assignment_interval_ms: int = _key(_INT, 0, "Lowest assignment interval of a share group.", _NOT_NEGATIVE)
    group_share_max_assignment_interval_ms: int = _key(_INT, 15_000, "Highest assignment interval of a share group.", _NOT_NEGATIVE)
    group_share_max_size: int = _key(_INT, 200, "Maximum number of members of a share group.", between(1, 1_000))
    group_share_initialize_retry_interval_ms: int = _key(
        _INT, 30_000, "Time after which the state of a new share partition is initialized again, if that failed.", _POSITIVE, internal=True
    )
    group_share_max_share_sessions: int = _key(_INT, 2_000, "Maximum number of share sessions.", _POSITIVE)
    group_share_record_lock_duration_ms: int = _key(
        _INT, 30_000, "How long an acquired record stays locked for a share group's member.", between(1_000, 3_600_000)
    )
    group_share_min_record_lock_duration_ms: int = _key(_INT, 15_000, "Lowest lock duration of a share group.", between(1_000, 30_000))
    group_share_max_record_lock_duration_ms: int = _key(_INT, 60_000, "Highest lock duration of a share group.", between(30_000, 3_600_000))
    group_share_delivery_count_limit: int = _key(_INT, 5, "Maximum delivery attempts of a record in a share group.", between(2, 10))
    group_share_min_delivery_count_limit: int = _key(_INT, 2, "Lowest delivery limit of a share group.", between(2, 5))
    group_share_max_delivery_count_limit: int = _key(_INT, 10, "Highest delivery limit of a share group.", between(5, 25))
    group_share_partition_max_record_locks: int = _key(
        _INT, 2_000, "Maximum record locks of a share group in one partition.", between(100, 10_000)
    )
    group_share_min_partition_max_record_locks: int = _key(
        _INT, 100, "Lowest number of record locks of a share group.", between(100, 2_000)
    )
    group_share_max_partition_max_record_locks: int = _key(
        _INT, 4_000, "Highest number of record locks of a share group.", between(2_000, 10_000)
    )
    errors_deadletterqueue_auto_create_topics_enable: bool = _key(
        _BOOLEAN, False, "Whether the dead letter queue of a share group is created, if it does not exist.", dynamic=True
    )
    errors_deadletterqueue_topic_name_prefix: str = _key(
        _STRING, "dlq.", "How the names of dead letter queues begin. Empty: any name is allowed.", dynamic=True
    )
    share_coordinator_load_buffer_size: int = _key(_INT, 5_242_880, "Bytes read at a time when share state is loaded.", _POSITIVE)
    share_coordinator_snapshot_update_records_per_snapshot: int = _key(
        _INT, 500, "Number of updates of a share partition's state between two snapshots of it.", between(0, 500)
    )
    share_coordinator_write_timeout_ms: int = _key(_INT, 5_000, "Longest wait until share state is committed.", _POSITIVE)
    share_coordinator_cold_partition_snapshot_interval_ms: int = _key(
        _INT, 300_000, "Time after which the state of an idle share partition is written as a snapshot.", _POSITIVE, internal=True
    )
    share_coordinator_state_topic_num_partitions: int = _key(_INT, 50, "Partitions of __share_group_state.", _POSITIVE)
    share_coordinator_state_topic_replication_factor: int = _key(
        _SHORT, 1, "Replicas of __share_group_state (default in a cluster: 3).", _POSITIVE, in_cluster=3
    )
    share_coordinator_state_topic_min_isr: int = _key(
        _SHORT, 1, "Minimum in-sync replicas of __share_group_state (default in a cluster: 2).", _POSITIVE, in_cluster=2
    )
    share_coordinator_state_topic_segment_bytes: int = _key(_INT, 104_857_600, "Segment size of __share_group_state.", _POSITIVE)
    share_coordinator_state_topic_prune_interval_ms: int = _key(
        _INT, 300_000, "Interval at which superseded records of __share_group_state are deleted.", _POSITIVE, internal=True
    )

    # --- delegation tokens (KIP-48) ------------------------------------------------------------------------------------------
    delegation_token_secret_key: str | None = _key(
        ConfigType.PASSWORD, None, "Secret that signs delegation tokens, the same on all nodes. Without it delegation tokens are disabled."
    )
    delegation_token_max_lifetime_ms: int = _key(
        _LONG, 604_800_000, "Maximum lifetime of a token; it cannot be renewed beyond it.", _POSITIVE
    )
    delegation_token_expiry_time_ms: int = _key(
        _LONG, 86_400_000, "Time until a token expires, from its creation or last renewal.", _POSITIVE
    )
    delegation_token_expiry_check_interval_ms: int = _key(_LONG, 3_600_000, "Interval at which expired tokens are removed.", _POSITIVE)

    # --- clients' telemetry (KIP-714) ---------------------------------------------------------------------------------------
    client_telemetry_enable: bool = _key(
        _BOOLEAN,
        False,
        "Whether clients may push metrics, as with a Kafka metrics reporter that implements ClientTelemetry.",
        internal=True,
    )
    telemetry_max_bytes: int = _key(_INT, 1_048_576, "The largest payload of one telemetry push, compressed or not.", _POSITIVE)

    # --- transactions --------------------------------------------------------------------------------------------------------
    transaction_max_timeout_ms: int = _key(_INT, 900_000, "Longest transaction timeout that a producer may request.", _POSITIVE)
    transaction_state_log_num_partitions: int = _key(_INT, 50, "Partitions of __transaction_state.", _POSITIVE)
    transaction_state_log_replication_factor: int = _key(
        _SHORT, 1, "Replicas of __transaction_state (default in a cluster: 3).", _POSITIVE, in_cluster=3
    )
    transaction_state_log_min_isr: int = _key(
        _INT, 1, "Minimum in-sync replicas of __transaction_state (default in a cluster: 2).", _POSITIVE, in_cluster=2
    )
    transaction_state_log_segment_bytes: int = _key(_INT, 104_857_600, "Segment size of __transaction_state.", _POSITIVE)
    transactional_id_expiration_ms: int = _key(_INT, 604_800_000, "Time after which an unused transactional id expires.", _POSITIVE)
    transaction_version: int = _key(
        _INT, 2, "Finalized level of the feature transaction.version; from level 2 on every transaction has its own epoch.", between(0, 2)
    )
    transaction_partition_verification_enable: bool = _key(
        _BOOLEAN, True, "Whether a transactional write is checked to belong to an ongoing transaction (levels 0 and 1).", dynamic=True
    )
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int = _key(
        _INT, 10_000, "Interval of the checks for timed-out transactions.", _POSITIVE
    )
    transaction_remove_expired_transaction_cleanup_interval_ms: int = _key(
        _INT, 3_600_000, "Interval of the checks for expired transactional ids.", _POSITIVE
    )

    release_behaviour: ReleaseBehaviour = field(default_factory=default_behaviour)
    """The Apache Kafka release that this broker imitates, with its defaults and its other behaviour towards clients."""

    explicit: Mapping[str, str] = field(default_factory=dict)
    """The settings that were given, by Kafka's name, each with its source (such as "file", "environment" or "command line"). All other
    settings have their defaults.
    """

    stored: Mapping[str, Value] = field(default_factory=dict)
    """The given values of Kafka settings that this broker only stores (STORED_SETTINGS), by name; most have no effect."""

    listener_connections: Mapping[str, int] = field(default_factory=dict)
    """The values of `listener.name.<name>.max.connections` and `….max.connection.creation.rate`, under these names."""

    security: Mapping[str, Value] = field(default_factory=dict, repr=False)
    """The given TLS and SASL settings, by full name, with any listener prefix (`ottla.broker.core.security_keys`)."""

    users: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Passwords by user name, for development brokers. These users can authenticate in addition to those in JAAS files and metadata."""

    read_only: bool = False
    """Whether clients may only read, as on a copy of an earlier state that is only inspected. Consumer groups may still commit offsets."""

    login_file: str | None = None
    """The path of the JAAS file, if KAFKA_OPTS names one (java.security.auth.login.config)."""
    kerberos_file: str | None = None
    """The Kerberos configuration file (krb5.conf), if KAFKA_OPTS names one."""

    def __post_init__(self) -> None:
        if self.broker_id == BROKER_KEYS["broker.id"].default:
            self.broker_id = self.node_id

    @property
    def is_cluster_broker(self) -> bool:
        """Whether this node is a broker of a cluster: process.roles contains `broker`."""
        return "broker" in self.process_roles

    @property
    def is_controller(self) -> bool:
        """Whether this node is a cluster's controller: process.roles contains `controller`. It may be a broker, too."""
        return "controller" in self.process_roles

    def default(self, name: str) -> Value:
        """Return the value that the setting `name` has on this node if it is not given: the default of the Kafka release that the node
        imitates (`release_behaviour`). Raises KeyError for an unknown name.
        """
        key = BROKER_KEYS.get(name) or STORED_SETTINGS[name]
        value = key.default if key.in_cluster is None or not self.is_cluster_broker else key.in_cluster
        own = render(value)
        text = self.release_behaviour.default(name, own)
        # Without its validator, because that is the newest release's and may reject an older release's default.
        return value if text == own or text is None else key._replace(validator=None).parse(text)

    def value(self, name: str) -> Value:
        """Return the typed value of the setting `name` (Kafka's spelling). Raises KeyError for a name that is in neither
        BROKER_KEYS nor STORED_SETTINGS.
        """
        if name not in BROKER_KEYS:
            return self.stored[name] if name in self.stored else self.default(name)
        found: Value = getattr(self, attribute_of(name))
        return found

    def max_connections_of(self, listener: str) -> int:
        """Return the maximum number of connections to the listener with this name (KAFKA ListenerConnectionQuota)."""
        return self.listener_connections.get(f"listener.name.{listener.lower()}.max.connections", self.max_connections)

    def max_connection_creation_rate_of(self, listener: str) -> int:
        """Return the maximum number of new connections a second of a listener. The broker-wide rate is a separate limit."""
        return self.listener_connections.get(f"listener.name.{listener.lower()}.max.connection.creation.rate", 2**31 - 1)


def attribute_of(name: str) -> str:
    """Return the name of the attribute of BrokerSettings that holds a setting: `log_segment_bytes` for `log.segment.bytes`."""
    return name.replace(".", "_")


def listener_key(name: str) -> ConfigKey | None:
    """Return the definition (`ConfigKey`) of `listener.name.<name>.max.connections` or `….max.connection.creation.rate`; None for any other
    name."""
    match = _OF_A_LISTENER.fullmatch(name)
    return None if match is None else BROKER_KEYS[match[1]]._replace(name=name)


def security_setting(name: str) -> ConfigKey | None:
    """Return the definition (`ConfigKey`) of a TLS or SASL setting, from `security_keys`; None for any other name."""
    if not name.startswith(_SECURING):
        return None
    from ottla.broker.core.security_keys import security_key  # noqa: PLC0415 # a broker without TLS and SASL does not load it

    return security_key(name)


def _broker_keys() -> dict[str, ConfigKey]:
    rows = {item.name.replace("_", "."): item.metadata for item in fields(BrokerSettings) if item.metadata}
    return {name: ConfigKey(name, **row) for name, row in rows.items()}


BROKER_KEYS: dict[str, ConfigKey] = _broker_keys()


def topic_defaults(settings: BrokerSettings) -> dict[str, Value]:
    """Return the configuration of a topic without overrides. The value of each topic key comes from the first of its synonyms (broker
    settings) that is set, times the synonym's factor; otherwise it is the key's default.

    A negative synonym (retention of -1 hours) stays -1, because it means "no limit" in every unit.
    """
    return {name: _topic_default(key, settings) for name, key in {**TOPIC_KEYS, **topic_keys(settings)}.items()}


def topic_keys(settings: BrokerSettings) -> Mapping[str, ConfigKey]:
    """Return the settings that a topic can have, by name, in the Kafka release that the broker imitates (`release_behaviour`)."""
    return _topic_keys_of(settings.release_behaviour)


@cache
def _topic_keys_of(behaviour: ReleaseBehaviour) -> Mapping[str, ConfigKey]:
    known = behaviour.table.topic_settings
    older = {name: key._replace(default=known[name]) for name, key in OLDER_TOPIC_KEYS.items() if name in known}
    return {name: key for name, key in TOPIC_KEYS.items() if not behaviour.lacks_of_topics(name)} | older


def _topic_default(key: ConfigKey, settings: BrokerSettings) -> Value:
    for synonym in key.synonyms:
        value = settings.value(synonym.name)
        if value is None:
            continue
        if synonym.factor != 1 and isinstance(value, int) and value >= 0:
            return value * synonym.factor
        return value
    return key.default
