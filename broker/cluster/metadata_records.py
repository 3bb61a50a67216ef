"""The records of `__cluster_metadata-0`: all record types of Kafka 4.4 in all versions (`common/metadata/*.json`).

`record_frames` encodes them for the log, `record_versions` decides the version to write, `image_delta` their effect. The names are Kafka's,
in snake_case. The code calls a record's type number, Kafka's "api key", its kind. Ids are 16 raw bytes. A tagged field with its default
value is not written.
"""

from __future__ import annotations

from typing import Final

from ottla.protocol.schema import (
    Buffer,
    Message,
    array,
    boolean,
    bytes_,
    float64,
    int8,
    int16,
    int32,
    int64,
    string,
    uint16,
    uuid,
    wire_struct,
)

NO_LEADER: Final = -1
"""The value of the field `leader` if the partition has no leader."""
LEADER_UNCHANGED: Final = -2
"""The value of `PartitionChangeRecord.leader` in a change that keeps the leader and the leader epoch."""
RECOVERY_STATE_UNCHANGED: Final = -1


@wire_struct
class MetadataRecord(Message):
    """Base class of the records in the cluster's metadata log. Each subclass is one record type."""


@wire_struct
class Endpoint:
    """One listener of a registered broker or controller."""

    name: str = string()
    host: str = string()
    port: int = uint16()
    security_protocol: int = int16()


@wire_struct
class FeatureRange:
    """The levels of one feature that a registered broker or controller supports."""

    name: str = string()
    min_supported_version: int = int16()
    max_supported_version: int = int16()


@wire_struct
class RegisterBrokerRecord(MetadataRecord, versions="0-4", flexible="0+", api_key=0):
    """A broker has registered. `cordoned_log_dirs` is null until the broker has reported it in a heartbeat."""

    broker_id: int = int32()
    is_migrating_zk_broker: bool = boolean("2+")
    incarnation_id: bytes = uuid()
    broker_epoch: int = int64()
    end_points: list[Endpoint] = array(Endpoint)
    features: list[FeatureRange] = array(FeatureRange)
    rack: str | None = string(nullable="0+", default=None)
    fenced: bool = boolean(default=True)
    in_controlled_shutdown: bool = boolean("1+")
    log_dirs: list[bytes] = array(uuid, "3+", tag=0)
    cordoned_log_dirs: list[bytes] | None = array(uuid, "4+", nullable="4+", default=None, tag=1)


@wire_struct
class UnregisterBrokerRecord(MetadataRecord, versions="0", flexible="0+", api_key=1):
    """A broker's registration was removed."""

    broker_id: int = int32()
    broker_epoch: int = int64()


@wire_struct
class TopicRecord(MetadataRecord, versions="0", flexible="0+", api_key=2):
    """A topic was created. The records of its partitions follow."""

    name: str = string()
    topic_id: bytes = uuid()


@wire_struct
class PartitionRecord(MetadataRecord, versions="0-2", flexible="0+", api_key=3):
    """A partition was created with this state. `directories` has the log directory id of each replica, in the order of `replicas`."""

    partition_id: int = int32(default=-1)
    topic_id: bytes = uuid()
    replicas: list[int] = array(int32)
    isr: list[int] = array(int32)
    removing_replicas: list[int] = array(int32)
    adding_replicas: list[int] = array(int32)
    leader: int = int32(default=NO_LEADER)
    leader_recovery_state: int = int8(tag=0)
    leader_epoch: int = int32(default=-1)
    partition_epoch: int = int32(default=-1)
    directories: list[bytes] = array(uuid, "1+")
    eligible_leader_replicas: list[int] | None = array(int32, "2+", nullable="2+", default=None, tag=1)
    last_known_elr: list[int] | None = array(int32, "2+", nullable="2+", default=None, tag=2)


@wire_struct
class ConfigRecord(MetadataRecord, versions="0", flexible="0+", api_key=4):
    """A setting was set, or deleted if the value is null."""

    resource_type: int = int8()
    resource_name: str = string()
    name: str = string()
    value: str | None = string(nullable="0+", default=None)


