"""Stores business keys and the effects of their records in one Redis (with redis-py), with WATCH, MULTI and EXEC.

An effect queues commands and cannot read their results. Redis loses acknowledged writes in a crash unless `appendonly yes` and `appendfsync
always` are set, and in a failover unless the client uses WAIT; a key is then lost together with its effect.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from redis.asyncio import Redis
from redis.asyncio.client import Pipeline
from redis.exceptions import WatchError

ATTEMPTS_MAX = 100


class RedisStore:
    """A store of business keys and effects that any number of processes may use. Redis forgets a key `remember_s` seconds after it was
    stored; None: never."""

    def __init__(self, redis: Redis, prefix: str = "processed:", remember_s: int | None = None) -> None:
        self.redis = redis
        self._prefix = prefix
        self._remember_s = remember_s

    async def once(self, key: str, effect: Callable[[Pipeline], Awaitable[None]]) -> bool:
        """Store `key` and the commands that `effect` queues in one transaction, unless the key exists. Return whether the effect happened
        now.

        Retries if another client writes the key meanwhile. Raises WatchError if that happens in `ATTEMPTS_MAX` attempts and the key still
        does not exist.
        """
        name = self._prefix + key
        for attempt in range(ATTEMPTS_MAX):
            async with self.redis.pipeline(transaction=True) as pipe:
                await pipe.watch(name)
                if await pipe.exists(name):
                    return False
                pipe.multi()  # type: ignore[no-untyped-call]  # redis-py leaves it untyped
                pipe.set(name, 1, ex=self._remember_s)
                await effect(pipe)
                try:
                    await pipe.execute()
                except WatchError:
                    if attempt == ATTEMPTS_MAX - 1:
                        raise
                    continue
                return True
        raise AssertionError("the last attempt returns or raises")
