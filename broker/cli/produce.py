"""`ottla produce`: sends lines of standard input as records to any Kafka cluster, with aiokafka."""

from __future__ import annotations

import asyncio
import io
import sys
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, cast

import typer
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from ottla.broker.cli.cluster import AdminClient
from ottla.broker.cli.common import BOOTSTRAP, Bootstrap, CliError, command, note, pairs
from ottla.broker.cli.logs import quiet_client_logs
from ottla.broker.cli.security import for_aiokafka

READ_BYTES = 65_536
LINGER_MS = 5
BATCH_BYTES = 65_536
FUTURES_MAX = 10_000


class Acks(StrEnum):
    """The acknowledgement that the producer waits for: the replicas that must have a record before it counts as sent."""

    ALL = "all"
    LEADER = "1"
    NONE = "0"


class Compression(StrEnum):
    """The codec by which the producer compresses batches."""

    NONE = "none"
    GZIP = "gzip"
    SNAPPY = "snappy"
    LZ4 = "lz4"
    ZSTD = "zstd"


@dataclass(frozen=True, slots=True)
class _Plan:
    topic: str
    bootstrap: str
    separator: str | None
    headers: Sequence[tuple[str, bytes]]
    acks: Acks
    idempotent: bool
    codec: Compression
    partition: int | None


@command
def produce(
    topic: Annotated[str, typer.Argument(metavar="TOPIC")],
    *,
    bootstrap: Bootstrap = BOOTSTRAP,
    key_separator: Annotated[str | None, typer.Option("--key-separator", "-K", help="Text between key and value in a line.")] = None,
    header: Annotated[
        list[str] | None, typer.Option("--header", "-H", metavar="NAME=VALUE", help="A header for all records; may be repeated.")
    ] = None,
    acks: Annotated[Acks, typer.Option(help="Replicas that must have a record: all in-sync ones, the leader, or none.")] = Acks.ALL,
    idempotence: Annotated[bool, typer.Option(help="Write each line exactly once despite retries; needs --acks all.")] = True,
    codec: Annotated[Compression, typer.Option("--codec", "-z", help="Compression of batches.")] = Compression.NONE,
    partition: Annotated[int | None, typer.Option("--partition", "-p", help="Send all to this partition instead of by key.")] = None,
) -> None:
    """Send each line of standard input as a record. For example: seq 100 | ottla produce numbers"""
    headers = [(name, value.encode()) for name, value in pairs(header or ()).items()]
    if key_separator == "":
        raise CliError("--key-separator must not be empty")
    plan = _Plan(topic, bootstrap, key_separator, headers, acks, idempotence and acks is Acks.ALL, codec, partition)
    _check_place(plan)
    quiet_client_logs()
    began = time.monotonic()
    try:
        sent = asyncio.run(_produce(plan))
    except KafkaError as error:
        raise CliError(str(error)) from None
    note(f"sent {sent} record{'' if sent == 1 else 's'} to {topic} in {time.monotonic() - began:.2f} s")


def _check_place(plan: _Plan) -> None:
    """Raise `CliError` if the topic or the partition does not exist, because aiokafka would otherwise retry for ever."""
    with AdminClient(plan.bootstrap) as cluster:
        topic = cluster.topic_to_write(plan.topic)
    if plan.partition is not None and plan.partition not in {each.partition_index for each in topic.partitions}:
        raise CliError(f"topic {plan.topic!r} has no partition {plan.partition}")


async def _produce(plan: _Plan) -> int:
    producer = AIOKafkaProducer(
        **for_aiokafka(),
        bootstrap_servers=plan.bootstrap,
        acks=plan.acks.value if plan.acks is Acks.ALL else int(plan.acks.value),
        enable_idempotence=plan.idempotent,
        compression_type=None if plan.codec is Compression.NONE else plan.codec.value,
        linger_ms=LINGER_MS,
        max_batch_size=BATCH_BYTES,
    )
    sent, waiting = 0, list[Any]()
    try:
        await producer.start()
        async for line in _lines():
            key, value = split_line(line, plan.separator)
            waiting.append(await producer.send(plan.topic, value, key, plan.partition, headers=plan.headers))
            sent += 1
            if len(waiting) >= FUTURES_MAX:
                await asyncio.gather(*waiting)
                waiting.clear()
        await asyncio.gather(*waiting)
        return sent
    finally:
        await producer.stop()


def split_line(line: bytes, separator: str | None) -> tuple[bytes | None, bytes]:
    if separator is None:
        return None, line
    key, found, value = line.partition(separator.encode())
    return (key, value) if found else (None, line)


async def _lines() -> AsyncIterator[bytes]:
    """Yield lines without line breaks as they arrive. Reading on a thread lets the producer send while a user types."""
    rest, source = b"", cast(io.BufferedReader, sys.stdin.buffer)
    while chunk := await asyncio.to_thread(source.read1, READ_BYTES):
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            yield line
    if rest:
        yield rest
