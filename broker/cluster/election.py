"""The newest leader election of the metadata quorum that a node knows of."""

from __future__ import annotations

from typing import Final, NamedTuple

NO_LEADER: Final = -1


class Election(NamedTuple):
    """The quorum's newest election, as stored in `quorum-state`: the newest known epoch and its leader, -1 if unknown."""

    epoch: int = 0
    leader_id: int = NO_LEADER
