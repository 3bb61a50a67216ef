"""The records of `__cluster_metadata-0`: all kinds of Kafka 4.3 in all their versions (`common/metadata/*.json`).

How they stand in the log is said in `record_frames`, which version is written when in `record_versions`, what one does in `image_delta`.
Kafka's names; `kind` is its "api key". Ids are 16 raw bytes. A tagged field that has its default is not written.
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
"""`leader` of a partition that has none."""
LEADER_UNCHANGED: Final = -2
"""`PartitionChangeRecord.leader` of a change that leaves the leader, and with it the leader epoch, alone."""
RECOVERY_STATE_UNCHANGED: Final = -1


@wire_struct
class MetadataRecord(Message):
    """Base of the kinds of records."""


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
    """A broker has joined. `cordoned_log_dirs` is null until the broker has said it in a heartbeat."""

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
    """A broker's registration is gone."""

    broker_id: int = int32()
    broker_epoch: int = int64()


@wire_struct
class TopicRecord(MetadataRecord, versions="0", flexible="0+", api_key=2):
    """A topic exists; its partitions follow."""

    name: str = string()
    topic_id: bytes = uuid()


@wire_struct
class PartitionRecord(MetadataRecord, versions="0-2", flexible="0+", api_key=3):
    """A partition exists, with this state. `directories`: the log directory of each replica."""

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
    """A configuration was set, or with a null value deleted."""

    resource_type: int = int8()
    resource_name: str = string()
    name: str = string()
    value: str | None = string(nullable="0+", default=None)


@wire_struct
class PartitionChangeRecord(MetadataRecord, versions="0-2", flexible="0+", api_key=5):
    """What changed of a partition. null, and for `leader` -2, means: as before. Naming a leader raises the leader epoch."""

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
    """A broker is fenced. Read only: since 3.3 `BrokerRegistrationChangeRecord` is written."""

    id: int = int32()
    epoch: int = int64()


@wire_struct
class UnfenceBrokerRecord(MetadataRecord, versions="0", flexible="0+", api_key=8):
    """A broker is fenced no more. Read only: since 3.3 `BrokerRegistrationChangeRecord` is written."""

    id: int = int32()
    epoch: int = int64()


@wire_struct
class RemoveTopicRecord(MetadataRecord, versions="0", flexible="0+", api_key=9):
    """A topic, all its partitions and its configuration are gone."""

    topic_id: bytes = uuid()


@wire_struct
class DelegationTokenRecord(MetadataRecord, versions="0", flexible="0+", api_key=10):
    """A delegation token exists, or has another expiry. Its HMAC is derived from its id and the cluster's secret."""

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
    """The finalized level of a feature, 0: none. A metadata log opens with the one of `metadata.version`."""

    name: str = string()
    feature_level: int = int16()


@wire_struct
class QuotaEntity:
    """One part of what a quota is for: `user`, `client-id` or `ip`; a null name is the default of its type."""

    entity_type: str = string()
    entity_name: str | None = string(nullable="0+", default=None)


@wire_struct
class ClientQuotaRecord(MetadataRecord, versions="0", flexible="0+", api_key=14):
    """A quota of an entity was set, or with `remove` deleted."""

    entity: list[QuotaEntity] = array(QuotaEntity)
    key: str = string()
    value: float = float64()
    remove: bool = boolean()


@wire_struct
class ProducerIdsRecord(MetadataRecord, versions="0", flexible="0+", api_key=15):
    """All producer ids below `next_producer_id` belong to blocks that were given to a broker."""

    broker_id: int = int32()
    broker_epoch: int = int64(default=-1)
    next_producer_id: int = int64()


@wire_struct
class BrokerRegistrationChangeRecord(MetadataRecord, versions="0-3", flexible="0+", api_key=17):
    """What changed of a registration. `fenced`: 1 fenced, -1 unfenced, 0 as before; `in_controlled_shutdown`: 1 it is, 0 as before; no
    `log_dirs`, and null for `cordoned_log_dirs`: as before.
    """

    broker_id: int = int32()
    broker_epoch: int = int64()
    fenced: int = int8(tag=0)
    in_controlled_shutdown: int = int8("1+", tag=1)
    log_dirs: list[bytes] = array(uuid, "2+", tag=2)
    cordoned_log_dirs: list[bytes] | None = array(uuid, "3+", nullable="3+", default=None, tag=3)


@wire_struct
class AccessControlEntryRecord(MetadataRecord, versions="0", flexible="0+", api_key=18):
    """An ACL exists. The codes are those of CreateAcls."""

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
    """An ACL is gone."""

    id: bytes = uuid()


@wire_struct
class NoOpRecord(MetadataRecord, versions="0", flexible="0+", api_key=20):
    """Changes nothing; the controller writes it now and then so that followers see it alive."""


@wire_struct
class ZkMigrationStateRecord(MetadataRecord, versions="0", flexible="0+", api_key=21):
    """How far a migration from ZooKeeper was. Read only, and changes nothing."""

    zk_migration_state: int = int8()


@wire_struct
class RemoveUserScramCredentialRecord(MetadataRecord, versions="0", flexible="0+", api_key=22):
    """A user's SCRAM credential is gone."""

    name: str = string()
    mechanism: int = int8()


@wire_struct
class BeginTransactionRecord(MetadataRecord, versions="0", flexible="0+", api_key=23):
    """The records from here to the end of the transaction take effect together, or not at all (KIP-868)."""

    name: str | None = string(nullable="0+", default=None, tag=0)


@wire_struct
class EndTransactionRecord(MetadataRecord, versions="0", flexible="0+", api_key=24):
    """The records since the transaction's beginning take effect."""


@wire_struct
class AbortTransactionRecord(MetadataRecord, versions="0", flexible="0+", api_key=25):
    """The records since the transaction's beginning never were."""

    reason: str | None = string(nullable="0+", default=None, tag=0)


@wire_struct
class RemoveDelegationTokenRecord(MetadataRecord, versions="0", flexible="0+", api_key=26):
    """A delegation token is gone."""

    token_id: str = string()


@wire_struct
class RegisterControllerRecord(MetadataRecord, versions="0", flexible="0+", api_key=27):
    """A controller has joined (KIP-919)."""

    controller_id: int = int32()
    incarnation_id: bytes = uuid()
    zk_migration_ready: bool = boolean()
    end_points: list[Endpoint] = array(Endpoint)
    features: list[FeatureRange] = array(FeatureRange)


@wire_struct
class ClearElrRecord(MetadataRecord, versions="0", flexible="0+", api_key=28):
    """The partitions of a topic, for the empty name those of all topics, have no eligible leader replicas any more (KIP-966)."""

    topic_name: str = string()


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
    )
}
"""The kinds by their number. 6, 13 and 16 were never released."""
