"""The cluster's features: their supported levels, and their levels in a newly formatted directory (Kafka's Feature, MetadataVersion).

Invariants:
- A directory keeps the levels in its metadata log, whatever program wrote them; records are written for its `metadata.version`.
- SUPPORTED lacks the features that a standalone node does not implement (eligible leader replicas). The broker of a cluster nevertheless
  registers all of Kafka's features, reports them to clients, and rejects the requests that they would enable.
- A feature that the log does not name is at level 0, except `group.version`: consumer groups of KIP-848 are always served.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from ottla.broker.releases.release_behaviour import ReleaseBehaviour

METADATA_VERSION: Final = "metadata.version"
GROUP_VERSION: Final = "group.version"
TRANSACTION_VERSION: Final = "transaction.version"
SHARE_VERSION: Final = "share.version"
STREAMS_VERSION: Final = "streams.version"

METADATA_LEVEL: Final = 33
"""The metadata.version of a new Kafka 4.4 cluster: 4.4-IV2."""

GROUP_LEVEL: Final = 1
"""The level of group.version that enables the consumer groups of KIP-848."""

SHARE_LEVEL: Final = 1
"""The level of share.version that enables the share groups of KIP-932."""

DEAD_LETTER_LEVEL: Final = 2
"""The level of share.version that enables dead letter queues (KIP-1191)."""

STREAMS_LEVEL: Final = 1
"""The level of streams.version that enables the streams groups of KIP-1071."""

SUPPORTED: Final[Mapping[str, tuple[int, int]]] = {
    METADATA_VERSION: (7, METADATA_LEVEL),
    GROUP_VERSION: (0, GROUP_LEVEL),
    SHARE_VERSION: (0, DEAD_LETTER_LEVEL),
    STREAMS_VERSION: (0, STREAMS_LEVEL),
    TRANSACTION_VERSION: (0, 2),
}
"""The lowest and highest level of each feature that a standalone node supports. Level 7 of metadata.version is 3.3-IV3."""


REGISTERED: Final[Mapping[str, tuple[int, int]]] = {
    METADATA_VERSION: (7, METADATA_LEVEL),
    "eligible.leader.replicas.version": (0, 1),
    GROUP_VERSION: (0, GROUP_LEVEL),
    "kraft.version": (0, 1),
    SHARE_VERSION: (0, DEAD_LETTER_LEVEL),
    STREAMS_VERSION: (0, STREAMS_LEVEL),
    TRANSACTION_VERSION: (0, 2),
}
"""The lowest and highest level of each feature that a cluster broker registers with the controller: those of Kafka 4.4. With narrower
ranges the broker could not join a cluster with Kafka's defaults."""


class Features(NamedTuple):
    """The features as clients see them: supported ranges, and finalized levels in force. `epoch` is the offset of the last metadata record
    that was applied, as in Kafka."""

    supported: Mapping[str, tuple[int, int]]
    finalized: Mapping[str, int]
    epoch: int


def supported(like: ReleaseBehaviour) -> Mapping[str, tuple[int, int]]:
    """Return the lowest and highest level of each feature that a standalone node supports when it imitates the Kafka release `like`."""
    found = {name: like.levels(name, low, high) for name, (low, high) in SUPPORTED.items()}
    return {name: levels for name, levels in found.items() if levels is not None}


def new_levels(transaction_level: int, like: ReleaseBehaviour) -> dict[str, int]:
    """Return the feature levels with which a new data directory is formatted, in the order of their records, for a node that imitates the
    Kafka release `like`. `transaction_level` is the level of transaction.version. A feature at level 0 is omitted.
    """
    levels = {
        METADATA_VERSION: METADATA_LEVEL,
        GROUP_VERSION: GROUP_LEVEL,
        SHARE_VERSION: DEAD_LETTER_LEVEL,
        STREAMS_VERSION: STREAMS_LEVEL,
        TRANSACTION_VERSION: transaction_level,
    }
    levels = {name: level if name == TRANSACTION_VERSION else like.new_level(name, level) for name, level in levels.items()}
    return {name: level for name, level in levels.items() if level}


def transaction_level(stored: Mapping[str, int]) -> int:
    """Return the level of transaction.version at which transactions are served, given the feature levels in a metadata log."""
    return min(stored.get(TRANSACTION_VERSION, 0), SUPPORTED[TRANSACTION_VERSION][1])


def share_groups_enabled(stored: Mapping[str, int]) -> bool:
    """Return whether the feature levels in a metadata log allow share groups (share.version)."""
    return stored.get(SHARE_VERSION, 0) >= SHARE_LEVEL


def dead_letters_enabled(stored: Mapping[str, int]) -> bool:
    """Return whether the feature levels in a metadata log allow share groups to have dead letter queues (share.version)."""
    return stored.get(SHARE_VERSION, 0) >= DEAD_LETTER_LEVEL


def streams_groups_enabled(stored: Mapping[str, int]) -> bool:
    """Return whether the feature levels in a metadata log allow streams groups (streams.version)."""
    return stored.get(STREAMS_VERSION, 0) >= STREAMS_LEVEL


def finalized(stored: Mapping[str, int]) -> dict[str, int]:
    """Return the feature levels in force, by name, given the levels in a metadata log. A level of 0 is omitted, except that of
    `group.version`.
    """
    levels = {
        METADATA_VERSION: stored.get(METADATA_VERSION, METADATA_LEVEL),
        GROUP_VERSION: stored.get(GROUP_VERSION, GROUP_LEVEL),
        SHARE_VERSION: min(stored.get(SHARE_VERSION, 0), DEAD_LETTER_LEVEL),
        STREAMS_VERSION: min(stored.get(STREAMS_VERSION, 0), STREAMS_LEVEL),
        TRANSACTION_VERSION: transaction_level(stored),
    }
    return {name: level for name, level in levels.items() if level or name == GROUP_VERSION}
