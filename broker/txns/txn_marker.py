"""The transaction marker (commit or abort) that a transaction coordinator sends to a partition."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TxnMarker:
    """A transaction marker to write to a partition: it commits or aborts a producer's transaction there."""

    producer_id: int
    producer_epoch: int
    commit: bool
    coordinator_epoch: int
    transaction_version: int
