"""What a log knows of a producer that is about to open a transaction in it (KIP-890; KAFKA VerificationStateEntry, VerificationGuard)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True, eq=False)
class VerificationGuard:
    """One question to a transaction's coordinator, from before it is asked until the first batch, or a marker, of that producer is written.

    It is equal to nothing but itself: an answer that comes when the transaction it was asked for has ended opens no other one.

    `adds` is true for producers of transaction version 2. `lowest_sequence` is the least one that was to be written meanwhile: none above
    it comes first, or the batch that is sent again would be out of order for ever.
    """

    started_ms: int
    epoch: int
    lowest_sequence: int
    adds: bool

    def saw(self, epoch: int, sequence: int) -> None:
        """One more batch waits for the same answer."""
        if epoch > self.epoch:
            self.epoch, self.lowest_sequence = epoch, sequence
        elif epoch == self.epoch:
            self.lowest_sequence = min(self.lowest_sequence, sequence)
