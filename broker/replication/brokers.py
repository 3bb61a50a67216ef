"""Broker registrations, as far as a partition leader needs them: the current broker epochs, and which brokers may join an ISR.

Source: KAFKA Partition.isReplicaIsrEligible, KRaftMetadataCache.getAliveBrokerEpoch; KIP-841 (fenced, shutting down), KIP-903 (epochs).
"""

from __future__ import annotations

from typing import Final, NamedTuple

UNKNOWN_BROKER_EPOCH: Final = -1


class BrokerLiveness(NamedTuple):
    """The state of a broker's registration. `epoch` is the broker epoch, which changes with each incarnation (restart) of the broker."""

    epoch: int
    fenced: bool = False
    shutting_down: bool = False
    """Whether the broker has requested a controlled shutdown."""


class Brokers:
    """The registered brokers. All replicas of a broker share one instance, which the metadata publisher keeps up to date."""

    __slots__ = ("liveness", "own_epoch")

    def __init__(self, own_epoch: int = UNKNOWN_BROKER_EPOCH) -> None:
        self.own_epoch = own_epoch
        """The broker epoch of this broker's own registration."""
        self.liveness: dict[int, BrokerLiveness] = {}
        """Registrations by node id. Unregistered brokers have no entry."""

    def is_alive(self, node: int) -> bool:
        """Return whether the broker is registered and not fenced."""
        liveness = self.liveness.get(node)
        return liveness is not None and not liveness.fenced

    def has_replaced(self, node: int, epoch: int) -> bool:
        """Return whether the broker has registered again since it had the broker epoch `epoch`. Requests from the older incarnation must
        then be ignored."""
        return epoch != UNKNOWN_BROKER_EPOCH and self.is_alive(node) and self.liveness[node].epoch > epoch

    def may_join(self, node: int, epoch: int | None) -> bool:
        """Return whether the broker incarnation that fetched may join an ISR.

        `epoch` is the broker epoch of the last fetch: None if the replica has not fetched yet, -1 if the request carried no broker epoch.
        """
        liveness = self.liveness.get(node)
        if liveness is None or liveness.fenced or liveness.shutting_down:
            return False
        return epoch in {UNKNOWN_BROKER_EPOCH, liveness.epoch}
