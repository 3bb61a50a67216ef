"""The features of the cluster and their levels (KAFKA: Feature, MetadataVersion): what is supported, what a new directory has.

Rules that hold inside:
- A directory keeps the levels that its metadata log says, whoever wrote it; records are written as its `metadata.version` wants them.
- A feature behind which nothing would stand here (share and streams groups, a quorum, other replicas to elect) is not supported. A member
  of a cluster registers all of Kafka's nevertheless, tells clients so, and refuses what they would let a client ask.
- A feature that the log does not name is at level 0, but for groups: those of the consumer protocol are served all the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

METADATA_VERSION: Final = "metadata.version"
GROUP_VERSION: Final = "group.version"
TRANSACTION_VERSION: Final = "transaction.version"

METADATA_LEVEL: Final = 30
"""4.3-IV0, the level of a new Kafka 4.3."""

GROUP_LEVEL: Final = 1
"""The consumer groups of KIP-848."""

SUPPORTED: Final[Mapping[str, tuple[int, int]]] = {
    METADATA_VERSION: (7, METADATA_LEVEL),
    GROUP_VERSION: (0, GROUP_LEVEL),
    TRANSACTION_VERSION: (0, 2),
}
"""By name the lowest and highest level; 7 is 3.3-IV3."""


REGISTERED: Final[Mapping[str, tuple[int, int]]] = {
    METADATA_VERSION: (7, METADATA_LEVEL),
    "eligible.leader.replicas.version": (0, 1),
    GROUP_VERSION: (0, GROUP_LEVEL),
    "kraft.version": (0, 1),
    "share.version": (0, 1),
    "streams.version": (0, 1),
    TRANSACTION_VERSION: (0, 2),
}
"""What a member of a cluster registers: the levels of a Kafka 4.3. A broker that knows less is let into no cluster of Kafka's defaults."""


class Features(NamedTuple):
    """What clients are told: by name the lowest and highest level that is supported, and the level in force. `epoch` is the offset of the
    last metadata record that counts, as Kafka's."""

    supported: Mapping[str, tuple[int, int]]
    finalized: Mapping[str, int]
    epoch: int


def new_levels(transaction_level: int) -> dict[str, int]:
    """The levels of a new directory, in the order of their records; level 0 is the absence of one."""
    levels = {METADATA_VERSION: METADATA_LEVEL, GROUP_VERSION: GROUP_LEVEL, TRANSACTION_VERSION: transaction_level}
    return {name: level for name, level in levels.items() if level}


def transaction_level(stored: Mapping[str, int]) -> int:
    """At which level transactions are served where a metadata log says `stored`."""
    return min(stored.get(TRANSACTION_VERSION, 0), SUPPORTED[TRANSACTION_VERSION][1])


def finalized(stored: Mapping[str, int]) -> dict[str, int]:
    """The levels in force of a metadata log that says `stored`."""
    return new_levels(transaction_level(stored)) | {name: stored[name] for name in (METADATA_VERSION, GROUP_VERSION) if name in stored}
