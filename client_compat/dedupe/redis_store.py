"""Keys and effects in one Redis (redis-py): WATCH, then MULTI and EXEC.

The effect queues commands and cannot read what they will do. Redis loses acknowledged writes at a crash unless `appendonly yes` and
`appendfsync always` are set, and at a failover unless the client waits (WAIT): then a key is forgotten together with its effect.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from redis.asyncio import Redis
from redis.asyncio.client import Pipeline
from redis.exceptions import WatchError

ATTEMPTS_MAX = 100


class RedisStore:
    """Any number of processes. `remember_s`: how long a key is known, in seconds (None: for ever)."""

    def __init__(self, redis: Redis, prefix: str = "processed:", remember_s: int | None = None) -> None:
        self.redis = redis
        self._prefix = prefix
        self._remember_s = remember_s

    async def once(self, key: str, effect: Callable[[Pipeline], Awaitable[None]]) -> bool:
        """See `Store.once`. Raises WatchError when others take the key's place `ATTEMPTS_MAX` times without keeping it."""
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
