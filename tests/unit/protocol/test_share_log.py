"""The record schemas of `__share_group_state`; `tests/unit/broker/share/test_state_records.py` compares them with Kafka's bytes."""

from __future__ import annotations

import pytest

from ottla.protocol.schema import Message, decode, encode
from ottla.protocol.share_log import LoggedBatch, ShareSnapshotKey, ShareSnapshotValue, ShareUpdateKey, ShareUpdateValue

TOPIC = bytes(range(16))


@pytest.mark.parametrize(
    ("message", "version", "flexible"),
    [
        (ShareSnapshotKey("g", TOPIC, 1), 0, False),
        (ShareUpdateKey("g", TOPIC, 1), 1, False),
        (ShareSnapshotValue(1, 2, 3, 4, 5, 6, 7, [LoggedBatch(8, 9, 2, 1)]), 0, True),
        (ShareUpdateValue(1, 3, 4, 5, [LoggedBatch(8, 9, 2, 1)]), 0, True),
    ],
)
def test_a_message_is_read_as_it_was_written(message: Message, version: int, flexible: bool) -> None:
    assert decode(type(message), encode(message, version), version) == message
    assert (version >= message.FLEXIBLE_SINCE) is flexible


def test_an_unknown_count_of_deliveries_takes_no_space() -> None:
    assert len(encode(ShareUpdateValue(delivery_complete_count=-1), 0)) < len(encode(ShareUpdateValue(delivery_complete_count=0), 0))
