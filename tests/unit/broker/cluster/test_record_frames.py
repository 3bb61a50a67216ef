"""The frames of metadata records; the byte comparison with Kafka is in `tests/golden/test_metadata_records.py`."""

from __future__ import annotations

import pytest

from ottla.broker.cluster.metadata_records import (
    KINDS,
    AbortTransactionRecord,
    BeginTransactionRecord,
    NoOpRecord,
    PartitionChangeRecord,
    RegisterBrokerRecord,
    TopicRecord,
)
from ottla.broker.cluster.record_frames import UnknownRecord, decode_record, encode_record, read_frame
from ottla.protocol.errors import MalformedMessage, ProtocolError

ID = bytes(range(16))


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.__name__)
def test_a_default_record_round_trips_in_every_version(kind: type) -> None:
    for version in range(kind.MAX_VERSION + 1):  # type: ignore[attr-defined]  # a message's class attribute
        assert decode_record(encode_record(kind(), version)) == (kind(), version)


def test_the_frame_gives_type_and_version_without_decoding_the_body() -> None:
    kind, version, body = read_frame(encode_record(PartitionChangeRecord(topic_id=ID), 2))
    assert (kind, version, len(body)) == (5, 2, 4 + 16 + 1)


def test_fields_that_a_version_lacks_are_omitted() -> None:
    record = RegisterBrokerRecord(broker_id=1, log_dirs=[ID], cordoned_log_dirs=[], in_controlled_shutdown=True)
    read, _ = decode_record(encode_record(record, 3))
    assert read == RegisterBrokerRecord(broker_id=1, log_dirs=[ID], in_controlled_shutdown=True)
    assert decode_record(encode_record(record, 0))[0] == RegisterBrokerRecord(broker_id=1)


def test_transaction_records_may_have_a_name_and_a_reason() -> None:
    assert encode_record(BeginTransactionRecord(), 0).hex() == "01170000"
    assert encode_record(BeginTransactionRecord("x"), 0).hex() == "0117000100020278"
    assert decode_record(encode_record(AbortTransactionRecord("why"), 0))[0] == AbortTransactionRecord("why")


@pytest.mark.parametrize(("value", "kind", "version"), [("010600", 6, 0), ("01100000", 16, 0), ("011e00", 30, 0), ("010503", 5, 3)])
def test_an_unknown_type_or_version_is_named_in_the_error(value: str, kind: int, version: int) -> None:
    with pytest.raises(UnknownRecord) as caught:
        decode_record(bytes.fromhex(value))
    assert (caught.value.kind, caught.value.version) == (kind, version)
    assert f"version {version}" in str(caught.value)


def test_an_undefined_record_version_is_not_written() -> None:
    with pytest.raises(ValueError, match="version 1"):
        encode_record(TopicRecord("a", ID), 1)


@pytest.mark.parametrize(
    "damaged", ["", "01", "0102", "00 02 00", "02 14 00 00", "01 14 00", "01 14 00 00 00", "01 ffff7f 00", "01 02 00 04 66"]
)
def test_a_damaged_record_is_a_protocol_error(damaged: str) -> None:
    with pytest.raises(ProtocolError):
        decode_record(bytes.fromhex(damaged))


def test_an_unknown_frame_version_is_refused() -> None:
    assert decode_record(encode_record(NoOpRecord(), 0)) == (NoOpRecord(), 0)
    with pytest.raises(MalformedMessage, match="frame version"):
        read_frame(bytes.fromhex("00140000"))
