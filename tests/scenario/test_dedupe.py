"""The recipe of client_compat/dedupe for what no broker can prevent: an application that sends one event twice with two producer ids, and a
crash between the effect and the offset commit. Against SQLite, PostgreSQL and Redis."""

from __future__ import annotations

import asyncio
import json
import signal
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRecord

from client_compat.dedupe.__main__ import payment_id
from client_compat.dedupe.consumer import Processed, Store, step
from client_compat.dedupe.sqlite_store import SqliteStore
from tests.support.databases import postgres, redis_server
from tests.support.running_broker import RunningBroker

TOPIC = "payments"
PAYMENTS = 20
RUN_TIMEOUT_S = 60


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[RunningBroker]:
    with RunningBroker(tmp_path / "data") as running:
        yield running


async def send_all(broker: RunningBroker, times: int = 1) -> None:
    """Send the same payments `times` times, each time with a new idempotent producer, as an application does that restarts without knowing
    what it has sent."""
    for _ in range(times):
        async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap, enable_idempotence=True) as producer:
            for number in range(PAYMENTS):
                value = json.dumps({"payment": f"p-{number}", "account": "ab"[number % 2], "cents": number}).encode()
                await producer.send_and_wait(TOPIC, value, key=b"k")


@asynccontextmanager
async def consumer_of(broker: RunningBroker, group: str = "g") -> AsyncIterator[AIOKafkaConsumer]:
    made = AIOKafkaConsumer(
        TOPIC, bootstrap_servers=broker.bootstrap, group_id=group, enable_auto_commit=False, auto_offset_reset="earliest"
    )
    async with made:
        yield made


async def consume(broker: RunningBroker, store: Store[Any], effect: Any, records: int, group: str = "g") -> Processed:
    total = Processed()
    async with consumer_of(broker, group) as consumer:
        while total.applied + total.repeated < records:
            done = await step(consumer, store, payment_id, effect)
            total.applied += done.applied
            total.repeated += done.repeated
    return total


EXPECTED = {account: sum(n for n in range(PAYMENTS) if "ab"[n % 2] == account) for account in "ab"}
INSERT = "INSERT INTO effects (account, cents) VALUES ({0}, {0})"


def row(record: ConsumerRecord) -> tuple[str, int]:
    value = json.loads(record.value)
    return value["account"], value["cents"]


async def sqlite_effect(connection: sqlite3.Connection, record: ConsumerRecord) -> None:
    connection.execute(INSERT.format("?"), row(record))


def sqlite_store(path: Path) -> SqliteStore:
    store = SqliteStore(path)
    store.connection.execute("CREATE TABLE IF NOT EXISTS effects (account TEXT, cents INTEGER)")
    return store


async def test_an_event_sent_under_two_producer_ids_takes_effect_once_in_sqlite(broker: RunningBroker, tmp_path: Path) -> None:
    await send_all(broker, times=2)
    with sqlite_store(tmp_path / "s.db") as store:
        done = await consume(broker, store, sqlite_effect, 2 * PAYMENTS)
        assert (done.applied, done.repeated) == (PAYMENTS, PAYMENTS)
        assert dict(store.connection.execute("SELECT account, sum(cents) FROM effects GROUP BY account")) == EXPECTED


async def test_second_group_that_rereads_from_the_start_changes_nothing(broker: RunningBroker, tmp_path: Path) -> None:
    await send_all(broker)
    with sqlite_store(tmp_path / "s.db") as store:
        await consume(broker, store, sqlite_effect, PAYMENTS)
        assert (await consume(broker, store, sqlite_effect, PAYMENTS, group="other")).repeated == PAYMENTS
        assert dict(store.connection.execute("SELECT account, sum(cents) FROM effects GROUP BY account")) == EXPECTED