@wire_struct
class PartitionChangeRecord(MetadataRecord, versions="0-2", flexible="0+", api_key=5):
    """The changed fields of a partition. null means unchanged; so does -2 for `leader`, and -1 for `leader_recovery_state`. Any other
    `leader`, even the same one, increments the leader epoch.
    """

    partition_id: int = int32(default=-1)
    topic_id: bytes = uuid()
    isr: list[int] | None = array(int32, nullable="0+", default=None, tag=0)
    leader: int = int32(default=LEADER_UNCHANGED, tag=1)
    replicas: list[int] | None = array(int32, nullable="0+", default=None, tag=2)
    removing_replicas: list[int] | None = array(int32, nullable="0+", default=None, tag=3)
    adding_replicas: list[int] | None = array(int32, nullable="0+", default=None, tag=4)
    leader_recovery_state: int = int8(default=RECOVERY_STATE_UNCHANGED, tag=5)
    directories: list[bytes] | None = array(uuid, "1+", nullable="1+", default=None, tag=8)
    eligible_leader_replicas: list[int] | None = array(int32, "2+", nullable="2+", default=None, tag=6)
    last_known_elr: list[int] | None = array(int32, "2+", nullable="2+", default=None, tag=7)


@wire_struct
class FenceBrokerRecord(MetadataRecord, versions="0", flexible="0+", api_key=7):
    """A broker was fenced. Read only: since 3.3 `BrokerRegistrationChangeRecord` is written instead."""

    id: int = int32()
    epoch: int = int64()


@wire_struct
class UnfenceBrokerRecord(MetadataRecord, versions="0", flexible="0+", api_key=8):
    """A broker was unfenced. Read only: since 3.3 `BrokerRegistrationChangeRecord` is written instead."""

    id: int = int32()
    epoch: int = int64()


@wire_struct
class RemoveTopicRecord(MetadataRecord, versions="0", flexible="0+", api_key=9):
    """A topic was deleted with all its partitions and settings."""

    topic_id: bytes = uuid()


@wire_struct
class DelegationTokenRecord(MetadataRecord, versions="0", flexible="0+", api_key=10):
    """A delegation token was created or has a new expiry time. Its HMAC is derived from its id and the cluster's secret."""

    owner: str = string()
    requester: str = string()
    renewers: list[str] = array(string)
    issue_timestamp: int = int64()
    max_timestamp: int = int64()
    expiration_timestamp: int = int64()
    token_id: str = string()


@wire_struct
class UserScramCredentialRecord(MetadataRecord, versions="0", flexible="0+", api_key=11):
    """A user's SCRAM credential. `mechanism`: 1 is SHA-256, 2 is SHA-512."""

    name: str = string()
    mechanism: int = int8()
    salt: Buffer = bytes_()
    stored_key: Buffer = bytes_()
    server_key: Buffer = bytes_()
    iterations: int = int32()


@wire_struct
class FeatureLevelRecord(MetadataRecord, versions="0", flexible="0+", api_key=12):
    """The finalized level of a feature; 0 removes it. A metadata log begins with the record of `metadata.version`."""

    name: str = string()
    feature_level: int = int16()


@wire_struct
class QuotaEntity:
    """One part of a quota's entity: `user`, `client-id` or `ip`; a null name is the type's default."""

    entity_type: str = string()
    entity_name: str | None = string(nullable="0+", default=None)


@wire_struct
class ClientQuotaRecord(MetadataRecord, versions="0", flexible="0+", api_key=14):
    """A quota of an entity was set, or deleted if `remove` is set."""

    entity: list[QuotaEntity] = array(QuotaEntity)
    key: str = string()
    value: float = float64()
    remove: bool = boolean()


@wire_struct
class ProducerIdsRecord(MetadataRecord, versions="0", flexible="0+", api_key=15):
    """All producer ids below `next_producer_id` are in blocks allocated to brokers."""

    broker_id: int = int32()
    broker_epoch: int = int64(default=-1)
    next_producer_id: int = int64()


@wire_struct
class BrokerRegistrationChangeRecord(MetadataRecord, versions="0-3", flexible="0+", api_key=17):
    """The changed fields of a broker registration.

    `fenced`: 1 fenced, -1 unfenced, 0 unchanged. `in_controlled_shutdown`: 1 shutting down, 0 unchanged. An empty `log_dirs` and null
    `cordoned_log_dirs` mean unchanged.
    """

    broker_id: int = int32()
    broker_epoch: int = int64()
    fenced: int = int8(tag=0)
    in_controlled_shutdown: int = int8("1+", tag=1)
    log_dirs: list[bytes] = array(uuid, "2+", tag=2)
    cordoned_log_dirs: list[bytes] | None = array(uuid, "3+", nullable="3+", default=None, tag=3)


