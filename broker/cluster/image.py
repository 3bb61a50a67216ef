"""The cluster's metadata at one offset, whole: what all records of the metadata log up to there say (Kafka's `MetadataImage`).

Rules that hold inside:
- An image never changes, nor does anything in it: an `ImageDelta` makes the next one, which shares with it every part that did not change.
- Two images that say the same are equal, whatever records made them.
- What a record says whole (an ACL, a credential, a token) is kept as the record.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeAlias

from ottla.broker.cluster.features import METADATA_VERSION
from ottla.broker.cluster.metadata_records import (
    AccessControlEntryRecord,
    DelegationTokenRecord,
    Endpoint,
    FeatureRange,
    UserScramCredentialRecord,
)
from ottla.broker.cluster.topic_names import is_internal

KRAFT_VERSION: Final = "kraft.version"
ELR_VERSION: Final = "eligible.leader.replicas.version"

MIGRATING: Final = bytes(16)
"""Where a replica lies of which that is not known. This and the next two are `DirectoryId`s of Kafka."""
UNASSIGNED: Final = bytes(15) + b"\x01"
"""Where a new replica lies whose broker has several directories and is yet to choose one."""
LOST: Final = bytes(15) + b"\x02"
"""Where a replica lay in a directory that failed."""

NO_PRODUCER_ID: Final = -1

NONE: Final[Mapping[Any, Any]] = MappingProxyType({})
"""A part of an image in which there is nothing."""


class ResourceType(IntEnum):
    """What a configuration belongs to (Kafka's `ConfigResource.Type`)."""

    UNKNOWN = 0
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


ConfigResource: TypeAlias = tuple[int, str]
"""The type and the name of what a configuration belongs to."""
QuotaTarget: TypeAlias = frozenset[tuple[str, str | None]]
"""What quotas are for: types with names, None for the default of a type."""
ScramUser: TypeAlias = tuple[int, str]
"""A mechanism and the user's name."""


RECOVERED: Final = 0
RECOVERING: Final = 1
"""The states of a leader: after an unclean election it is recovering, until it proposes an in-sync set."""


class PartitionRegistration(NamedTuple):
    """Who holds a partition. `leader_epoch` grows with each election, `partition_epoch` with each change of any kind.

    `directories` has an id for each of `replicas`; `leader_recovery_state` is RECOVERED or RECOVERING.
    """

    replicas: tuple[int, ...]
    directories: tuple[bytes, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int
    partition_epoch: int
    removing_replicas: tuple[int, ...] = ()
    adding_replicas: tuple[int, ...] = ()
    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()
    leader_recovery_state: int = 0


class TopicImage(NamedTuple):
    """One topic and its partitions by index."""

    name: str
    topic_id: bytes
    partitions: Mapping[int, PartitionRegistration] = NONE

    @property
    def is_internal(self) -> bool:
        """Whether the broker itself writes it."""
        return is_internal(self.name)

    @property
    def replication_factor(self) -> int:
        """Replicas of the first partition, as Kafka counts it; 0 while there is no partition."""
        return len(self.partitions[0].replicas) if 0 in self.partitions else 0


class BrokerRegistration(NamedTuple):
    """A broker as it registered last, and what changed since. `directories` is in Kafka's order of ids.

    `cordoned_directories` is None until the broker has said which, `rack` where it has none.
    """

    broker_id: int
    epoch: int
    incarnation_id: bytes
    listeners: Mapping[str, Endpoint]
    features: Mapping[str, FeatureRange]
    rack: str | None
    fenced: bool
    in_controlled_shutdown: bool
    is_migrating_zk_broker: bool
    directories: tuple[bytes, ...]
    cordoned_directories: tuple[bytes, ...] | None

    @property
    def is_active(self) -> bool:
        """Whether it may lead and be in sync: it is not fenced and does not shut down."""
        return not self.fenced and not self.in_controlled_shutdown

    def has_online(self, directory: bytes) -> bool:
        """Whether a replica that is said to lie there can be reached, as far as that is known (`DirectoryId.isOnline`; KAFKA-16162: the
        broker registered no directories)."""
        if directory in (MIGRATING, UNASSIGNED):
            return True
        return directory != LOST and (not self.directories or directory in self.directories)


class ControllerRegistration(NamedTuple):
    """A controller as it registered last."""

    controller_id: int
    incarnation_id: bytes
    zk_migration_ready: bool
    listeners: Mapping[str, Endpoint]
    features: Mapping[str, FeatureRange]


class MetadataImage(NamedTuple):
    """Everything, by part. Without arguments: the image before the first record."""

    features: Mapping[str, int] = NONE
    """Finalized levels above 0, that of `metadata.version` among them. `kraft.version` is Raft's, and never here."""
    brokers: Mapping[int, BrokerRegistration] = NONE
    controllers: Mapping[int, ControllerRegistration] = NONE
    topics: Mapping[bytes, TopicImage] = NONE
    topic_ids: Mapping[str, bytes] = NONE
    """The id of each topic by its name."""
    configs: Mapping[ConfigResource, Mapping[str, str]] = NONE
    client_quotas: Mapping[QuotaTarget, Mapping[str, float]] = NONE
    next_producer_id: int = NO_PRODUCER_ID
    """The first producer id of which no block was given out; -1 before there was one."""
    acls: Mapping[bytes, AccessControlEntryRecord] = NONE
    scram: Mapping[ScramUser, UserScramCredentialRecord] = NONE
    delegation_tokens: Mapping[str, DelegationTokenRecord] = NONE

    def topic(self, name: str) -> TopicImage | None:
        """The topic of that name, or None."""
        topic_id = self.topic_ids.get(name)
        return None if topic_id is None else self.topics[topic_id]

    @property
    def metadata_level(self) -> int:
        """The level of `metadata.version`. Raises KeyError before there is one."""
        return self.features[METADATA_VERSION]


EMPTY: Final = MetadataImage()
