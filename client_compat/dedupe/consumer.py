"""The consuming half of the recipe: each record's effect at most once by its business key, and at least once by the group's offset.

Rules that hold here: the offset is committed only after every record before it is in the store; the store decides, not the offset, whether
an effect has happened. So a crash at any point leads to a second delivery and not to a second effect.
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
    """Where keys and effects live together. `Handle` is what an effect writes through: a connection or a pipeline."""

    async def once(self, key: str, effect: Callable[[Handle_co], Awaitable[None]]) -> bool:
        """Record `key` and run `effect` in one transaction, unless the key is there already. True: the effect happened now.

        When `effect` raises, neither it nor the key is kept.
        """


@dataclass(slots=True)
class Processed:
    """What became of the records of one step."""

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
    """Fetch some records, apply each once, commit the group's offset. Call it in a loop.

    The consumer must not commit by itself (`enable_auto_commit=False`). An exception of `effect` or `business_key` leaves the offset where
    it was: the record comes again.
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
