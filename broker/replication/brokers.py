"""What metadata says of the brokers, as far as the leader of a partition asks: which incarnation lives, and who may join an in-sync set.

Source: KAFKA Partition.isReplicaIsrEligible, KRaftMetadataCache.getAliveBrokerEpoch; KIP-841 (fenced, shutting down), KIP-903 (epochs).
"""

from __future__ import annotations

from typing import Final, NamedTuple

UNKNOWN_BROKER_EPOCH: Final = -1


class BrokerStanding(NamedTuple):
    """A broker's registration. `epoch` is of its incarnation."""

    epoch: int
    fenced: bool = False
    shutting_down: bool = False
    """It has asked for a controlled shutdown."""


class Brokers:
    """One object for all replicas of a broker; whoever follows the metadata keeps it up to date."""

    __slots__ = ("own_epoch", "standings")

    def __init__(self, own_epoch: int = UNKNOWN_BROKER_EPOCH) -> None:
        self.own_epoch = own_epoch
        """Of this broker's own registration."""
        self.standings: dict[int, BrokerStanding] = {}
        """By node id; without those that are not registered."""

    def is_alive(self, node: int) -> bool:
        """Whether it is registered and not fenced."""
        standing = self.standings.get(node)
        return standing is not None and not standing.fenced

    def has_replaced(self, node: int, epoch: int) -> bool:
        """Whether a later incarnation lives than that of `epoch`: what the older one sent is of no account any more."""
        return epoch != UNKNOWN_BROKER_EPOCH and self.is_alive(node) and self.standings[node].epoch > epoch

    def may_join(self, node: int, epoch: int | None) -> bool:
        """Whether the incarnation that fetched may join an in-sync set. None: nobody has fetched; -1: whoever it was did not say."""
        standing = self.standings.get(node)
        if standing is None or standing.fenced or standing.shutting_down:
            return False
        return epoch in {UNKNOWN_BROKER_EPOCH, standing.epoch}
