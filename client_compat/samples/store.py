"""The store of the sample consumers: a SQLite file in OTTLA_WORK_DIR, which survives restarts of the program.

Rule: effects and the position are written in one transaction. Kafka's committed offsets cannot be part of it, so consumers do not start
from them.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from client_compat.samples.common import Record

EFFECT_S: Final = 0.001
"""How long storing one effect takes, in seconds. It is artificial, so that a kill can happen meanwhile."""

SCHEMA: Final = """
    CREATE TABLE IF NOT EXISTS effects (key BLOB PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS positions (topic TEXT, part INTEGER, next INTEGER NOT NULL, PRIMARY KEY (topic, part)) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS appended (value BLOB NOT NULL);
"""


class Overtaken(Exception):
    """Raised when another process has stored effects of the partition, so that the stored position is not the one that this process
    expects."""


class Store:
    """A store for one thread at a time. Several processes may open it; `BEGIN IMMEDIATE` serializes their transactions."""

    def __init__(self, directory: Path) -> None:
        self._sqlite = sqlite3.connect(directory / "effects.sqlite", isolation_level=None, timeout=30, check_same_thread=False)
        self._sqlite.execute("PRAGMA journal_mode=WAL")
        self._sqlite.executescript(SCHEMA)

    def position(self, topic: str, partition: int) -> int:
        """Return the offset of the partition's next record to process; 0 if no effect of the partition is stored."""
        row = self._sqlite.execute("SELECT next FROM positions WHERE topic = ? AND part = ?", (topic, partition)).fetchone()
        return 0 if row is None else int(row[0])

    def apply(self, topic: str, partition: int, begin: int, end: int, records: Sequence[Record]) -> None:
        """Store the effects of the offsets from `begin` up to, not including, `end`.

        Raises Overtaken, without changes, if the position is not `begin`. The position fences a suspended process; the key detects a record
        that was sent twice.
        """
        with self._sqlite:
            self._sqlite.execute("BEGIN IMMEDIATE")
            if (stands := self.position(topic, partition)) != begin:
                raise Overtaken(f"{topic}-{partition} is at {stands} and not at {begin}")
            self._insert("INSERT INTO effects VALUES (?, ?) ON CONFLICT DO NOTHING", records)
            self._sqlite.execute("INSERT OR REPLACE INTO positions VALUES (?, ?, ?)", (topic, partition, end))

    def apply_by_key(self, records: Sequence[Record]) -> None:
        """Store the effects of the records without a position. A record whose key is stored already has no effect."""
        with self._sqlite:
            self._sqlite.execute("BEGIN IMMEDIATE")
            self._insert("INSERT INTO effects VALUES (?, ?) ON CONFLICT DO NOTHING", records)

    def append(self, records: Sequence[Record]) -> None:
        """Store the effects of the records, without a position, and without a check for records that are stored already."""
        with self._sqlite:
            self._sqlite.execute("BEGIN IMMEDIATE")
            self._insert("INSERT INTO appended SELECT ?2 WHERE ?1 IS NOT NULL", records)

    def values(self) -> list[str]:
        """Return the values of all records whose effects are stored."""
        rows = self._sqlite.execute("SELECT value FROM effects UNION ALL SELECT value FROM appended")
        return [bytes(value).decode() for (value,) in rows]

    def _insert(self, statement: str, records: Sequence[Record]) -> None:
        for record in records:
            time.sleep(EFFECT_S)
            self._sqlite.execute(statement, record)
