"""`kafka-console-consumer`: prints records to standard output (Kafka's ConsoleConsumer and DefaultMessageFormatter)."""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, BinaryIO, Final

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError

from ottla.broker.cli.basics import CliError, pairs
from ottla.broker.cli.kafka_tools.console import arguments, client_options, client_properties, is_true
from ottla.broker.cli.kafka_tools.options import ToolParser, guarded
from ottla.broker.cli.logs import quiet_client_logs

_POLL_MS: Final = 200
_AT_ONCE: Final = 1_000
_SERIALIZATION: Final = "org.apache.kafka.common.serialization."
_READ: Final[Mapping[str, Callable[[bytes], bytes]]] = {
    "StringDeserializer": bytes,
    "ByteArrayDeserializer": bytes,
    "IntegerDeserializer": lambda data: str(int.from_bytes(data, "big", signed=True)).encode(),
    "LongDeserializer": lambda data: str(int.from_bytes(data, "big", signed=True)).encode(),
}
_TYPES: Final = {0: "CreateTime", 1: "LogAppendTime"}


def parser() -> ToolParser:
    """Return the parser of the options of `kafka-console-consumer`."""
    made = ToolParser("kafka-console-consumer", "This tool helps to read data from Kafka topics and outputs it to standard output.")
    made.add_argument("--bootstrap-server", metavar="HOST:PORT[,…]")
    made.add_argument("--topic")
    made.add_argument("--include", "--whitelist", help="topics, as a regular expression")
    made.add_argument("--partition", type=int)
    made.add_argument("--offset", help="a number, earliest or latest; with --partition")
    made.flag("--from-beginning")
    made.add_argument("--max-messages", type=int, default=-1)
    made.add_argument("--timeout-ms", type=int, default=-1)
    made.add_argument("--group")
    made.add_argument("--isolation-level", choices=["read_uncommitted", "read_committed"], default="read_uncommitted")
    client_options(made, "consumer")
    made.listed("--formatter-property", "--property", about="print.key, print.offset, key.separator, …", dest="shown")
    made.add_argument("--key-deserializer")
    made.add_argument("--value-deserializer")
    made.flag("--skip-message-on-error")
    return made


@guarded("Error: ", aside=True)
def main(argv: Sequence[str]) -> int:
    """Run `kafka-console-consumer` with the arguments `argv`; return its exit code."""
    read = parser()
    options = read.read(argv)
    if (options.topic is None) == (options.include is None):
        read.error("Exactly one of --include/--topic is required.")
    _check_place(read, options)
    given = client_properties(options)
    groups = sorted({each for each in (options.group, given.get("group.id")) if each is not None})
    if len(groups) > 1:
        names = ", ".join(f"'{group}'" for group in groups)
        read.error(
            "The group ids provided in different places (directly using '--group', via '--consumer-property', or via '--consumer.config') "
            f"do not match. Detected group ids: {names}"
        )
    if groups and options.partition is not None:
        read.error("Options group and partition cannot be specified together.")
    shown = pairs(options.shown)
    for name in ("key", "value"):
        if (deserializer := getattr(options, f"{name}_deserializer")) is not None:
            shown.setdefault(f"{name}.deserializer", deserializer)
    quiet_client_logs()
    taken = [0]
    try:
        asyncio.run(_consume(options, given, Formatter(shown), taken))
    except (KafkaError, ValueError) as error:  # aiokafka raises ValueError for an invalid property
        raise CliError(str(error)) from None
    except KeyboardInterrupt:
        pass
    finally:
        print(f"Processed a total of {taken[0]} messages", file=sys.stderr)
    return 0


def _check_place(read: ToolParser, options: argparse.Namespace) -> None:
    if options.partition is None:
        if options.offset is not None:
            read.error("The partition is required when offset is specified.")
        return
    if options.topic is None:
        read.error("The topic is required when partition is specified.")
    if options.from_beginning and options.offset is not None:
        read.error("Options from-beginning and offset cannot be specified together.")
    offset = options.offset or "latest"
    if offset.lower() not in {"earliest", "latest"} and not offset.isdecimal():
        read.error(f"The provided offset value '{offset}' is incorrect. Valid values are 'earliest', 'latest', or a non-negative long.")