@wire_struct
class AccessControlEntryRecord(MetadataRecord, versions="0", flexible="0+", api_key=18):
    """An ACL was created. The codes are those of CreateAcls."""

    id: bytes = uuid()
    resource_type: int = int8()
    resource_name: str = string()
    pattern_type: int = int8()
    principal: str = string()
    host: str = string()
    operation: int = int8()
    permission_type: int = int8()


@wire_struct
class RemoveAccessControlEntryRecord(MetadataRecord, versions="0", flexible="0+", api_key=19):
    """An ACL was deleted."""

    id: bytes = uuid()


@wire_struct
class NoOpRecord(MetadataRecord, versions="0", flexible="0+", api_key=20):
    """A record without effect. Kafka's controller writes one when no other record was written for a while, so that followers see that the
    controller is alive.
    """


@wire_struct
class ZkMigrationStateRecord(MetadataRecord, versions="0", flexible="0+", api_key=21):
    """The progress of a migration from ZooKeeper. Read only, and without effect."""

    zk_migration_state: int = int8()


@wire_struct
class RemoveUserScramCredentialRecord(MetadataRecord, versions="0", flexible="0+", api_key=22):
    """A user's SCRAM credential was deleted."""

    name: str = string()
    mechanism: int = int8()


@wire_struct
class BeginTransactionRecord(MetadataRecord, versions="0", flexible="0+", api_key=23):
    """Start of a metadata transaction: the records up to its end take effect together, or not at all (KIP-868)."""

    name: str | None = string(nullable="0+", default=None, tag=0)


@wire_struct
class EndTransactionRecord(MetadataRecord, versions="0", flexible="0+", api_key=24):
    """End of a metadata transaction: its records take effect."""


@wire_struct
class AbortTransactionRecord(MetadataRecord, versions="0", flexible="0+", api_key=25):
    """Abort of a metadata transaction: its records have no effect."""

    reason: str | None = string(nullable="0+", default=None, tag=0)


@wire_struct
class RemoveDelegationTokenRecord(MetadataRecord, versions="0", flexible="0+", api_key=26):
    """A delegation token was deleted."""

    token_id: str = string()


@wire_struct
class RegisterControllerRecord(MetadataRecord, versions="0", flexible="0+", api_key=27):
    """A controller has registered (KIP-919)."""

    controller_id: int = int32()
    incarnation_id: bytes = uuid()
    zk_migration_ready: bool = boolean()
    end_points: list[Endpoint] = array(Endpoint)
    features: list[FeatureRange] = array(FeatureRange)


@wire_struct
class ClearElrRecord(MetadataRecord, versions="0", flexible="0+", api_key=28):
    """The eligible leader replicas of a topic's partitions, or of all topics if the name is empty, were cleared (KIP-966)."""

    topic_name: str = string()


@wire_struct
class UnregisterControllerRecord(MetadataRecord, versions="0", flexible="0+", api_key=29):
    """A controller's registration was removed."""

    controller_id: int = int32()


KINDS: Final[dict[int, type[MetadataRecord]]] = {
    kind.API_KEY: kind
    for kind in (
        RegisterBrokerRecord,
        UnregisterBrokerRecord,
        TopicRecord,
        PartitionRecord,
        ConfigRecord,
        PartitionChangeRecord,
        FenceBrokerRecord,
        UnfenceBrokerRecord,
        RemoveTopicRecord,
        DelegationTokenRecord,
        UserScramCredentialRecord,
        FeatureLevelRecord,
        ClientQuotaRecord,
        ProducerIdsRecord,
        BrokerRegistrationChangeRecord,
        AccessControlEntryRecord,
        RemoveAccessControlEntryRecord,
        NoOpRecord,
        ZkMigrationStateRecord,
        RemoveUserScramCredentialRecord,
        BeginTransactionRecord,
        EndTransactionRecord,
        AbortTransactionRecord,
        RemoveDelegationTokenRecord,
        RegisterControllerRecord,
        ClearElrRecord,
        UnregisterControllerRecord,
    )
}
"""The record types by number, which Kafka calls the api key. Kafka never released the numbers 6, 13 and 16."""
