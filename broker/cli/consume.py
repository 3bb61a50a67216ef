"""`ottla consume`: prints records of any Kafka cluster, with or without a consumer group."""

from __future__ import annotations

import asyncio
import base64
import json
import sys
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, BinaryIO

import typer
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError

from ottla.broker.cli.cluster import AdminClient
from ottla.broker.cli.common import BOOTSTRAP, Bootstrap, CliError, command, note
from ottla.broker.cli.logs import quiet_client_logs
from ottla.broker.cli.security import for_aiokafka

POLL_MS = 200
RECORDS_AT_ONCE = 1_000


class IsolationLevel(StrEnum):
    """The isolation level of the consumer: whether records of open and aborted transactions are printed."""

    READ_UNCOMMITTED = "read_uncommitted"
    READ_COMMITTED = "read_committed"


@dataclass(frozen=True, slots=True)
class _Plan:
    topic: str
    bootstrap: str
    group: str | None
    from_beginning: bool
    partition: int | None
    max_messages: int | None
    exit_at_end: bool
    isolation: IsolationLevel
    as_json: bool
    key_separator: str | None


@command
def consume(
    topic: Annotated[str, typer.Argument(metavar="TOPIC")],
    *,
    bootstrap: Bootstrap = BOOTSTRAP,
    group: Annotated[str | None, typer.Option("--group", "-g", help="Join this consumer group and commit offsets.")] = None,
    from_beginning: Annotated[bool, typer.Option("--from-beginning", help="Start at the first record instead of at new ones.")] = False,
    partition: Annotated[int | None, typer.Option("--partition", "-p", help="Only this partition (not with --group).")] = None,
    max_messages: Annotated[int | None, typer.Option("--max-messages", "-n", min=1, help="Stop after this many records.")] = None,
    exit_at_end: Annotated[bool, typer.Option("--exit-at-end", "-e", help="Stop at the end of the log as of now.")] = False,
    isolation: Annotated[
        IsolationLevel, typer.Option(help="read_uncommitted also prints records of open and aborted transactions.")
    ] = IsolationLevel.READ_COMMITTED,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON object a line, with offset, timestamp, key and headers.")] = False,
    key_separator: Annotated[str | None, typer.Option("--key-separator", "-K", help="Print the key, this text, and the value.")] = None,
) -> None:
    """Print a topic's records, one a line. For example: ottla consume numbers --from-beginning --exit-at-end"""
    if group is not None and partition is not None:
        raise CliError("--partition and --group exclude each other: a group assigns the partitions itself")
    plan = _Plan(topic, bootstrap, group, from_beginning, partition, max_messages, exit_at_end, isolation, as_json, key_separator)
    quiet_client_logs()
    try:
        partitions = _partitions(plan) if group is None else []
        taken = asyncio.run(_consume(plan, partitions, sys.stdout.buffer))
    except KafkaError as error:
        raise CliError(f"{error}. Is a broker running at {bootstrap}? Start one with `ottla serve --data-dir data`") from None
    except BrokenPipeError:  # the reader of our output has stopped, such as `head`
        sys.stderr.close()
        raise typer.Exit(0) from None
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    note(f"{taken} record{'' if taken == 1 else 's'}")


async def _consume(plan: _Plan, partitions: list[TopicPartition], sink: BinaryIO) -> int:
    consumer = AIOKafkaConsumer(
        **for_aiokafka(),
        bootstrap_servers=plan.bootstrap,
        group_id=plan.group,
        auto_offset_reset="earliest" if plan.from_beginning else "latest",
        isolation_level=plan.isolation.value,
        enable_auto_commit=plan.group is not None,
    )
    if plan.group is None:
        consumer.assign(partitions)
    else:
        consumer.subscribe([plan.topic])
    try:
        await consumer.start()
        return await _print_records(consumer, plan, sink)
    finally:
        await consumer.stop()


async def _print_records(consumer: AIOKafkaConsumer, plan: _Plan, sink: BinaryIO) -> int:
    taken = 0
    ends: dict[Any, int] | None = None
    while plan.max_messages is None or taken < plan.max_messages:
        max_records = RECORDS_AT_ONCE if plan.max_messages is None else min(RECORDS_AT_ONCE, plan.max_messages - taken)
        for records in (await consumer.getmany(timeout_ms=POLL_MS, max_records=max_records)).values():
            for record in records:
                sink.write(json_line(record) if plan.as_json else plain_line(record, plan.key_separator))
            taken += len(records)
        sink.flush()
        if plan.exit_at_end and consumer.assignment():
            ends = ends or await consumer.end_offsets(sorted(consumer.assignment()))
            if await _at(consumer, ends):
                break
    return taken


def _partitions(plan: _Plan) -> list[TopicPartition]:
    """Return all partitions of the topic, or the requested one. Raises `CliError` if the topic or the partition does not exist."""
    with AdminClient(plan.bootstrap) as cluster:
        (topic,) = cluster.topics([plan.topic])
    known = sorted(partition.partition_index for partition in topic.partitions)
    if plan.partition is not None and plan.partition not in known:
        raise CliError(f"topic {plan.topic!r} has no partition {plan.partition}")
    return [TopicPartition(plan.topic, index) for index in known if plan.partition in (None, index)]


async def _at(consumer: AIOKafkaConsumer, ends: dict[Any, int]) -> bool:
    """Return whether the consumer has reached its target: in each partition that is assigned to it, the offset `ends[partition]`."""
    mine = consumer.assignment()
    for partition, end in ends.items():
        if partition in mine and await consumer.position(partition) < end:
            return False
    return True


def plain_line(record: Any, key_separator: str | None) -> bytes:
    value: bytes = record.value or b""
    if key_separator is None:
        return value + b"\n"
    return (record.key or b"") + key_separator.encode() + value + b"\n"


def json_line(record: Any) -> bytes:
    """Format a record as JSON. Keys, values and headers are text if they are UTF-8, else `{"base64": …}`."""
    document = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": _text(record.key),
        "value": _text(record.value),
        "headers": [[name, _text(value)] for name, value in record.headers],
    }
    return json.dumps(document, ensure_ascii=False).encode() + b"\n"


def _text(data: bytes | None) -> str | dict[str, str] | None:
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}