class Formatter:
    """Formats records for printing, by Kafka's formatter properties (`print.key`, `key.separator`, …). Creating it raises `CliError` for a
    deserializer that is a custom Java class."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        def is_set(name: str, otherwise: str = "false") -> bool:
            return is_true(properties.get(f"print.{name}", otherwise))

        self._null = properties.get("null.literal", "null").encode()
        self._column = properties.get("key.separator", "\t").encode()
        self._line = properties.get("line.separator", "\n").encode()
        self._between = properties.get("headers.separator", ",").encode()
        self._of = {name: _deserializer(properties.get(f"{name}.deserializer", "")) for name in ("key", "value", "headers")}
        columns: list[tuple[bool, Callable[[Any], bytes]]] = [
            (is_set("timestamp"), lambda record: f"{_TYPES.get(record.timestamp_type, 'CreateTime')}:{record.timestamp}".encode()),
            (is_set("partition"), lambda record: b"Partition:%d" % record.partition),
            (is_set("offset"), lambda record: b"Offset:%d" % record.offset),
            (is_set("delivery"), lambda _: b"Delivery:NOT_PRESENT"),
            (is_set("epoch"), lambda _: b"Epoch:NOT_PRESENT"),
            (is_set("headers"), self._headers),
            (is_set("key"), lambda record: self._read("key", record.key)),
            (is_set("value", "true"), lambda record: self._read("value", record.value)),
        ]
        self._columns = [column for wanted, column in columns if wanted]

    def text(self, record: Any) -> bytes:
        """Return the bytes to print for a record, including the line separator."""
        return self._column.join(column(record) for column in self._columns) + self._line

    def _headers(self, record: Any) -> bytes:
        shown = self._between.join(name.encode() + b":" + self._read("headers", value) for name, value in record.headers)
        return shown or b"NO_HEADERS"

    def _read(self, what: str, data: bytes | None) -> bytes:
        return self._null if data is None else self._of[what](data)


def _deserializer(name: str) -> Callable[[bytes], bytes]:
    known = name.removeprefix(_SERIALIZATION) or "StringDeserializer"
    if known not in _READ:
        raise CliError(f"{name} is a Java class, which Ottla cannot load; supported are {', '.join(_READ)} of {_SERIALIZATION}")
    return _READ[known]


async def _consume(options: argparse.Namespace, given: dict[str, str], formatter: Formatter, taken: list[int]) -> None:
    group = options.group or given.get("group.id")
    known: dict[str, Any] = {
        "client.id": lambda text: ("client_id", text),
        "isolation.level": lambda text: ("isolation_level", text),
        "enable.auto.commit": lambda text: ("enable_auto_commit", is_true(text)),
        "auto.offset.reset": lambda text: ("auto_offset_reset", text),
        "max.poll.records": lambda text: ("max_poll_records", int(text)),
    }
    own = {
        "client_id": "console-consumer",
        "auto_offset_reset": "earliest" if options.from_beginning else "latest",
        "isolation_level": options.isolation_level,
        "enable_auto_commit": group is not None,
        "group_id": None if options.partition is not None else group or f"console-consumer-{random.randrange(100_000)}",
    }
    consumer = AIOKafkaConsumer(bootstrap_servers=options.bootstrap_server, **{**own, **arguments(given, known)})
    place = None if options.partition is None else TopicPartition(options.topic, options.partition)
    if place is not None:
        consumer.assign([place])
    elif options.topic is not None:
        consumer.subscribe([options.topic])
    else:
        consumer.subscribe(pattern=options.include)
    try:
        await consumer.start()
        if place is not None:
            offset = "earliest" if options.from_beginning else (options.offset or "latest").lower()
            async with asyncio.timeout(None if options.timeout_ms < 0 else options.timeout_ms / 1000):
                await _seek(consumer, place, offset)
        await _print(consumer, options, formatter, taken, sys.stdout.buffer)
    except TimeoutError:
        _print_timeout()
    finally:
        await consumer.stop()


async def _seek(consumer: AIOKafkaConsumer, place: Any, offset: str) -> None:
    if offset == "earliest":
        await consumer.seek_to_beginning(place)
    elif offset == "latest":
        await consumer.seek_to_end(place)
    else:
        consumer.seek(place, int(offset))


async def _print(consumer: AIOKafkaConsumer, options: argparse.Namespace, formatter: Formatter, taken: list[int], sink: BinaryIO) -> None:
    last = time.monotonic()
    while options.max_messages < 0 or taken[0] < options.max_messages:
        max_records = _AT_ONCE if options.max_messages < 0 else min(_AT_ONCE, options.max_messages - taken[0])
        found = await consumer.getmany(timeout_ms=_POLL_MS, max_records=max_records)
        for records in found.values():
            for record in records:
                sink.write(formatter.text(record))
                taken[0] += 1
        sink.flush()
        if found:
            last = time.monotonic()
        elif 0 <= options.timeout_ms < (time.monotonic() - last) * 1000:
            _print_timeout()
            return


def _print_timeout() -> None:
    print("Error processing message, terminating consumer process: TimeoutException", file=sys.stderr)
