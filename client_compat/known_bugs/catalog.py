"""The known bugs by name: description, source of the report, and expected outcome."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from client_compat.known_bugs import epoch_bump, reordering, restart, torn_transaction
from client_compat.support.stage import Stage


@dataclass(frozen=True, slots=True)
class Bug:
    """A known bug. `play` reproduces it with a `Stage` (a running broker), prints each step, and returns whether the outcome is the one
    that `expected` describes. `source`: where the bug was reported. `transaction_version`: the broker's transaction.version."""

    name: str
    title: str
    source: str
    expected: str
    transaction_version: int
    play: Callable[[Stage], bool]


CATALOG = (
    Bug(
        "torn-transaction",
        "a delayed EndTxn ends the next transaction half-way",
        "KAFKA-17754; Jepsen's report on Bufstream 0.1.0",
        "transaction 2 was aborted, and half of it is read as committed",
        1,
        torn_transaction.torn,
    ),
    Bug(
        "torn-transaction-refused",
        "transaction version 2 refuses the delayed EndTxn",
        "KIP-890: every end of a transaction raises the producer's epoch",
        "PRODUCER_FENCED for the late request, and nothing of transaction 2 is read",
        2,
        torn_transaction.refused,
    ),
    Bug(
        "torn-transaction-old-client",
        "a client that speaks version 1 is torn on a cluster of version 2, too",
        "KAFKA-17754; the client's requests decide which version a transaction has",
        "transaction 2 was aborted, and half of it is read as committed",
        2,
        torn_transaction.torn_by_an_old_client,
    ),
    Bug(
        "epoch-bump",
        "an idempotent producer raises its epoch and stores a record twice",
        "librdkafka issue 4953, open; its fix is pull request 4972",
        "the same payload under epoch 0 and under epoch 1, and the client knows of one",
        2,
        epoch_bump.duplicates,
    ),
    Bug(
        "restart",
        "idempotence without transactions ends with the producer",
        "KIP-98: without a transactional id every instance gets a new producer id",
        "the same payload under two producer ids",
        2,
        restart.duplicates,
    ),
    Bug(
        "restart-with-transactions",
        "a transactional id closes that gap for readers of committed records",
        "KIP-98: InitProducerId raises the epoch and aborts what was left open",
        "stored twice, read once",
        2,
        restart.solved_by_transactions,
    ),
    Bug(
        "reordering",
        "retries reorder with idempotence off",
        "Kafka's documentation of max.in.flight.requests.per.connection",
        "0 2 3 4 1 with idempotence off, 0 1 2 3 4 with it on",
        2,
        reordering.reorders,
    ),
    Bug(
        "first-batch-lost",
        "an idempotent producer's first batch is acknowledged and lost",
        "a producer that a partition does not know may begin at any sequence: Kafka's ProducerAppendInfo; found here",
        "2 3 4 are stored; 1 is not, and was reported as delivered",
        2,
        reordering.loses_the_first,
    ),
)
