"""The recipe's consumer: each business key has its effect (such as a change in a database) exactly once.

Rules:
- The offset is committed only after every earlier record is in the store (at least once).
- The store, not the offset, decides whether an effect has happened (at most once).
- A crash at any point therefore causes a second delivery, but no second effect.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, Protocol, TypeVar

from aiokafka import AIOKafkaConsumer, ConsumerRecord

POLL_MS: Final = 500
RECORDS_MAX: Final = 500

Handle = TypeVar("Handle")
Handle_co = TypeVar("Handle_co", covariant=True)


class Store(Protocol[Handle_co]):
    """A database that stores business keys and the effects of their records. `Handle` is the object through which an effect writes, such as
    a database connection or a Redis pipeline."""

    async def once(self, key: str, effect: Callable[[Handle_co], Awaitable[None]]) -> bool:
        """Record `key` and run `effect` in one transaction, unless the key exists. Returns whether the effect happened now.

        If `effect` raises, neither its changes nor the key are stored.
        """


@dataclass(slots=True)
class Processed:
    """How many records of one step were applied, and how many were repetitions of a key that the store already had."""

    applied: int = 0
    repeated: int = 0


async def step(
    consumer: AIOKafkaConsumer,
    store: Store[Handle],
    business_key: Callable[[ConsumerRecord], str],
    effect: Callable[[Handle, ConsumerRecord], Awaitable[None]],
    *,
    poll_ms: int = POLL_MS,
) -> Processed:
    """Fetch some records, apply each once, and commit the offsets; return how many were applied and how many were repeated. Call it in a
    loop.

    The consumer must have `enable_auto_commit=False`. If `effect` or `business_key` raises, the offset stays unchanged and the record is
    delivered again.
    """
    done = Processed()
    batches = await consumer.getmany(timeout_ms=poll_ms, max_records=RECORDS_MAX)
    for records in batches.values():
        for record in records:

            async def apply(handle: Handle, record: ConsumerRecord = record) -> None:
                await effect(handle, record)

            if await store.once(business_key(record), apply):
                done.applied += 1
            else:
                done.repeated += 1
    if batches:
        await consumer.commit()
    return done
