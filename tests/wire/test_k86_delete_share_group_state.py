from __future__ import annotations

from ottla.protocol.client import Client
from ottla.protocol.error_codes import ErrorCode
from tests.support.running_broker import RunningBroker
from tests.support.share_group_calls import delete, initialize, prepare, read, refusals, summary


def test_deleted_state_stays_deleted(broker: RunningBroker, client: Client) -> None:
    topic_id = prepare(client)
    initialize(client, topic_id)
    assert [delete(client, topic_id).error_code for _ in range(2)] == [0, 0]
    broker.restart(kill=True)
    with broker.client() as again:
        assert read(again, topic_id).error_code == ErrorCode.INVALID_REQUEST
        assert summary(again, topic_id).start_offset == -1


def test_unknown_partitions_are_refused(client: Client) -> None:
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert refusals(client, prepare(client), delete) == [unknown, unknown, ErrorCode.INVALID_REQUEST]
