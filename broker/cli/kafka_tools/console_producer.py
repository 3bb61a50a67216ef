"""`kafka-console-producer`: sends each line of standard input as a record (Kafka's ConsoleProducer and LineMessageReader)."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from ottla.broker.cli.basics import CliError, pairs
from ottla.broker.cli.kafka_tools.console import arguments, client_options, client_properties, is_true
from ottla.broker.cli.kafka_tools.options import ToolParser, guarded
from ottla.broker.cli.logs import quiet_client_logs

_WITHOUT_EFFECT: Final = (
    "--timeout",
    "--batch-size",
    "--message-send-max-retries",
    "--retry-backoff-ms",
    "--request-timeout-ms",
    "--metadata-expiry-ms",
    "--max-block-ms",
    "--max-memory-bytes",
    "--max-partition-memory-bytes",
    "--socket-buffer-size",
)
_ALL: Final = frozenset({"-1", "all"})
_FUTURES_MAX: Final = 10_000


def parser() -> ToolParser:
    """Return the parser of the options of `kafka-console-producer`."""
    made = ToolParser("kafka-console-producer", "This tool helps to read data from standard input and publish it to Kafka.")
    made.add_argument("--bootstrap-server", "--broker-list", metavar="HOST:PORT[,…]")
    made.add_argument("--topic")
    client_options(made, "producer")
    made.listed("--reader-property", "--property", about="parse.key, key.separator, parse.headers, null.marker, …", dest="reader")
    made.add_argument("--compression-codec", nargs="?", const="gzip", default=None)
    made.add_argument("--request-required-acks", default="-1")
    made.flag("--sync")
    for name in _WITHOUT_EFFECT:
        made.add_argument(name, help=argparse.SUPPRESS)
    return made


@guarded("Error: ", aside=True)
def main(argv: Sequence[str]) -> int:
    """Run `kafka-console-producer` with the arguments `argv`; return its exit code."""
    read = parser()
    options = read.read(argv)
    if not options.topic:
        read.error('Missing required argument "[topic]"')
    given = client_properties(options)
    if options.compression_codec is not None:
        given["compression.type"] = options.compression_codec
    given.setdefault("acks", options.request_required_acks)
    quiet_client_logs()
    try:
        asyncio.run(_produce(options, given, LineReader(pairs(options.reader))))
    except (KafkaError, ValueError) as error:  # aiokafka raises ValueError for an invalid property
        raise CliError(str(error)) from None
    return 0


class LineReader:
    """Converts lines to records, by Kafka's reader properties (`parse.key`, `key.separator`, …)."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._has_key = is_true(properties.get("parse.key", "false"))
        self._has_headers = is_true(properties.get("parse.headers", "false"))
        self._lenient = is_true(properties.get("ignore.error", "false"))
        self._null = properties.get("null.marker")
        self._separator = properties.get("key.separator", "\t")
        self._delimiter = properties.get("headers.delimiter", "\t")
        self._between = properties.get("headers.separator", ",")
        self._of_key = properties.get("headers.key.separator", ":")

    def record(self, line: str, number: int) -> tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]:
        """Return the key, value and headers in a line; `number` is the line's number in the input. Raises `CliError` if the line lacks a
        separator that the properties require."""
        headers, line = self._cut(line, number, self._delimiter, "headers delimiter") if self._has_headers else (None, line)
        key, value = self._cut(line, number, self._separator, "key separator") if self._has_key else (None, line)
        shown = [] if headers is None or headers == self._null else [self._header(pair, number) for pair in headers.split(self._between)]
        return self._bytes(key), self._bytes(value), shown

    def _cut(self, line: str, number: int, separator: str, what: str) -> tuple[str | None, str]:
        before, found, after = line.partition(separator)
        if found:
            return before, after
        if self._lenient:
            return None, line
        raise CliError(f"No {what} found on line number {number}: '{line}'")

    def _header(self, pair: str, number: int) -> tuple[str, bytes | None]:
        key, found, value = pair.partition(self._of_key)
        if not found and not self._lenient:
            raise CliError(f"No header key separator found in pair '{pair}' on line number {number}")
        return key, self._bytes(value) if found else None

    def _bytes(self, text: str | None) -> bytes | None:
        return None if text is None or text == self._null else text.encode("utf-8", "surrogateescape")


async def _produce(options: argparse.Namespace, given: dict[str, str], reader: LineReader) -> None:
    everybody = given["acks"] in _ALL
    known: dict[str, Any] = {
        "acks": lambda text: ("acks", "all" if everybody else int(text)),
        "compression.type": lambda text: ("compression_type", None if text == "none" else text),
        "linger.ms": lambda text: ("linger_ms", int(text)),
        "client.id": lambda text: ("client_id", text),
        "enable.idempotence": lambda text: ("enable_idempotence", everybody and is_true(text)),
    }
    producer = AIOKafkaProducer(bootstrap_servers=options.bootstrap_server, **{"enable_idempotence": everybody, **arguments(given, known)})
    waiting = list[Any]()
    try:
        await producer.start()
        prompt, number = sys.stdin.isatty(), 0
        sys.stdin.reconfigure(encoding="utf-8", errors="surrogateescape", newline="\n")  # type: ignore[union-attr] # a text stream here
        while True:
            if prompt:
                print(">", end="", flush=True)
            line = await asyncio.to_thread(sys.stdin.readline)
            if not line:
                break
            number += 1
            key, value, headers = reader.record(line.removesuffix("\n").removesuffix("\r"), number)
            sent = await producer.send(options.topic, value, key, headers=headers)
            waiting.append(sent)
            if options.sync or len(waiting) >= _FUTURES_MAX:
                await asyncio.gather(*waiting)
                waiting.clear()
        await asyncio.gather(*waiting)
    finally:
        await producer.stop()
