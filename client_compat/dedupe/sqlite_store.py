"""Stores business keys and the effects of their records in one SQLite file."""

from __future__ import annotations

import sqlite3
from collections.abc import Awaitable, Callable
from pathlib import Path

SCHEMA = """
    CREATE TABLE IF NOT EXISTS processed (
        business_key TEXT PRIMARY KEY,
        at TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP
    ) WITHOUT ROWID
"""


class SqliteStore:
    """A store of business keys and effects in one SQLite file; a context manager. `BEGIN IMMEDIATE` serializes transactions of several
    processes."""

    def __init__(self, path: Path | str) -> None:
        self.connection = sqlite3.connect(path, isolation_level=None)
        self.connection.execute("PRAGMA journal_mode=WAL")
        self.connection.execute(SCHEMA)

    async def once(self, key: str, effect: Callable[[sqlite3.Connection], Awaitable[None]]) -> bool:
        """Store `key` and run `effect` in one transaction, unless the key exists. Return whether the effect happened now. If `effect`
        raises, nothing is stored. `effect` must not wait for another call of `once`, because the connection can have only one transaction
        at a time."""
        self.connection.execute("BEGIN IMMEDIATE")
        try:
            new = self.connection.execute("INSERT INTO processed (business_key) VALUES (?) ON CONFLICT DO NOTHING", (key,)).rowcount == 1
            if new:
                await effect(self.connection)
            self.connection.execute("COMMIT")
        except BaseException:
            self.connection.execute("ROLLBACK")
            raise
        return new

    def __enter__(self) -> SqliteStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.close()
