"""The state of a transaction's verification in one partition (KIP-890; Kafka's VerificationStateEntry, VerificationGuard)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True, eq=False)
class VerificationGuard:
    """One question to a transaction's coordinator, valid until that producer's first batch, or a marker, is written.

    A guard is equal only to itself: a response that arrives after the end of its transaction cannot open another one.

    `adds` is true for producers of transaction version 2. `lowest_sequence` is the least sequence of the waiting batches: no batch above it
    may be written first, because the one with the least sequence would then be out of order for ever.
    """

    started_ms: int
    epoch: int
    lowest_sequence: int
    adds: bool

    def saw(self, epoch: int, sequence: int) -> None:
        """Note another batch that waits for the same response."""
        if epoch > self.epoch:
            self.epoch, self.lowest_sequence = epoch, sequence
        elif epoch == self.epoch:
            self.lowest_sequence = min(self.lowest_sequence, sequence)