async def test_failed_effect_rolls_back_both_key_and_offset(broker: RunningBroker, tmp_path: Path) -> None:
    await send_all(broker)
    failed = []

    async def fails_once(connection: sqlite3.Connection, record: ConsumerRecord) -> None:
        await sqlite_effect(connection, record)
        if not failed and payment_id(record) == "p-7":
            failed.append(record.offset)
            raise ArithmeticError("the effect's own trouble")

    with sqlite_store(tmp_path / "s.db") as store:
        with pytest.raises(ArithmeticError):
            await consume(broker, store, fails_once, PAYMENTS)
        assert store.connection.execute("SELECT count(*) FROM effects").fetchone() == (7,)
        assert (await consume(broker, store, fails_once, PAYMENTS)).applied == PAYMENTS - 7
        assert dict(store.connection.execute("SELECT account, sum(cents) FROM effects GROUP BY account")) == EXPECTED


def test_a_consumer_killed_between_effect_and_offset_commit_applies_nothing_twice(broker: RunningBroker, tmp_path: Path) -> None:
    asyncio.run(send_all(broker, times=2))
    file = tmp_path / "totals.db"
    argv = [sys.executable, "-m", "client_compat.dedupe", broker.bootstrap, TOPIC, str(file)]
    killed = subprocess.run([*argv, "--kill-after", "7"], timeout=RUN_TIMEOUT_S, capture_output=True, text=True, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    with sqlite3.connect(file) as connection:
        assert connection.execute("SELECT count(*) FROM processed").fetchone() == (7,)
    ended = subprocess.run(argv, timeout=RUN_TIMEOUT_S, capture_output=True, text=True, check=False)
    assert ended.stdout == f"{PAYMENTS - 7} payments applied, {PAYMENTS + 7} repeated ones passed over\n", ended.stderr
    with sqlite3.connect(file) as connection:
        assert dict(connection.execute("SELECT account, cents FROM totals")) == EXPECTED


async def test_an_event_sent_under_two_producer_ids_takes_effect_once_in_postgresql(broker: RunningBroker) -> None:
    from client_compat.dedupe.postgres_store import PostgresStore

    async def effect(connection: Any, record: ConsumerRecord) -> None:
        await connection.execute(INSERT.format("%s"), row(record))

    await send_all(broker, times=2)
    with postgres() as conninfo:
        store = await PostgresStore.connect(conninfo)
        await store.connection.execute("CREATE TABLE effects (account text, cents bigint)")
        done = await consume(broker, store, effect, 2 * PAYMENTS)
        assert (done.applied, done.repeated) == (PAYMENTS, PAYMENTS)
        sums = await (await store.connection.execute("SELECT account, sum(cents)::bigint FROM effects GROUP BY account")).fetchall()
        assert dict(sums) == EXPECTED

        async def failing(connection: Any) -> None:
            await connection.execute(INSERT.format("%s"), ("a", 1))
            raise ArithmeticError

        with pytest.raises(ArithmeticError):
            await store.once("new", failing)
        assert await (await store.connection.execute("SELECT count(*) FROM effects")).fetchone() == (PAYMENTS,)
        await store.close()


async def test_an_event_sent_under_two_producer_ids_takes_effect_once_in_redis(broker: RunningBroker) -> None:
    from redis.asyncio import Redis

    from client_compat.dedupe.redis_store import RedisStore

    async def effect(pipe: Any, record: ConsumerRecord) -> None:
        account, cents = row(record)
        pipe.incrby(f"total:{account}", cents)

    await send_all(broker, times=2)
    with redis_server() as path:
        async with Redis(unix_socket_path=path) as redis:
            store = RedisStore(redis)
            done = await consume(broker, store, effect, 2 * PAYMENTS)
            assert (done.applied, done.repeated) == (PAYMENTS, PAYMENTS)
            assert {account: int(await redis.get(f"total:{account}") or 0) for account in "ab"} == EXPECTED


async def test_two_redis_clients_with_one_key_at_a_time_apply_it_once() -> None:
    from redis.asyncio import Redis

    from client_compat.dedupe.redis_store import RedisStore

    with redis_server() as path:
        async with Redis(unix_socket_path=path) as one, Redis(unix_socket_path=path) as other:

            async def add(pipe: Any) -> None:
                pipe.incr("total")

            async def add_after_the_other(pipe: Any) -> None:
                if not await other.exists("total"):
                    assert await RedisStore(other).once("key", add)
                pipe.incr("total")

            assert not await RedisStore(one).once("key", add_after_the_other)
            assert int(await one.get("total") or 0) == 1
