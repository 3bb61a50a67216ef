"""The records of the metadata log; that they are Kafka's, byte for byte, is shown in `tests/golden/test_metadata_records.py`."""

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
def test_a_record_with_only_defaults_survives_the_way_to_the_log_and_back_in_each_version(kind: type) -> None:
    for version in range(kind.MAX_VERSION + 1):  # type: ignore[attr-defined]  # a message's class attribute
        assert decode_record(encode_record(kind(), version)) == (kind(), version)


def test_the_frame_tells_kind_and_version_without_reading_the_body() -> None:
    kind, version, body = read_frame(encode_record(PartitionChangeRecord(topic_id=ID), 2))
    assert (kind, version, len(body)) == (5, 2, 4 + 16 + 1)


def test_what_a_version_lacks_is_left_out() -> None:
    record = RegisterBrokerRecord(broker_id=1, log_dirs=[ID], cordoned_log_dirs=[], in_controlled_shutdown=True)
    read, _ = decode_record(encode_record(record, 3))
    assert read == RegisterBrokerRecord(broker_id=1, log_dirs=[ID], in_controlled_shutdown=True)
    assert decode_record(encode_record(record, 0))[0] == RegisterBrokerRecord(broker_id=1)


def test_transactions_may_say_their_name_and_the_reason_of_their_end() -> None:
    assert encode_record(BeginTransactionRecord(), 0).hex() == "01170000"
    assert encode_record(BeginTransactionRecord("x"), 0).hex() == "0117000100020278"
    assert decode_record(encode_record(AbortTransactionRecord("why"), 0))[0] == AbortTransactionRecord("why")


@pytest.mark.parametrize(("value", "kind", "version"), [("010600", 6, 0), ("01100000", 16, 0), ("011d00", 29, 0), ("010503", 5, 3)])
def test_a_kind_or_version_that_this_broker_does_not_know_is_named_in_the_error(value: str, kind: int, version: int) -> None:
    with pytest.raises(UnknownRecord) as caught:
        decode_record(bytes.fromhex(value))
    assert (caught.value.kind, caught.value.version) == (kind, version)
    assert f"version {version}" in str(caught.value)


def test_a_version_that_the_kind_does_not_have_is_not_written() -> None:
    with pytest.raises(ValueError, match="version 1"):
        encode_record(TopicRecord("a", ID), 1)


@pytest.mark.parametrize(
    "damaged", ["", "01", "0102", "00 02 00", "02 14 00 00", "01 14 00", "01 14 00 00 00", "01 ffff7f 00", "01 02 00 04 66"]
)
def test_a_damaged_record_is_a_protocol_error(damaged: str) -> None:
    with pytest.raises(ProtocolError):
        decode_record(bytes.fromhex(damaged))


def test_a_frame_of_another_version_is_refused() -> None:
    assert decode_record(encode_record(NoOpRecord(), 0)) == (NoOpRecord(), 0)
    with pytest.raises(MalformedMessage, match="frame version"):
        read_frame(bytes.fromhex("00140000"))
