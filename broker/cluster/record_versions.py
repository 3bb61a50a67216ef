"""The version in which a record is written at a level of `metadata.version`, so that every broker can read it (Kafka's `MetadataVersion`).

Invariants:
- A record type that does not exist yet at a level cannot be written: `version_of` raises NotWritable.
- A BrokerRegistrationChangeRecord is written in the version that introduced the fields which it changes, also at a level that has newer
  versions (`ReplicationControlManager`).
"""

from __future__ import annotations

from typing import Final

from ottla.broker.cluster.metadata_records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    BrokerRegistrationChangeRecord,
    ClearElrRecord,
    DelegationTokenRecord,
    EndTransactionRecord,
    MetadataRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    RemoveDelegationTokenRecord,
    RemoveUserScramCredentialRecord,
    UnregisterControllerRecord,
    UserScramCredentialRecord,
)

MIGRATION: Final = 8
SCRAM: Final = 11
TRANSACTIONS: Final = 13
DELEGATION_TOKENS: Final = 14
CONTROLLER_REGISTRATION: Final = 15
DIRECTORIES: Final = 17
ELIGIBLE_LEADER_REPLICAS: Final = 23
CORDONED_DIRECTORIES: Final = 30
CONTROLLER_UNREGISTRATION: Final = 33
"""The first metadata.version at which an UnregisterControllerRecord can be written. The constants above this one are the first
metadata.version for other record types, or for fields that were added to a record type."""

_PARTITION: Final = ((ELIGIBLE_LEADER_REPLICAS, 2), (DIRECTORIES, 1), (0, 0))

_WRITTEN: Final[dict[type[MetadataRecord], tuple[tuple[int, int], ...]]] = {
    RegisterBrokerRecord: ((CORDONED_DIRECTORIES, 4), (DIRECTORIES, 3), (MIGRATION, 2), (0, 1)),
    PartitionRecord: _PARTITION,
    PartitionChangeRecord: _PARTITION,
    ClearElrRecord: ((ELIGIBLE_LEADER_REPLICAS, 0),),
    RegisterControllerRecord: ((CONTROLLER_REGISTRATION, 0),),
    UnregisterControllerRecord: ((CONTROLLER_UNREGISTRATION, 0),),
    DelegationTokenRecord: ((DELEGATION_TOKENS, 0),),
    RemoveDelegationTokenRecord: ((DELEGATION_TOKENS, 0),),
    BeginTransactionRecord: ((TRANSACTIONS, 0),),
    EndTransactionRecord: ((TRANSACTIONS, 0),),
    AbortTransactionRecord: ((TRANSACTIONS, 0),),
    UserScramCredentialRecord: ((SCRAM, 0),),
    RemoveUserScramCredentialRecord: ((SCRAM, 0),),
}
"""For each record type with several versions, or which does not exist at every level: pairs of a metadata.version level and the version in
which the record is written from that level on, newest first. Every other type is written in version 0 at every level."""


class NotWritable(ValueError):
    """Raised for a record whose type or version does not exist at a level of `metadata.version`, which is a bug in the writing code."""


def version_of(record: MetadataRecord, metadata_level: int) -> int:
    """Return the version in which `record` is written at this level of metadata.version. Raises `NotWritable` if the level has no version
    that can express the record."""
    if isinstance(record, BrokerRegistrationChangeRecord):
        version = _change_version(record)
        needed = {2: DIRECTORIES, 3: CORDONED_DIRECTORIES}.get(version, 0)
        found = version if metadata_level >= needed else None
    else:
        written = _WRITTEN.get(type(record), ((0, 0),))
        found = next((version for since, version in written if metadata_level >= since), None)
    if found is None:
        raise NotWritable(f"{type(record).__name__} cannot be written at metadata.version {metadata_level}")
    return found


def _change_version(record: BrokerRegistrationChangeRecord) -> int:
    if record.cordoned_log_dirs is not None:
        return 3
    if record.log_dirs:
        return 2
    if record.in_controlled_shutdown:
        return 1
    return 0 if record.fenced else 2  # no other field has a change, so the directories have one, perhaps to an empty list
