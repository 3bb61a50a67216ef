from __future__ import annotations

import pytest

from ottla.protocol.client import Client
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.share_state import StateBatch
from tests.support.running_broker import RunningBroker
from tests.support.share_group_calls import initialize, prepare, read, summary, write


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.broker_settings({"share.coordinator.snapshot.update.records.per.snapshot": "2"})
def test_writes_accumulate_over_snapshots_and_a_crash(broker: RunningBroker, client: Client, version: int) -> None:
    topic_id = prepare(client)
    initialize(client, topic_id)
    assert write(client, topic_id, StateBatch(0, 9, 0, 1), version=version).error_code == 0
    for offset in range(5):
        assert write(client, topic_id, StateBatch(offset, offset, 2, 1), start_offset=offset, version=version).error_code == 0
    broker.restart(kill=True)
    with broker.client() as again:
        found = read(again, topic_id)
        assert (found.start_offset, found.state_batches) == (4, [StateBatch(4, 4, 2, 1), StateBatch(5, 9, 0, 1)])
        assert summary(again, topic_id).delivery_complete_count == (0 if version else -1)


def test_state_that_was_never_initialized_cannot_be_written(client: Client) -> None:
    refused = write(client, prepare(client))
    assert refused.error_code == ErrorCode.INVALID_REQUEST
    assert refused.error_message == "Write operation on uninitialized share partition not allowed."


def test_an_older_state_epoch_is_fenced(client: Client) -> None:
    topic_id = prepare(client)
    initialize(client, topic_id, epoch=2)
    assert write(client, topic_id, state_epoch=1).error_code == ErrorCode.FENCED_STATE_EPOCH
    refused = write(client, topic_id, state_epoch=-1)
    assert (refused.error_code, refused.error_message) == (ErrorCode.INVALID_REQUEST, "The state epoch cannot be a negative number.")
