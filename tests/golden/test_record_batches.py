"""Batches of two independent implementations, kafka-python and aiokafka: their bytes equal Ottla's, and each side reads the other's."""

from __future__ import annotations

import warnings
from typing import Any

import aiokafka.record.default_records as aiokafka_records
import pytest

from ottla.protocol.records.batch import crc_ok, read_header, split_batches, stamp
from ottla.protocol.records.compression import Codec
from ottla.protocol.records.record import SimpleRecord, build_batch, iter_records

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # kafka-python reads its schemas by a way that Python 3.11 calls deprecated
    import kafka.codec
    import kafka.record.default_records as kafka_python_records

PRODUCER = {"producer_id": 4711, "producer_epoch": 2, "base_sequence": 2**31 - 2}

BATCHES = {
    "one record": [SimpleRecord(b"key", b"value", 1_700_000_000_000)],
    "nulls and empties": [SimpleRecord(None, b"", 5), SimpleRecord(b"", None, 5), SimpleRecord(None, None, 5)],
    "timestamps that go back": [SimpleRecord(b"k", b"v", ts) for ts in (10_000, 1, 20_000, 9_999)],
    "headers": [SimpleRecord(b"k", b"v", 7, [("a", b"1"), ("a", None), ("ключ", b"")])],
    "many": [SimpleRecord(b"%d" % i, b"value %d " % i * (i % 50), 1_000 + i) for i in range(3000)],
}


def with_library(builder: Any, records: list[SimpleRecord], codec: Codec, transactional: bool = False, **producer: int) -> bytes:
    ids = {"producer_id": -1, "producer_epoch": -1, "base_sequence": -1} | producer
    batch = builder(magic=2, compression_type=int(codec), is_transactional=transactional, batch_size=1 << 24, **ids)
    for i, record in enumerate(records):
        assert batch.append(i, timestamp=record.timestamp, key=record.key, value=record.value, headers=list(record.headers)) is not None
    return bytes(batch.build())


LIBRARIES = {
    "kafka-python": (kafka_python_records.DefaultRecordBatchBuilder, kafka_python_records.DefaultRecordBatch),
    "aiokafka": (aiokafka_records.DefaultRecordBatchBuilder, aiokafka_records.DefaultRecordBatch),
    "aiokafka in Python": (aiokafka_records._DefaultRecordBatchBuilderPy, aiokafka_records._DefaultRecordBatchPy),
}


def has(library: str, codec: Codec) -> bool:
    return codec is not Codec.SNAPPY or library != "kafka-python" or bool(kafka.codec.has_snappy())


CASES = [(library, codec) for library in LIBRARIES for codec in Codec if has(library, codec)]


@pytest.mark.parametrize("records", list(BATCHES.values()), ids=list(BATCHES))
@pytest.mark.parametrize("library", list(LIBRARIES))
@pytest.mark.parametrize("producer", [{}, PRODUCER, PRODUCER | {"transactional": True}], ids=["plain", "idempotent", "transactional"])
def test_uncompressed_batches_are_equal_byte_for_byte(library: str, records: list[SimpleRecord], producer: dict[str, int]) -> None:
    theirs = with_library(LIBRARIES[library][0], records, Codec.NONE, **producer)  # type: ignore[arg-type]  # ids and one flag by name
    epoch = read_header(theirs).partition_leader_epoch  # outside the CRC: kafka-python sends 0 where Java sends -1
    assert build_batch(records, leader_epoch=epoch, **producer) == theirs  # type: ignore[arg-type]  # ids and one flag by name


@pytest.mark.parametrize(("library", "codec"), CASES)
@pytest.mark.parametrize("records", list(BATCHES.values()), ids=list(BATCHES))
def test_ottla_reads_batches_of_other_libraries(library: str, codec: Codec, records: list[SimpleRecord]) -> None:
    theirs = with_library(LIBRARIES[library][0], records, codec)
    [(_, header)] = split_batches(theirs)
    assert crc_ok(theirs, header)
    if len(records) > 100:
        assert header.codec is codec, "the library gave up compressing"
    assert [(r.key, r.value, r.timestamp, list(r.headers)) for r in iter_records(theirs)] == [
        (r.key, r.value, r.timestamp, list(r.headers)) for r in records
    ]


@pytest.mark.parametrize(("library", "codec"), CASES)
@pytest.mark.parametrize("records", list(BATCHES.values()), ids=list(BATCHES))
def test_other_libraries_read_batches_that_ottla_builds_and_stamps(library: str, codec: Codec, records: list[SimpleRecord]) -> None:
    head, tail = stamp(build_batch(records, codec=codec), 1000, 3)
    theirs = LIBRARIES[library][1](head + bytes(tail))
    assert theirs.validate_crc()
    assert [(r.offset, r.key, r.value, r.timestamp, list(r.headers)) for r in theirs] == [
        (1000 + i, r.key, r.value, r.timestamp, list(r.headers)) for i, r in enumerate(records)
    ]
