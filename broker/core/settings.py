"""The broker's settings: Kafka's names with `.` written `_`, typed, each declared once with its default, its validator and what it does.

`BROKER_KEYS` and the attributes of `BrokerSettings` are the same table, so a setting cannot be documented and not exist.
Reading the sources (file, environment, command line) is `settings_load`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
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
)
from ottla.broker.core.ip_overrides import IP_OVERRIDES
from ottla.broker.core.quorum_addresses import BOOTSTRAP_SERVERS, VOTERS
from ottla.broker.core.stored_settings import STORED_SETTINGS
from ottla.broker.core.topic_keys import CODECS, GZIP_LEVELS, LZ4_LEVELS, POLICIES, SEGMENT_BYTES, TIMESTAMP_TYPES, TOPIC_KEYS, ZSTD_LEVELS

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
"""How names begin that may be of TLS or SASL."""

_OF_MEMBERS: Mapping[str, Value] = {
    "offsets.topic.replication.factor": 3,
    "transaction.state.log.replication.factor": 3,
    "transaction.state.log.min.isr": 2,
}
"""Kafka's defaults, which one broker alone could not serve."""


def _key(kind: ConfigType, default: Value, doc: str, validator: Validator | None = None, **flags: bool) -> Any:
    """A field of BrokerSettings that is also a row of BROKER_KEYS, with its flags. Any, as dataclasses.field is typed by its default."""
    shown = kind is not ConfigType.PASSWORD
    return field(default=default, repr=shown, metadata={"type": kind, "default": default, "doc": doc, "validator": validator, **flags})


def _member(kind: ConfigType, default: Value, doc: str, validator: Validator | None = None, **flags: bool) -> Any:
    return _key(kind, default, doc, validator, member=True, **flags)


