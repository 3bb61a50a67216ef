"""Where the consumers have their effects: one SQLite file in OTTLA_WORK_DIR, which outlives them.

Rule: what happened and how far it goes are written in one transaction. Kafka's offsets cannot be in it, so they decide nothing.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from client_compat.samples.common import Record

EFFECT_S: Final = 0.001
"""What an effect takes, for a crash to have something to fall into."""

SCHEMA: Final = """
    CREATE TABLE IF NOT EXISTS effects (key BLOB PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS positions (topic TEXT, part INTEGER, next INTEGER NOT NULL, PRIMARY KEY (topic, part)) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS appended (value BLOB NOT NULL);
"""


class Overtaken(Exception):
    """Another process has gone on from the position that this one believed to be its own."""


class Store:
    """Use from one thread at a time. Several processes may have it open: `BEGIN IMMEDIATE` waits for its turn."""

    def __init__(self, directory: Path) -> None:
        self._sqlite = sqlite3.connect(directory / "effects.sqlite", isolation_level=None, timeout=30, check_same_thread=False)
        self._sqlite.execute("PRAGMA journal_mode=WAL")
        self._sqlite.executescript(SCHEMA)

    def position(self, topic: str, partition: int) -> int:
        """The offset of the next record that has had no effect yet; 0 in the beginning."""
        row = self._sqlite.execute("SELECT next FROM positions WHERE topic = ? AND part = ?", (topic, partition)).fetchone()
        return 0 if row is None else int(row[0])

    def apply(self, topic: str, partition: int, begin: int, end: int, records: Sequence[Record]) -> None:
        """The effects of `begin` up to but not including `end`. Raises Overtaken, with nothing done, where it did not stand at `begin`.

        The position fences a process that was suspended; the key knows a record again that was sent twice.
        """
        with self._sqlite:
            self._sqlite.execute("BEGIN IMMEDIATE")
            if (stands := self.position(topic, partition)) != begin:
                raise Overtaken(f"{topic}-{partition} is at {stands} and not at {begin}")
            self._insert("INSERT INTO effects VALUES (?, ?) ON CONFLICT DO NOTHING", records)
            self._sqlite.execute("INSERT OR REPLACE INTO positions VALUES (?, ?, ?)", (topic, partition, end))

    def apply_by_key(self, records: Sequence[Record]) -> None:
        """The effects alone, each key once."""
        with self._sqlite:
            self._sqlite.execute("BEGIN IMMEDIATE")
            self._insert("INSERT INTO effects VALUES (?, ?) ON CONFLICT DO NOTHING", records)

    def append(self, records: Sequence[Record]) -> None:
        """The effects alone, as often as they come."""
        with self._sqlite:
            self._sqlite.execute("BEGIN IMMEDIATE")
            self._insert("INSERT INTO appended SELECT ?2 WHERE ?1 IS NOT NULL", records)

    def values(self) -> list[str]:
        """All effects."""
        rows = self._sqlite.execute("SELECT value FROM effects UNION ALL SELECT value FROM appended")
        return [bytes(value).decode() for (value,) in rows]

    def _insert(self, statement: str, records: Sequence[Record]) -> None:
        for record in records:
            time.sleep(EFFECT_S)
            self._sqlite.execute(statement, record)
