"""Common mistakes that break exactly-once, by name. Each has the habit that causes it, the guarantee that it breaks, and the scenario of
`ottla verify` that exposes it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

Role = Literal["producer", "stream", "consumer", "share-consumer"]
Guarantee = Literal["complete", "once", "order", "committed", "whole"]


@dataclass(frozen=True, slots=True)
class Mistake:
    """A common mistake of a program with this `role`. `scenario`: the scenario of `ottla verify` that is designed to expose it. `also`:
    scenarios with several brokers that must expose it, too. Other scenarios may expose it."""

    name: str
    role: Role
    habit: str
    scenario: str
    breaks: Guarantee
    also: tuple[str, ...] = ()


MISTAKES: Final = (
    Mistake(
        "no-idempotence",
        "producer",
        "retries without enable.idempotence: a batch whose acknowledgement was lost is appended twice",
        "lost-ack",
        "once",
        ("leader-killed-before-ack",),
    ),
    Mistake(
        "acks-one",
        "producer",
        "acks=1: the leader alone has what it acknowledges, and nobody when it dies",
        "leader-killed-unreplicated",
        "complete",
        ("zombie-leader",),
    ),
    Mistake(
        "redo-in-doubt",
        "producer",
        "a commit that is not answered in time is taken for failed, and the transaction done again: it was committed",
        "coordinator-moved",
        "once",
    ),
    Mistake(
        "resend-on-timeout",
        "producer",
        "a send that takes too long is sent once more by the program: to the broker that is a new record",
        "late-ack",
        "once",
    ),
    Mistake(
        "fire-and-forget",
        "producer",
        "few retries, and nobody looks at what became of a send: the program ends well whatever was lost",
        "leader-unavailable",
        "complete",
        ("not-enough-replicas",),
    ),
    Mistake(
        "idempotence-only",
        "producer",
        "enable.idempotence without transactions: the next start is a new producer id, and begins from the beginning",
        "crash-restart",
        "once",
    ),
    Mistake(
        "random-transactional-id",
        "producer",
        "a transactional.id made up at each start: the predecessor is not fenced and its open transaction not ended",
        "zombie-restart",
        "once",
    ),
    Mistake(
        "ignore-aborts",
        "producer",
        "a transaction that failed is logged, and the program goes on with the next: its records are missing",
        "transaction-timeout",
        "complete",
    ),
    Mistake(
        "auto-commit",
        "stream",
        "offsets are committed by the consumer, beside the transaction: a crash between the two repeats or loses output",
        "crash-restart",
        "once",
    ),
    Mistake(
        "read-uncommitted",
        "stream",
        "isolation.level is left at read_uncommitted: what others aborted is processed",
        "calm",
        "committed",
    ),
    Mistake(
        "commit-before-processing",
        "consumer",
        "the offset is committed before the effect: a crash between the two loses the effect",
        "crash-restart",
        "complete",
    ),
    Mistake(
        "append-only-store",
        "consumer",
        "the effect is appended without a key or a position beside it: what is read again happens again",
        "crash-restart",
        "once",
    ),
    Mistake(
        "accept-before-processing",
        "share-consumer",
        "the record is accepted before the effect: a crash between the two loses the effect, and nobody gets the record again",
        "crash-restart",
        "complete",
    ),
)


def names(role: Role) -> list[str]:
    """Return the names of the mistakes that a program of this role (such as producer) can make."""
    return [mistake.name for mistake in MISTAKES if mistake.role == role]
