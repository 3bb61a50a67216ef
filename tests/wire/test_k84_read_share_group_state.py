from __future__ import annotations

from ottla.protocol.client import Client
from ottla.protocol.error_codes import ErrorCode
from tests.support.share_group_calls import initialize, prepare, read, refusals, write


def test_state_that_was_never_initialized_cannot_be_read(client: Client) -> None:
    found = read(client, prepare(client))
    assert found.error_code == ErrorCode.INVALID_REQUEST
    assert found.error_message == "Read operation on uninitialized share partition not allowed."


def test_a_read_fences_leaders_of_older_epochs(client: Client) -> None:
    topic_id = prepare(client)
    initialize(client, topic_id)
    assert read(client, topic_id, leader_epoch=4).error_code == 0
    for refused in (read(client, topic_id, leader_epoch=3), write(client, topic_id, leader_epoch=3)):
        assert refused.error_code == ErrorCode.FENCED_LEADER_EPOCH
        assert refused.error_message == "The leader epoch in the request is older than the epoch on the broker."


def test_unknown_partitions_are_refused(client: Client) -> None:
    assert set(refusals(client, prepare(client), read)) == {ErrorCode.INVALID_REQUEST}
