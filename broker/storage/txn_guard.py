"""The state of a transaction's verification in one partition (KIP-890; Kafka's VerificationStateEntry, VerificationGuard)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True, eq=False)
class VerificationGuard:
    """The state of one request to the transaction coordinator that verifies a producer's transaction for one partition (KIP-890). The guard
    is valid until the transaction's first batch, or a marker, is written.

    A guard is equal only to itself, so a response that arrives after the end of its transaction cannot begin another transaction.

    `supports_epoch_bump` is true for a producer of transaction version 2, whose epoch increases with each transaction. The request to the
    coordinator then also adds the partition to the transaction. `lowest_sequence` is the lowest sequence of the batches that wait for the
    response. No batch with a higher sequence may be written first, because the batch with the lowest sequence would then always be rejected
    as out of order.
    """

    started_ms: int
    epoch: int
    lowest_sequence: int
    supports_epoch_bump: bool

    def add_waiting_batch(self, epoch: int, sequence: int) -> None:
        """Record another batch that waits for the coordinator's response: update `lowest_sequence`, or start again with this batch if its
        epoch is later (Kafka's VerificationStateEntry.maybeUpdateLowestSequenceAndEpoch)."""
        if epoch > self.epoch:
            self.epoch, self.lowest_sequence = epoch, sequence
        elif epoch == self.epoch:
            self.lowest_sequence = min(self.lowest_sequence, sequence)