@dataclass(slots=True)
class BrokerSettings:
    """Every setting that the broker honours. Times are milliseconds and sizes bytes unless the name says otherwise; None is "not set"."""

    # --- who and where -------------------------------------------------------------------------------------------------------
    node_id: int = _key(_INT, 1, "The id of this broker.", _NOT_NEGATIVE, has_default=False)
    broker_id: int = _key(_INT, -1, "The older name of node.id; where both are given they are equal.")
    cluster_id: str | None = _key(
        _STRING,
        None,
        "Cluster id of a new data directory; by default a random one. An existing directory must agree. "
        "With process.roles a new directory is formatted for it, as by `ottla format`; without it nobody's directory is.",
    )
    broker_rack: str | None = _key(_STRING, None, "The rack that Metadata reports.")
    log_dir: tuple[str, ...] = _key(_LIST, ("ottla-data",), "The data directory.")
    log_dirs: tuple[str, ...] = _key(_LIST, (), "Kafka's list of data directories: here exactly one.", has_default=False)
    listeners: tuple[str, ...] = _key(
        _LIST, ("PLAINTEXT://127.0.0.1:9092",), "Where to listen: NAME://host:port, comma separated; port 0 takes a free one."
    )
    advertised_listeners: tuple[str, ...] = _key(
        _LIST, (), "What Metadata tells clients; by default the address that each client dialled.", has_default=False
    )
    listener_security_protocol_map: str = _key(
        _STRING, "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT", "Protocol of each listener name."
    )
    controller_listener_names: tuple[str, ...] = _member(
        _LIST,
        (),
        "Names of the controllers' listeners. A member of a cluster dials the first; on a controller they are its own.",
        has_default=False,
    )

    early_start_listeners: tuple[str, ...] = _member(
        _LIST, (), "Listeners of Kafka's that open before ACLs are read. Here each opens when they are.", has_default=False
    )

    # --- a member of a cluster -----------------------------------------------------------------------------------------------
    process_roles: tuple[str, ...] = _member(
        _LIST,
        (),
        "broker makes this a member of a cluster, controller the controller of one, and it may be both; without roles it is on its own.",
        each_of("broker", "controller"),
        has_default=False,
    )
    controller_quorum_bootstrap_servers: tuple[str, ...] = _member(
        _LIST, (), "Where to ask for the controllers first: host:port, comma separated.", BOOTSTRAP_SERVERS
    )
    controller_quorum_voters: tuple[str, ...] = _member(
        _LIST, (), "The controllers of a static quorum: id@host:port, comma separated.", VOTERS
    )
    controller_quorum_fetch_timeout_ms: int = _member(
        _INT, 2_000, "The controllers' leader is looked for when it did not answer a fetch for so long.", _NOT_NEGATIVE
    )
    controller_quorum_request_timeout_ms: int = _member(_INT, 2_000, "Longest wait for a controller's answer to a fetch.", _NOT_NEGATIVE)
    controller_quorum_retry_backoff_ms: int = _member(_INT, 20, "Pause before a controller is asked again.", _NOT_NEGATIVE)
    controller_quorum_fetch_max_bytes: int = _member(_INT, 1_048_576, "Most bytes of one fetch of metadata.", _POSITIVE)
    controller_quorum_fetch_snapshot_max_bytes: int = _member(_INT, 1_048_576, "Most bytes of one part of a snapshot.", _POSITIVE)
    controller_socket_timeout_ms: int = _member(_INT, 30_000, "Longest wait for a controller's answer to any other request.", _POSITIVE)
    inter_broker_listener_name: str | None = _member(_STRING, None, "The listener at which brokers dial each other.")
    security_inter_broker_protocol: str = _member(
        _STRING,
        "PLAINTEXT",
        "Where inter.broker.listener.name is not set: the listener of this protocol's name.",
        one_of("SSL", "SASL_PLAINTEXT", "PLAINTEXT", "SASL_SSL"),
    )
    request_timeout_ms: int = _member(_INT, 30_000, "Longest wait for another broker's answer.", _POSITIVE)
    socket_connection_setup_timeout_ms: int = _member(_LONG, 10_000, "Longest first wait for a connection to another node.", _POSITIVE)
    socket_connection_setup_timeout_max_ms: int = _member(_LONG, 30_000, "Longest of the later ones.", _POSITIVE)
    broker_heartbeat_interval_ms: int = _member(_INT, 2_000, "How often the controller hears of this broker.", _POSITIVE)
    initial_broker_registration_timeout_ms: int = _member(
        _INT, 60_000, "A broker that could not register for so long after its start stops.", _POSITIVE
    )
    controlled_shutdown_enable: bool = _member(_BOOLEAN, True, "Whether a stop lets the controller move what this broker leads.")
    log_dir_failure_timeout_ms: int = _member(
        _LONG, 30_000, "A broker that could not tell the controller of its failed directory for so long stops.", _POSITIVE
    )
    metadata_log_dir: str | None = _member(_STRING, None, "Where the metadata log lies: only the data directory, as by default.")
    metadata_log_segment_bytes: int = _member(_INT, 1_073_741_824, "Size of a segment of the metadata log.", at_least(8 * 1024 * 1024))
    metadata_log_segment_ms: int = _member(_LONG, 604_800_000, "Time after which a segment of it is closed.")
    metadata_max_retention_bytes: int = _member(_LONG, 104_857_600, "Size of log and snapshots above which the oldest go.")
    metadata_max_retention_ms: int = _member(_LONG, 604_800_000, "Age at which snapshots and the log before them go.")
    metadata_log_max_record_bytes_between_snapshots: int = _member(
        _LONG, 20_971_520, "Bytes of metadata after which a snapshot is made.", _POSITIVE
    )
    metadata_log_max_snapshot_interval_ms: int = _member(
        _LONG, 3_600_000, "Time after which one is made, if anything changed; 0 is never.", _NOT_NEGATIVE
    )

    # --- replication ---------------------------------------------------------------------------------------------------------
    replica_lag_time_max_ms: int = _member(_LONG, 30_000, "A follower so long behind leaves the in-sync set.", _POSITIVE)
    replica_fetch_max_bytes: int = _member(_INT, 1_048_576, "Bytes that a follower asks for of one partition.", _NOT_NEGATIVE)
    replica_fetch_min_bytes: int = _member(_INT, 1, "Bytes for which a follower's fetch waits.")
    replica_fetch_wait_max_ms: int = _member(_INT, 500, "How long it waits for them.")
    replica_fetch_response_max_bytes: int = _member(_INT, 10_485_760, "Bytes that a follower asks for in all.", _NOT_NEGATIVE)
    replica_fetch_backoff_ms: int = _member(_INT, 1_000, "A follower's pause after an error.", _NOT_NEGATIVE)
    replica_socket_timeout_ms: int = _member(_INT, 30_000, "Longest wait for a connection to a leader that is followed.")
    num_replica_fetchers: int = _member(_INT, 1, "Connections to each leader that is followed.", _POSITIVE, dynamic=True)
    replication_quota_window_num: int = _member(_INT, 11, "Windows over which the rate of a throttle is measured.", _POSITIVE)
    replication_quota_window_size_seconds: int = _member(_INT, 1, "Length of one of them.", _POSITIVE)
    replica_selector_class: str | None = _member(
        _STRING, None, "Which replica a consumer is sent to: by default the leader, with RackAwareReplicaSelector the nearest."
    )

    # --- connections and requests --------------------------------------------------------------------------------------------
    socket_request_max_bytes: int = _key(_INT, 104_857_600, "The largest request.", _POSITIVE)
    socket_listen_backlog_size: int = _key(_INT, 50, "Connections that wait to be accepted.", _POSITIVE)
    max_connections: int = _key(_INT, 2**31 - 1, "Connections at a time.", _NOT_NEGATIVE, dynamic=True)
    max_connections_per_ip: int = _key(_INT, 2**31 - 1, "Connections at a time from one address.", _NOT_NEGATIVE, dynamic=True)
    max_connections_per_ip_overrides: str = _key(
        _STRING, "", "Connections at a time from single addresses: address:count, comma separated.", IP_OVERRIDES, dynamic=True
    )
    max_connection_creation_rate: int = _key(
        _INT, 2**31 - 1, "New connections a second; those beyond it are accepted later.", _NOT_NEGATIVE, dynamic=True
    )
    connections_max_idle_ms: int = _key(_LONG, 600_000, "A connection silent for so long is closed.", any_of([exactly(-1), _POSITIVE]))
    queued_max_request_bytes: int = _key(
        _LONG, -1, "Bytes buffered for all connections together; -1 takes the built-in bound.", _OFF_OR_POSITIVE
    )

    quota_window_num: int = _key(_INT, 11, "Windows over which is measured what clients use.", _POSITIVE)
    quota_window_size_seconds: int = _key(_INT, 1, "Length of one of them.", _POSITIVE)
    controller_quota_window_num: int = _key(_INT, 11, "Windows over which is measured what the controller does for clients.", _POSITIVE)
    controller_quota_window_size_seconds: int = _key(_INT, 1, "Length of one of them.", _POSITIVE)

    # --- who may do what -----------------------------------------------------------------------------------------------------
    authorizer_class_name: str = _key(
        _STRING, "", f"{STANDARD_AUTHORIZER} lets clients do what ACLs allow; empty, everybody may do everything.", AUTHORIZERS
    )
    super_users: str = _key(_STRING, "", "Who may do everything: User:name, semicolon separated.", PRINCIPALS, internal=True)
    allow_everyone_if_no_acl_found: bool = _key(_BOOLEAN, False, "Whether a resource that no ACL is about is everybody's.", internal=True)

    # --- topics --------------------------------------------------------------------------------------------------------------
    auto_create_topics_enable: bool = _key(_BOOLEAN, True, "Create a topic when a client asks for it.")
    delete_topic_enable: bool = _key(_BOOLEAN, True, "Whether topics can be deleted.")
    num_partitions: int = _key(_INT, 1, "Partitions of a topic that is created without a number.", _POSITIVE)
    default_replication_factor: int = _key(_INT, 1, "Replicas of a topic that is created without a number.", _POSITIVE)

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
    log_retention_bytes: int = _key(_LONG, -1, "Default of retention.bytes.", at_least(-1), dynamic=True)
    log_retention_ms: int | None = _key(_LONG, None, "Default of retention.ms.", at_least(-1), dynamic=True)
    log_retention_minutes: int | None = _key(_INT, None, "Default of retention.ms, in minutes.", at_least(-1))
    log_retention_hours: int = _key(_INT, 168, "Default of retention.ms, in hours.", at_least(-1))
    log_segment_bytes: int = _key(_INT, 1_073_741_824, "Default of segment.bytes.", SEGMENT_BYTES, dynamic=True)
    internal_segment_bytes: int | None = _key(_INT, None, "Segments below log.segment.bytes' minimum; for tests.", _POSITIVE, internal=True)
    log_roll_ms: int | None = _key(_LONG, None, "Default of segment.ms.", _POSITIVE, dynamic=True)
    log_roll_hours: int = _key(_INT, 168, "Default of segment.ms, in hours.", _POSITIVE)
    log_roll_jitter_ms: int | None = _key(_LONG, None, "Default of segment.jitter.ms.", _NOT_NEGATIVE, dynamic=True)
    log_roll_jitter_hours: int = _key(_INT, 0, "Default of segment.jitter.ms, in hours.", _NOT_NEGATIVE)
    unclean_leader_election_enable: bool = _key(_BOOLEAN, False, "Default of unclean.leader.election.enable.", dynamic=True)

    # --- looking after logs --------------------------------------------------------------------------------------------------
    log_retention_check_interval_ms: int = _key(_LONG, 300_000, "How often retention looks.", _POSITIVE)
    log_initial_task_delay_ms: int = _key(_LONG, 30_000, "When retention looks first.", _NOT_NEGATIVE, internal=True)
    log_flush_offset_checkpoint_interval_ms: int = _key(
        _INT, 60_000, "How often recovery points and log start offsets are written.", _POSITIVE
    )
    replica_high_watermark_checkpoint_interval_ms: int = _key(_LONG, 5_000, "How often high watermarks are written.", _POSITIVE)
    log_cleaner_enable: bool = _key(_BOOLEAN, True, "Whether compacted topics are compacted.")
    log_cleaner_backoff_ms: int = _key(
        _LONG, 15_000, "How long the cleaner sleeps when there is nothing to do.", _NOT_NEGATIVE, dynamic=True
    )
    producer_id_expiration_ms: int = _key(_INT, 86_400_000, "A producer's state is forgotten after so long.", _POSITIVE, dynamic=True)
    producer_id_expiration_check_interval_ms: int = _key(
        _INT, 600_000, "How often producers are looked at for that.", _POSITIVE, internal=True
    )

    # --- fetch ---------------------------------------------------------------------------------------------------------------
    fetch_max_bytes: int = _key(_INT, 57_671_680, "The largest Fetch response, whatever the client asks.", at_least(1024))
    max_incremental_fetch_session_cache_slots: int = _key(_INT, 1000, "Fetch sessions kept.", _NOT_NEGATIVE)

    # --- consumer groups -----------------------------------------------------------------------------------------------------
    group_initial_rebalance_delay_ms: int = _key(_INT, 0, "How long a new group waits for more members (Kafka: 3000).", _NOT_NEGATIVE)
    group_coordinator_rebalance_protocols: tuple[str, ...] = _key(
        _LIST,
        ("classic", "consumer", "streams"),
        "The protocols of groups that are served, classic always among them; without consumer, KIP-848's is refused.",
        each_of("consumer", "classic", "share", "streams"),
    )
    group_min_session_timeout_ms: int = _key(_INT, 6_000, "Shortest session timeout that a member may ask.", _NOT_NEGATIVE)
    group_max_session_timeout_ms: int = _key(_INT, 1_800_000, "Longest session timeout that a member may ask.", _NOT_NEGATIVE)
    group_max_size: int = _key(_INT, 2**31 - 1, "Members of one classic group.", _POSITIVE)
    group_consumer_session_timeout_ms: int = _key(_INT, 45_000, "A member of a consumer group silent for so long is out.", _POSITIVE)
    group_consumer_min_session_timeout_ms: int = _key(_INT, 45_000, "Lowest value of the former.", _POSITIVE)
    group_consumer_max_session_timeout_ms: int = _key(_INT, 60_000, "Highest value of it.", _POSITIVE)
    group_consumer_heartbeat_interval_ms: int = _key(_INT, 5_000, "How often members of consumer groups are to be heard of.", _POSITIVE)
    group_consumer_min_heartbeat_interval_ms: int = _key(_INT, 5_000, "Lowest value of the former.", _POSITIVE)
    group_consumer_max_heartbeat_interval_ms: int = _key(_INT, 15_000, "Highest value of it.", _POSITIVE)
    group_consumer_assignment_interval_ms: int = _key(
        _INT, 1_000, "Least time between two assignments of one consumer group.", _NOT_NEGATIVE, dynamic=True
    )
    group_consumer_min_assignment_interval_ms: int = _key(_INT, 0, "Lowest value of the former.", _NOT_NEGATIVE)
    group_consumer_max_assignment_interval_ms: int = _key(_INT, 15_000, "Highest value of it.", _NOT_NEGATIVE)
    group_consumer_regex_refresh_interval_ms: int = _key(
        _INT, 600_000, "A consumer group's regular expressions are resolved again after so long.", at_least(10_000), internal=True
    )
    group_consumer_max_size: int = _key(_INT, 2**31 - 1, "Members of one consumer group.", _POSITIVE)
    group_consumer_assignors: tuple[str, ...] = _key(
        _LIST, ("uniform", "range"), "Assignors of consumer groups; the first is the default.", each_of("uniform", "range")
    )
    group_consumer_migration_policy: str = _key(
        _STRING,
        "bidirectional",
        "Which groups change between the classic and the consumer protocol while they have members.",
        one_of_in_any_case("bidirectional", "upgrade", "downgrade", "disabled"),
    )
    offset_metadata_max_bytes: int = _key(_INT, 4096, "Longest metadata of a committed offset.", _NOT_NEGATIVE)
    offsets_commit_timeout_ms: int = _key(_INT, 5_000, "Longest wait for a group's record to be committed.", _POSITIVE)
    offsets_load_buffer_size: int = _key(_INT, 5_242_880, "Bytes read at a time when offsets are loaded.", _POSITIVE)
    offsets_retention_minutes: int = _key(_INT, 10_080, "How long offsets of an empty group are kept.", _POSITIVE)
    offsets_retention_check_interval_ms: int = _key(_LONG, 600_000, "How often offsets are looked at for that.", _POSITIVE)
    offsets_topic_num_partitions: int = _key(_INT, 50, "Partitions of __consumer_offsets.", _POSITIVE)
    offsets_topic_replication_factor: int = _key(
        _SHORT, 1, "Replicas of __consumer_offsets (Kafka, and a member of a cluster: 3).", _POSITIVE
    )
    offsets_topic_segment_bytes: int = _key(_INT, 104_857_600, "Segment size of __consumer_offsets.", _POSITIVE)

    # --- delegation tokens (KIP-48) ------------------------------------------------------------------------------------------
    delegation_token_secret_key: str | None = _key(
        ConfigType.PASSWORD, None, "Proves delegation tokens; the same on all nodes. Without it there are none."
    )
    delegation_token_max_lifetime_ms: int = _key(_LONG, 604_800_000, "A token cannot be renewed beyond this.", _POSITIVE)
    delegation_token_expiry_time_ms: int = _key(_LONG, 86_400_000, "A token is good for so long, and again when renewed.", _POSITIVE)
    delegation_token_expiry_check_interval_ms: int = _key(_LONG, 3_600_000, "How often expired tokens are removed.", _POSITIVE)

    # --- clients' telemetry (KIP-714) ---------------------------------------------------------------------------------------
    client_telemetry_enable: bool = _key(
        _BOOLEAN,
        False,
        "Whether clients are asked for their metrics, as by a Kafka of which a metrics reporter implements ClientTelemetry.",
        internal=True,
    )
    telemetry_max_bytes: int = _key(_INT, 1_048_576, "The largest telemetry of one push, compressed or not.", _POSITIVE)

    # --- transactions --------------------------------------------------------------------------------------------------------
    transaction_max_timeout_ms: int = _key(_INT, 900_000, "Longest transaction timeout that a producer may ask.", _POSITIVE)
    transaction_state_log_num_partitions: int = _key(_INT, 50, "Partitions of __transaction_state.", _POSITIVE)
    transaction_state_log_replication_factor: int = _key(
        _SHORT, 1, "Replicas of __transaction_state (Kafka, and a member of a cluster: 3).", _POSITIVE
    )
    transaction_state_log_min_isr: int = _key(
        _INT, 1, "In-sync replicas of __transaction_state (Kafka, and a member of a cluster: 2).", _POSITIVE
    )
    transaction_state_log_segment_bytes: int = _key(_INT, 104_857_600, "Segment size of __transaction_state.", _POSITIVE)
    transactional_id_expiration_ms: int = _key(_INT, 604_800_000, "An unused transactional id is forgotten after so long.", _POSITIVE)
    transaction_version: int = _key(
        _INT, 2, "The finalized level of the feature transaction.version; from 2 on every transaction has its own epoch.", between(0, 2)
    )
    transaction_partition_verification_enable: bool = _key(
        _BOOLEAN, True, "Whether partitions are checked to belong to the transaction of versions 0 and 1 that writes there.", dynamic=True
    )
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int = _key(
        _INT, 10_000, "How often open transactions are looked at for their timeout.", _POSITIVE
    )
    transaction_remove_expired_transaction_cleanup_interval_ms: int = _key(
        _INT, 3_600_000, "How often transactional ids are looked at for their expiration.", _POSITIVE
    )

    explicit: Mapping[str, str] = field(default_factory=dict)
    """Kafka's name of each setting that somebody gave, and where ("file", "environment", "command line"); the others are defaults."""

    kept: Mapping[str, Value] = field(default_factory=dict)
    """What was given for settings of STORED_SETTINGS, which change nothing."""

    listener_connections: Mapping[str, int] = field(default_factory=dict)
    """What is in force of `listener.name.<name>.max.connections` and `….max.connection.creation.rate`, under these names."""

    secured: Mapping[str, Value] = field(default_factory=dict, repr=False)
    """What was given of TLS and SASL, under the full names (`ottla.broker.core.security_keys`)."""

    users: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Passwords of users who log in by any mechanism, beside those whom JAAS and the metadata know; for brokers that are tried out."""

    login_file: str | None = None
    """The file of JAAS that KAFKA_OPTS names."""
    kerberos_file: str | None = None
    """Kerberos' krb5.conf, if KAFKA_OPTS names one."""

    def __post_init__(self) -> None:
        if self.broker_id == BROKER_KEYS["broker.id"].default:
            self.broker_id = self.node_id

    @property
    def is_member(self) -> bool:
        """Whether this is a broker of a cluster."""
        return "broker" in self.process_roles

    @property
    def is_controller(self) -> bool:
        """Whether this is the controller of a cluster, be it a broker, too, or not."""
        return "controller" in self.process_roles

    def default(self, name: str) -> Value:
        """What the setting is where nobody gave one; KeyError as for `value`."""
        if self.is_member and name in _OF_MEMBERS:
            return _OF_MEMBERS[name]
        return (BROKER_KEYS.get(name) or STORED_SETTINGS[name]).default

    def value(self, name: str) -> Value:
        """Return the typed value of a setting by Kafka's name. Raises KeyError if it is in neither BROKER_KEYS nor STORED_SETTINGS."""
        if name not in BROKER_KEYS:
            return self.kept.get(name, STORED_SETTINGS[name].default)
        found: Value = getattr(self, attribute_of(name))
        return found

    def max_connections_of(self, listener: str) -> int:
        """How many connections a listener may have at a time (KAFKA: ListenerConnectionQuota)."""
        return self.listener_connections.get(f"listener.name.{listener.lower()}.max.connections", self.max_connections)

    def max_connection_creation_rate_of(self, listener: str) -> int:
        """How many new connections a second a listener accepts; that of the broker is another's."""
        return self.listener_connections.get(f"listener.name.{listener.lower()}.max.connection.creation.rate", 2**31 - 1)

    def set_value(self, name: str, text: str) -> None:
        """Change one setting while running; raises InvalidConfig. Who may call it for which key is the admin API's affair."""
        setattr(self, attribute_of(name), BROKER_KEYS[name].parse(text))


