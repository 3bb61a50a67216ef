from __future__ import annotations

import pytest

from ottla.protocol.errors import ProtocolError
from ottla.protocol.schema import (
    ZERO_UUID,
    Message,
    array,
    decode,
    decoder,
    encode,
    encode_prefixed,
    encoder,
    int32,
    int64,
    read_prefix,
    string,
    uuid,
    wire_struct,
)


@wire_struct
class OffsetCommitKey(Message, versions="0-1"):
    group: str = string()
    topic: str = string()
    partition: int = int32()


@wire_struct
class OffsetCommitValue(Message, versions="0-4", flexible="4+"):
    offset: int = int64()
    leader_epoch: int = int32("3+", default=-1)
    metadata: str = string()
    commit_timestamp: int = int64()
    expire_timestamp: int = int64("1", default=-1)
    topic_id: bytes = uuid("4+", tag=0)


def test_internal_topics_key_is_its_type_and_fixed_encoding_fields() -> None:
    key = OffsetCommitKey("g", "topic", 3)
    data = encode_prefixed(key, 1, prefix=1)
    assert data == b"\0\1" + b"\0\1g" + b"\0\5topic" + b"\0\0\0\3"
    record_type, body = read_prefix(data)
    assert (record_type, decode(OffsetCommitKey, body, 1)) == (1, key)


def test_internal_topics_value_starts_with_its_version() -> None:
    value = OffsetCommitValue(7, 2, "m", 1000, topic_id=b"t" * 16)
    data = encode_prefixed(value, 4)
    assert data == b"\0\4" + b"\0\0\0\0\0\0\0\7" + b"\0\0\0\2" + b"\2m" + (1000).to_bytes(8, "big") + b"\1\0\x10" + b"t" * 16
    version, body = read_prefix(data)
    assert decode(OffsetCommitValue, body, version) == value


def test_fields_absent_in_a_version_are_omitted_and_decoded_as_defaults() -> None:
    value = OffsetCommitValue(7, 2, "m", 1000, 5, b"t" * 16)
    assert decode(OffsetCommitValue, encode(value, 0), 0) == OffsetCommitValue(7, -1, "m", 1000, -1, ZERO_UUID)
    assert decode(OffsetCommitValue, encode(value, 1), 1) == OffsetCommitValue(7, -1, "m", 1000, 5, ZERO_UUID)


def test_message_class_has_its_versions() -> None:
    assert (OffsetCommitValue.MIN_VERSION, OffsetCommitValue.MAX_VERSION, OffsetCommitValue.FLEXIBLE_SINCE) == (0, 4, 4)
    assert OffsetCommitKey.FLEXIBLE_SINCE > OffsetCommitKey.MAX_VERSION


@pytest.mark.parametrize("version", [-1, 5])
def test_unsupported_version_is_rejected(version: int) -> None:
    with pytest.raises(ProtocolError, match="OffsetCommitValue has no version"):
        decode(OffsetCommitValue, b"", version)
    with pytest.raises(ValueError, match="OffsetCommitValue has no version"):
        encode(OffsetCommitValue(), version)


def test_record_without_a_prefix_is_rejected() -> None:
    with pytest.raises(ProtocolError):
        read_prefix(b"\0")


def test_encoders_and_decoders_are_compiled_once() -> None:
    assert encoder(OffsetCommitValue, 3) is encoder(OffsetCommitValue, 3)
    assert decoder(OffsetCommitValue, 3) is decoder(OffsetCommitValue, 3)


def test_array_of_empty_elements_cannot_be_declared() -> None:
    @wire_struct
    class Nothing:
        pass

    @wire_struct
    class Many(Message, versions="0"):
        nothings: list[Nothing] = array(Nothing)

    with pytest.raises(TypeError, match="cannot be counted"):
        decode(Many, b"\0\0\0\0", 0)
