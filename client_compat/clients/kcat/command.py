"""Run kcat: arguments, errors, and its output format for records.

Rules:
- The output contains the lengths of keys and values, so that they may hold any byte.
- kcat prints headers as text, so a header value with a comma looks like two headers.
- A partially printed record is ignored.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from typing import Any

from client_compat.clients.control import Answer, Failure, Request, Unsupported, taken

NAME = "kcat"
FORMAT = r"%t %p %o %T %K %S\n%k%s\n%h\x01\n"
"""kcat's output format for a consumed record: topic, partition, offset, timestamp and lengths; key and value; then headers, terminated by a
byte that does not occur in text."""
_HEAD = re.compile(rb"(\S+) (\d+) (\d+) (-?\d+) (-?\d+) (-?\d+)\n")
_KAFKA_NAMES: Mapping[str, str] = {
    "Broker: Message size too large": "MESSAGE_TOO_LARGE",
    "Broker: Unknown topic or partition": "UNKNOWN_TOPIC_OR_PARTITION",
    "Broker: Offset out of range": "OFFSET_OUT_OF_RANGE",
    "Broker: Invalid topic": "INVALID_TOPIC_EXCEPTION",
    "Broker: Static consumer fenced by other consumer with same group.instance.id": "FENCED_INSTANCE_ID",
}
"""Kafka's names for librdkafka's error texts, because kcat prints no error codes."""


class KcatFailed(Exception):
    """kcat failed or printed an error. The text is its output."""


def kcat(*arguments: str, timeout_s: float = 30.0, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """Run kcat until it ends, and return its exit code and output. Raises TimeoutError if it does not end within `timeout_s` seconds."""
    try:
        return subprocess.run(["kcat", *arguments], input=stdin, capture_output=True, timeout=timeout_s, check=False)
    except subprocess.TimeoutExpired as error:
        raise TimeoutError(f"kcat did not end within {timeout_s:.0f} s") from error


def checked(done: subprocess.CompletedProcess[bytes]) -> subprocess.CompletedProcess[bytes]:
    if done.returncode:
        raise KcatFailed(errors_of(done.stderr) or f"it ended with {done.returncode}")
    return done


def errors_of(log: bytes) -> str:
    """Return those lines of kcat's log that report errors, joined to one text."""
    return "; ".join(line for line in log.decode(errors="replace").splitlines() if "ERROR" in line or "failed" in line or "fatal" in line)


def failure(error: BaseException) -> Failure | None:
    if not isinstance(error, KcatFailed):
        return None
    text = str(error)
    code = next((name for words, name in _KAFKA_NAMES.items() if words in text), "CLIENT:kcat")
    return Failure(code, text)


def settings(request: Request, names: Mapping[str, str | None]) -> list[str]:
    """Return kcat's `-X` arguments for the options of a `producer.open` or `consumer.open`. `names` has librdkafka's name of each option;
    None: the caller handles the option. Raises `Unsupported` for an option that is not in `names`."""
    arguments: list[str] = []
    for option, value in request.options.items():
        if option not in names:
            raise Unsupported(f"kcat has no {option}: it has librdkafka's properties and its own arguments only")
        name = names[option]
        if name is not None:
            arguments += ["-X", f"{name}={str(value).lower() if isinstance(value, bool) else value}"]
    return arguments


def records(output: bytes) -> tuple[list[Answer], int]:
    """Return the complete records in kcat's output, and how many bytes of the output they take."""
    found: list[Answer] = []
    place = 0
    while head := _HEAD.match(output, place):
        topic, (partition, offset, timestamp, key_length, value_length) = head[1].decode(), map(int, head.groups()[1:])
        key_end = head.end() + max(0, key_length)
        value_end = key_end + max(0, value_length)
        end = output.find(b"\x01\n", value_end + 1)
        if end < 0:
            break
        found.append(
            taken(
                (topic, partition),
                offset,
                key=None if key_length < 0 else output[head.end() : key_end],
                value=None if value_length < 0 else output[key_end:value_end],
                headers=_headers(output[value_end + 1 : end]),
                timestamp=timestamp,
                timestamp_type=None,
            )
        )
        place = end + 2
    return found, place


def _headers(text: bytes) -> list[tuple[str, bytes | None]]:
    pairs: list[Any] = [one.partition(b"=") for one in text.split(b",") if one]
    return [(name.decode(), None if value == b"NULL" else value) for name, _, value in pairs]