def attribute_of(name: str) -> str:
    """`log.segment.bytes` -> `log_segment_bytes`."""
    return name.replace(".", "_")


def listener_key(name: str) -> ConfigKey | None:
    """The key of `listener.name.<name>.max.connections` and `….max.connection.creation.rate`; None for any other."""
    match = _OF_A_LISTENER.fullmatch(name)
    return None if match is None else BROKER_KEYS[match[1]]._replace(name=name)


def lock_key(name: str) -> ConfigKey | None:
    """The key of a setting of TLS or SASL (`security_keys`); None for any other."""
    if not name.startswith(_SECURING):
        return None
    from ottla.broker.core.security_keys import security_key  # noqa: PLC0415 # who secures nothing does not pay for it

    return security_key(name)


def _broker_keys() -> dict[str, ConfigKey]:
    rows = {item.name.replace("_", "."): item.metadata for item in fields(BrokerSettings) if item.metadata}
    return {name: ConfigKey(name, **row) for name, row in rows.items()}


BROKER_KEYS: dict[str, ConfigKey] = _broker_keys()


def topic_defaults(settings: BrokerSettings) -> dict[str, Value]:
    """What a topic without overrides has: for each key the first synonym that is set, times its factor, else the key's own default.

    A negative synonym (retention of -1 hours) stays -1: it means "no limit" in every unit.
    """
    return {name: _topic_default(key, settings) for name, key in TOPIC_KEYS.items()}


def _topic_default(key: ConfigKey, settings: BrokerSettings) -> Value:
    for synonym in key.synonyms:
        value = settings.value(synonym.name)
        if value is None:
            continue
        if synonym.factor != 1 and isinstance(value, int) and value >= 0:
            return value * synonym.factor
        return value
    return key.default
