"""The responses that reject a whole request equal those of Kafka's `AbstractRequest.getErrorResponse`, for every API in every version."""

from __future__ import annotations

import dataclasses
import itertools
import subprocess
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from client_compat.kafka.compiled import compiled
from client_compat.kafka.jars import KafkaMissing, java
from ottla.broker.api.error_response import error_response
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.codec import decode_response, encode_response
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.fields import ArrayOf, Kind, wire_fields
from ottla.protocol.messages.registry import declared_keys, request_class, response_class
from ottla.protocol.schema import Message, decoder, encoder
from tests.support.apache_kafka import jars_or_skip

TEXT = "the text of an exception"
KAFKA_FAILS = {(ApiKey.DESCRIBE_ACLS, "default")}
"""Kafka rejects these while it parses them, so no response is made."""


class Case(NamedTuple):
    """One rejected request: the body that Kafka reads, and the request that Ottla reads from it."""

    key: ApiKey
    version: int
    content: str
    body: bytes

    @property
    def request(self) -> Message:
        request: Message = decoder(request_class(self.key), self.version, exact=False)(memoryview(self.body), 0, len(self.body))
        return request


def cases() -> Iterator[Case]:
    for key in declared_keys():
        class_ = request_class(key)
        for version in range(class_.MIN_VERSION, class_.MAX_VERSION + 1):
            for content, request in (("default", class_()), ("filled", filled(class_, version, itertools.count(1)))):
                yield Case(key, version, content, body_of(request, version))


def filled(type_: Any, version: int, numbers: Iterator[int]) -> Any:
    """Return a message with two elements in each array and a different value in every field."""
    values = {field.name: value_of(field.name, field.type, version, numbers) for field in wire_fields(type_) if version in field.versions}
    return type_(**values)


def value_of(name: str, kind: Any, version: int, numbers: Iterator[int]) -> Any:
    if isinstance(kind, ArrayOf):
        return [value_of(name, kind.element, version, numbers) for _ in range(2)]
    if not isinstance(kind, Kind):
        return filled(kind, version, numbers)
    number = next(numbers)
    fixed = {"boolean": True, "int8": 1, "bytes": b"", "records": b"", "float64": float(number), "uuid": number.to_bytes(16, "big")}
    return f"{name}-{number}" if kind.name == "string" else fixed.get(kind.name, number)


def body_of(message: Message, version: int) -> bytes:
    head, parts = bytearray(), list[Any]()
    last = encoder(type(message), version)(message, head, parts)
    return b"".join([*parts, last]) if parts else bytes(head)


def kafkas(all_cases: list[Case], error: ErrorCode) -> list[str]:
    jars = jars_or_skip()
    try:
        path = f"{compiled('ErrorResponses')}:{jars}/*"
    except KafkaMissing as missing:
        pytest.skip(str(missing))
    lines = "".join(f"{int(case.key)} {case.version} {int(error)} {case.body.hex()} {TEXT}\n" for case in all_cases)
    run = subprocess.run([java(), "-cp", path, "ErrorResponses"], input=lines, capture_output=True, text=True, timeout=120, check=True)
    return run.stdout.splitlines()


def plain(value: Any) -> Any:
    """Return the value with lists sorted, because in some of Kafka's responses the order of elements is that of a hash map."""
    if dataclasses.is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, list):
        return sorted((plain(each) for each in value), key=repr)
    return bytes(value) if isinstance(value, memoryview) else value


@pytest.mark.parametrize("error", [ErrorCode.ILLEGAL_SASL_STATE, ErrorCode.CLUSTER_AUTHORIZATION_FAILED])
def test_a_rejected_request_has_kafkas_error_response(error: ErrorCode) -> None:
    all_cases = list(cases())
    answers = kafkas(all_cases, error)
    assert len(answers) == len(all_cases)
    assert answers.count("?") < len(all_cases) / 10, "nearly all are compared"
    different = []
    for case, answer in zip(all_cases, answers, strict=True):
        where = f"{case.key.name} {case.version} {case.content}"
        if answer == "?":  # of a later release than the jars'
            continue
        if answer.startswith("!"):
            assert (case.key, case.content) in KAFKA_FAILS, f"{where}: {answer}"
            continue
        if answer == "-":
            assert case.key is ApiKey.PRODUCE, where
            continue
        bytes_ = bytes.fromhex(answer.removeprefix("="))
        theirs = decoder(response_class(case.key), case.version)(memoryview(bytes_), 0, len(bytes_))
        ours = body_of(error_response(case.key, case.version, case.request, error, TEXT), case.version)
        mine = decoder(response_class(case.key), case.version)(memoryview(ours), 0, len(ours))
        if plain(theirs) != plain(mine):
            different.append(f"{where}:\n  Kafka {plain(theirs)}\n  Ottla {plain(mine)}")
    assert not different, "\n".join(different)


def test_every_error_response_can_be_encoded_without_a_text() -> None:
    for case in cases():
        response = error_response(case.key, case.version, case.request, ErrorCode.REQUEST_TIMED_OUT)
        frame = b"".join(encode_response(case.key, case.version, 1, response))
        correlation_id, read = decode_response(case.key, case.version, frame[4:])
        assert b"".join(encode_response(case.key, case.version, correlation_id, read)) == frame, f"{case.key.name} v{case.version}"
