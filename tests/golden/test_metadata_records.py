"""Metadata records that Kafka's own classes wrote, of all kinds and versions: Ottla reads the same fields and writes the same bytes.

The committed records were made by `client_compat/kafka/MetadataRecords.java`, which says how; with a JDK it makes new ones in each run.
"""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import json
import random
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from client_compat.kafka.jars import java
from ottla.broker.cluster.metadata_records import KINDS
from ottla.broker.cluster.record_frames import decode_record, encode_record
from ottla.protocol.errors import ProtocolError
from tests.support.apache_kafka import jars_or_skip

RECORDS = Path(__file__).with_name("metadata_records.txt").read_text(encoding="utf-8").splitlines()
PROGRAM = Path(__file__).parents[2] / "client_compat" / "kafka" / "MetadataRecords.java"
JVM = ("-Xmx256m", "-XX:+UseSerialGC", "-Dstdout.encoding=UTF-8")


def as_kafka_prints(value: Any, printed: Any) -> Any:
    """Convert a field's value to Kafka's JSON, of which `printed` is the expected part: bytes have one of two base64 alphabets, and ids no
    padding."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {name: as_kafka_prints(getattr(value, snake(name)), part) for name, part in printed.items()}
    if isinstance(value, list):
        return [as_kafka_prints(part, each) for part, each in zip(value, printed, strict=True)]
    if isinstance(value, bytes):
        text = base64.b64encode(value).decode()
        return text if text == printed else base64.urlsafe_b64encode(value).decode().rstrip("=")
    return value


def snake(name: str) -> str:
    return re.sub("([A-Z])", r"_\1", name).lower()


def all_fields_are_printed(record: Any, printed: dict[str, Any]) -> bool:
    """Return whether the fields that Kafka's JSON leaves out have their default in Ottla's record."""
    silent = [field for field in dataclasses.fields(record) if field.name not in {snake(name) for name in printed}]
    defaults = type(record)()
    return all(getattr(record, field.name) == getattr(defaults, field.name) for field in silent)


def check(lines: list[str]) -> None:
    seen = set()
    for line in lines:
        written, _, text = line.partition(" ")
        printed = json.loads(text)
        record, version = decode_record(bytes.fromhex(written))
        assert as_kafka_prints(record, printed) == printed, line
        assert all_fields_are_printed(record, printed), line
        assert encode_record(record, version).hex() == written, line
        seen.add((type(record), version))
    assert seen == {(kind, version) for kind in KINDS.values() for version in range(kind.MAX_VERSION + 1)}


def test_recorded_metadata_records_of_kafka_round_trip_byte_for_byte() -> None:
    check(RECORDS)


@given(st.data())
def test_damaged_metadata_record_raises_protocol_error_or_decodes_to_another_record(data: st.DataObject) -> None:
    value = bytearray.fromhex(data.draw(st.sampled_from(RECORDS)).partition(" ")[0])
    at = data.draw(st.integers(0, len(value) - 1))
    if data.draw(st.booleans()):
        del value[at:]
    else:
        value[at] ^= data.draw(st.integers(1, 255))
    with contextlib.suppress(ProtocolError):
        record, version = decode_record(value)
        assert decode_record(encode_record(record, version)) == (record, version) or "nan" in repr(record)


def test_random_metadata_records_of_kafka_round_trip_byte_for_byte() -> None:
    classpath = f"{jars_or_skip()}/*"
    if shutil.which("javac") is None:
        pytest.skip("there is no JDK here (Debian: openjdk-17-jdk-headless)")
    seed = random.randrange(1 << 31)
    print("seed", seed)
    made = subprocess.run([java(), *JVM, "-cp", classpath, str(PROGRAM), str(seed), "20"], capture_output=True, timeout=120, check=True)
    check(made.stdout.decode().splitlines())
