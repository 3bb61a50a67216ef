"""Stores business keys and the effects of their records in one PostgreSQL database (with psycopg 3)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from psycopg import AsyncConnection

SCHEMA = """
    CREATE TABLE IF NOT EXISTS processed (
        business_key text PRIMARY KEY,
        at timestamptz NOT NULL DEFAULT now()
    )
"""


class PostgresStore:
    """A store of business keys and effects that any number of processes may use.

    If two processes insert the same key, the second waits for the first one's commit and then finds the key.
    """

    def __init__(self, connection: AsyncConnection[Any]) -> None:
        self.connection = connection

    @classmethod
    async def connect(cls, conninfo: str) -> PostgresStore:
        """Connect, create the table if it does not exist, and return the store. `conninfo` has libpq's format. Raises
        psycopg.OperationalError if the server cannot be reached."""
        connection = await AsyncConnection.connect(conninfo, autocommit=True)
        await connection.execute(SCHEMA)
        return cls(connection)

    async def once(self, key: str, effect: Callable[[AsyncConnection[Any]], Awaitable[None]]) -> bool:
        """Store `key` and run `effect` in one transaction, unless the key exists. Return whether the effect happened now. If `effect`
        raises, nothing is stored."""
        async with self.connection.transaction():
            inserted = await self.connection.execute("INSERT INTO processed (business_key) VALUES (%s) ON CONFLICT DO NOTHING", (key,))
            if inserted.rowcount != 1:
                return False
            await effect(self.connection)
        return True

    async def close(self) -> None:
        """Close the connection."""
        await self.connection.close()
