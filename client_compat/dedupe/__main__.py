"""The recipe as a program that adds up payments by account in SQLite: `python -m client_compat.dedupe BOOTSTRAP TOPIC FILE`.

Values are JSON: {"payment": "p-17", "account": "a", "cents": 100}. The program ends when no more records arrive.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import sqlite3
from pathlib import Path
from typing import Final

from aiokafka import AIOKafkaConsumer, ConsumerRecord

from client_compat.dedupe.consumer import Processed, step
from client_compat.dedupe.sqlite_store import SqliteStore

GROUP: Final = "totals"
QUIET_POLLS: Final = 3


def payment_id(record: ConsumerRecord) -> str:
    """Return the business key: the payment's number, which does not depend on the producer."""
    return str(json.loads(record.value)["payment"])


async def add_to_total(connection: sqlite3.Connection, record: ConsumerRecord) -> None:
    """Add the payment in the record to the total of its account in the database."""
    payment = json.loads(record.value)
    connection.execute(
        "INSERT INTO totals (account, cents) VALUES (?, ?) ON CONFLICT (account) DO UPDATE SET cents = cents + excluded.cents",
        (payment["account"], payment["cents"]),
    )


async def run(bootstrap: str, topic: str, file: Path, kill_after: int | None) -> Processed:
    """Apply each payment of the topic once to the SQLite file, until no more records arrive; return how many records were applied, and how
    many were repetitions. With `kill_after`, the process kills itself with SIGKILL after this number of applied records, to show the effect
    of a restart."""
    total, quiet = Processed(), 0
    consumer = AIOKafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=GROUP,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
        session_timeout_ms=6000,
        heartbeat_interval_ms=1000,
    )
    with SqliteStore(file) as store:
        store.connection.execute("CREATE TABLE IF NOT EXISTS totals (account TEXT PRIMARY KEY, cents INTEGER NOT NULL)")

        left = kill_after

        async def effect(connection: sqlite3.Connection, record: ConsumerRecord) -> None:
            nonlocal left
            await add_to_total(connection, record)
            if left is not None:
                if left == 0:
                    os.kill(os.getpid(), signal.SIGKILL)
                left -= 1

        async with consumer:
            while quiet < QUIET_POLLS:
                done = await step(consumer, store, payment_id, effect)
                total.applied += done.applied
                total.repeated += done.repeated
                quiet = 0 if done.applied or done.repeated or not consumer.assignment() else quiet + 1
    return total


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m client_compat.dedupe", description="Add up payments, each once.")
    parser.add_argument("bootstrap")
    parser.add_argument("topic")
    parser.add_argument("file", type=Path, help="the SQLite file")
    parser.add_argument("--kill-after", type=int, help="SIGKILL itself inside the transaction behind so many payments, to try a crash")
    options = parser.parse_args()
    done = asyncio.run(run(options.bootstrap, options.topic, options.file, options.kill_after))
    print(f"{done.applied} payments applied, {done.repeated} repeated ones passed over")


if __name__ == "__main__":
    main()
