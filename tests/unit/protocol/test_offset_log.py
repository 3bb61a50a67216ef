"""Offset commit records, compared with bytes written by Kafka."""

from __future__ import annotations

import pytest

from ottla.protocol.offset_log import OFFSET_COMMIT, OffsetCommitKey, OffsetCommitValue
from ottla.protocol.schema import decode, encode_prefixed, read_prefix


def test_offset_commit_key_is_its_type_and_three_fields() -> None:
    assert encode_prefixed(OffsetCommitKey("g", "t", 7), OFFSET_COMMIT) == b"\0\1\0\1g\0\1t\0\0\0\7"


@pytest.mark.parametrize(("version", "expiry", "epoch"), [(1, 99, -1), (2, -1, -1), (3, -1, 5), (4, -1, 5)])
def test_offset_commit_value_has_the_fields_of_its_version(version: int, expiry: int, epoch: int) -> None:
    written = encode_prefixed(OffsetCommitValue(10, 5, "m", 1000, 99), version)
    found, body = read_prefix(written)
    value = decode(OffsetCommitValue, body, found)
    assert (value.offset, value.metadata, value.commit_timestamp) == (10, "m", 1000)
    assert (value.expire_timestamp, value.leader_epoch) == (expiry, epoch)
