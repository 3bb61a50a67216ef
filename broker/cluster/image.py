"""The whole cluster metadata at one offset of the metadata log: the result of all records up to that offset (Kafka's `MetadataImage`).

Invariants:
- An image and all its parts are immutable. An `ImageDelta` makes the next image, which shares all unchanged parts with the previous one.
- Two images with the same contents are equal, whatever records produced them.
- An ACL, a SCRAM credential or a delegation token is stored as its record, because one record describes it completely.
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
"""The directory id of a replica whose log directory is unknown (Kafka's reserved `DirectoryId.MIGRATING`)."""
UNASSIGNED: Final = bytes(15) + b"\x01"
"""The directory id of a new replica whose broker has several log directories and has not chosen one yet (Kafka's
`DirectoryId.UNASSIGNED`)."""
LOST: Final = bytes(15) + b"\x02"
"""The directory id of a replica whose log directory has failed (Kafka's reserved `DirectoryId.LOST`)."""

NO_PRODUCER_ID: Final = -1

NONE: Final[Mapping[Any, Any]] = MappingProxyType({})
"""An empty mapping: the default of those parts of an image that are mappings."""


class ResourceType(IntEnum):
    """The type of resource that has a configuration (Kafka's `ConfigResource.Type`)."""

    UNKNOWN = 0
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


ConfigResource: TypeAlias = tuple[int, str]
"""A resource that has settings: its type (a `ResourceType`) and its name."""
QuotaTarget: TypeAlias = frozenset[tuple[str, str | None]]
"""The entity of a quota: pairs of an entity type (`user`, `client-id` or `ip`) and a name; the name None stands for the type's default
quota."""
ScramUser: TypeAlias = tuple[int, str]
"""The number of a SCRAM mechanism, and the name of a user who has a credential for it."""


RECOVERED: Final = 0
RECOVERING: Final = 1
"""The leader recovery state of a partition from an unclean election until the new leader proposes an ISR."""


class PartitionRegistration(NamedTuple):
    """A partition's replicas and leader. `leader_epoch` grows with each election, `partition_epoch` with each change.

    `directories` has one log directory id per entry of `replicas`; `elr` are the eligible leader replicas (KIP-966);
    `leader_recovery_state` is RECOVERED or RECOVERING.
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
    """A topic's metadata: its name, its id and, by index, the replicas and leaders of its partitions."""

    name: str
    topic_id: bytes
    partitions: Mapping[int, PartitionRegistration] = NONE

    @property
    def is_internal(self) -> bool:
        """Whether only the broker itself writes to the topic."""
        return is_internal(self.name)

    @property
    def replication_factor(self) -> int:
        """The replica count of the first partition, as in Kafka; 0 without partitions."""
        return len(self.partitions[0].replicas) if 0 in self.partitions else 0


class BrokerRegistration(NamedTuple):
    """A broker's latest registration with all changes since. `directories` are the ids of its log directories, in Kafka's order of ids.

    `cordoned_directories` is None until the broker has reported it (KIP-1066); `rack` is None for a broker without a rack.
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
        """Whether this broker may lead and be in an ISR: it is neither fenced nor shutting down."""
        return not self.fenced and not self.in_controlled_shutdown

    def has_online(self, directory: bytes) -> bool:
        """Return whether a replica of this broker in that log directory is online, as far as is known. An unknown or unassigned directory
        counts as online.

        Source: Kafka's `DirectoryId.isOnline`; KAFKA-16162 for a broker that registered no directories.
        """
        if directory in (MIGRATING, UNASSIGNED):
            return True
        return directory != LOST and (not self.directories or directory in self.directories)


class ControllerRegistration(NamedTuple):
    """A controller's latest registration. `listeners` and `features` (the supported feature levels) are mappings by name."""

    controller_id: int
    incarnation_id: bytes
    zk_migration_ready: bool
    listeners: Mapping[str, Endpoint]
    features: Mapping[str, FeatureRange]


class MetadataImage(NamedTuple):
    """The whole metadata of the cluster, by part. `MetadataImage()` is the image before the first record."""

    features: Mapping[str, int] = NONE
    """Finalized levels above 0, including `metadata.version` but not `kraft.version`, which belongs to Raft."""
    brokers: Mapping[int, BrokerRegistration] = NONE
    controllers: Mapping[int, ControllerRegistration] = NONE
    topics: Mapping[bytes, TopicImage] = NONE
    topic_ids: Mapping[str, bytes] = NONE
    """Topic ids by name."""
    configs: Mapping[ConfigResource, Mapping[str, str]] = NONE
    client_quotas: Mapping[QuotaTarget, Mapping[str, float]] = NONE
    next_producer_id: int = NO_PRODUCER_ID
    """The first producer id that is in no allocated block; -1 before the first block."""
    acls: Mapping[bytes, AccessControlEntryRecord] = NONE
    scram: Mapping[ScramUser, UserScramCredentialRecord] = NONE
    delegation_tokens: Mapping[str, DelegationTokenRecord] = NONE

    def topic(self, name: str) -> TopicImage | None:
        """Return the topic with that name, or None."""
        topic_id = self.topic_ids.get(name)
        return None if topic_id is None else self.topics[topic_id]

    @property
    def metadata_level(self) -> int:
        """The level of `metadata.version`. Raises KeyError before it is set."""
        return self.features[METADATA_VERSION]


EMPTY: Final = MetadataImage()
