"""Producer with `kcat -P`: records with equal partition, key and headers are sent by one kcat process, each from a file; each other record
by a process of its own."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from client_compat.clients.control import Answer, Failure, Request, Unsupported, from_wire
from client_compat.clients.kcat.command import KcatFailed, errors_of, failure, kcat, settings

SETTINGS: Mapping[str, str | None] = {
    "client_id": "client.id",
    "acks": "acks",
    "idempotent": "enable.idempotence",
    "linger_ms": "linger.ms",
    "batch_bytes": "batch.size",
    "compression": "compression.codec",
    "max_in_flight": "max.in.flight.requests.per.connection",
    "retries": "retries",
    "request_timeout_ms": "request.timeout.ms",
    "delivery_timeout_ms": "delivery.timeout.ms",
    "max_request_bytes": "message.max.bytes",
    "partitioner": None,
}
KEY_END = b"\x1f"
FILES_MAX = 500
"""The maximum number of records that one kcat process sends: each is a file among its arguments, whose number is limited."""
_DELIVERED = re.compile(rb"Message delivered to partition (-?\d+) \(offset (-?\d+)\)")


class Producer:
    def __init__(self, request: Request) -> None:
        if request.get("transactional_id"):
            raise Unsupported("kcat commits a transaction when its input ends, in one run: it cannot be told to begin, commit or abort one")
        partitioner = request.get("partitioner", "default")
        if partitioner == "last":
            raise Unsupported("kcat has no custom partitioners")
        self._arguments = ["-P", "-E", "-vvv", "-b", request["bootstrap"], *settings(request, SETTINGS)]
        if partitioner == "murmur2":
            self._arguments += ["-X", "topic.partitioner=murmur2_random"]

    def send(self, request: Request) -> Answer:
        records = request["records"]
        results: list[Answer] = [{}] * len(records)
        for indexes in _runs([_kind(record) for record in records], request.get("mode", "async") == "async"):
            for index, result in zip(indexes, self._run(request, [records[index] for index in indexes]), strict=True):
                results[index] = result
        return {"results": results}

    def _run(self, request: Request, batch: list[Mapping[str, Any]]) -> Iterator[Answer]:
        first = batch[0]
        if _empty(first):
            yield from self._result(
                kcat(*self._arguments, "-t", request["topic"], *_of(first), stdin=_line(first), timeout_s=request.timeout_s), 1
            )
            return
        with tempfile.TemporaryDirectory(prefix="kcat-") as directory:
            files = [Path(directory) / str(number) for number in range(len(batch))]
            for file, record in zip(files, batch, strict=True):
                file.write_bytes(from_wire(record.get("value")) or b"")
            done = kcat(*self._arguments, "-t", request["topic"], *_of(first), *map(str, files), timeout_s=request.timeout_s)
        yield from self._result(done, len(batch))

    @staticmethod
    def _result(done: subprocess.CompletedProcess[bytes], count: int) -> Iterator[Answer]:
        delivered = [{"partition": int(one[1]), "offset": int(one[2])} for one in _DELIVERED.finditer(done.stderr)][:count]
        yield from delivered
        failed = failure(KcatFailed(errors_of(done.stderr) or f"{len(delivered)} of {count} records were delivered"))
        for _ in range(count - len(delivered)):
            yield {"error": (failed or Failure("CLIENT:kcat")).as_json()}

    def close(self) -> None:
        """Do nothing, because no kcat process runs between two operations."""


def _runs(kinds: Sequence[tuple[Any, ...]], together: bool) -> Iterator[list[int]]:
    """Yield, for each kcat process to start, the indexes of the records that it sends. `kinds`: the result of `_kind` for each record; one
    process sends only records of the same kind. If `together` is false, each record gets its own process.

    Records of a partition stay in order. A record without a partition is sent alone, because its delivery report could not be identified,
    and so is an empty record, which cannot be a file.
    """
    if not together:
        yield from ([index] for index in range(len(kinds)))
        return
    groups: dict[Any, list[int]] = {}
    for index, kind in enumerate(kinds):
        alone = kind[0] is None or kind[-1]
        groups.setdefault((kind, index if alone else None), []).append(index)
    for group in groups.values():
        yield from (group[start : start + FILES_MAX] for start in range(0, len(group), FILES_MAX))


def _kind(record: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return (partition, key, headers, whether the value is empty or null): one kcat process can send only records for which these are
    equal. Raises `Unsupported` for records that kcat cannot send."""
    key, value = from_wire(record.get("key")), from_wire(record.get("value"))
    if record.get("timestamp") is not None:
        raise Unsupported("kcat gives records the time of sending only")
    if key == b"" or (key is not None and b"\0" in key):
        raise Unsupported("kcat takes keys as an argument, which can be neither empty nor hold a zero byte")
    headers = [(name, from_wire(content)) for name, content in record.get("headers") or ()]
    if any(content is None or b"\0" in content for _, content in headers):
        raise Unsupported("kcat takes headers as an argument, which can neither be null nor hold a zero byte")
    if not value and (key is None or b"\n" in key or KEY_END in key):
        raise Unsupported("kcat skips input without bytes: it sends an empty or null value only after a key on a line of text")
    return (record.get("partition"), key, tuple(headers), not value)


def _empty(record: Mapping[str, Any]) -> bool:
    return not from_wire(record.get("value"))


def _line(record: Mapping[str, Any]) -> bytes:
    """Return kcat's standard input for a record with an empty value."""
    return (from_wire(record.get("key")) or b"") + KEY_END + b"\n"


def _of(record: Mapping[str, Any]) -> list[str]:
    """Return kcat's command-line arguments for a record's partition, key, headers and null value."""
    arguments: list[str] = []
    if record.get("partition") is not None:
        arguments += ["-p", str(record["partition"])]
    key = from_wire(record.get("key"))
    if _empty(record):
        arguments += ["-K", KEY_END.decode()]
    elif key is not None:
        arguments += ["-k", key.decode(errors="surrogateescape")]
    for name, content in record.get("headers") or ():
        arguments += ["-H", f"{name}={(from_wire(content) or b'').decode(errors='surrogateescape')}"]
    return arguments if record.get("value") is not None else [*arguments, "-Z"]
