from __future__ import annotations

import pytest

from ottla.protocol.client import Client
from ottla.protocol.error_codes import ErrorCode
from tests.support.share_group_calls import initialize, prepare, read, refusals, summary, write


@pytest.mark.parametrize(("version", "count"), [(0, -1), (1, 7)])
def test_a_summary_has_the_start_offset_and_the_epochs(client: Client, version: int, count: int) -> None:
    topic_id = prepare(client)
    initialize(client, topic_id)
    read(client, topic_id, leader_epoch=4)
    write(client, topic_id, leader_epoch=4, start_offset=3, delivery_complete_count=7)
    found = summary(client, topic_id, version=version)
    assert (found.error_code, found.state_epoch, found.leader_epoch, found.start_offset) == (0, 1, 4, 3)
    assert found.delivery_complete_count == count


def test_a_share_partition_without_state_has_no_start_offset(client: Client) -> None:
    found = summary(client, prepare(client))
    assert (found.error_code, found.state_epoch, found.leader_epoch, found.start_offset, found.delivery_complete_count) == (0, 0, 0, -1, -1)


def test_unknown_partitions_are_refused(client: Client) -> None:
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert refusals(client, prepare(client), summary) == [unknown, unknown, ErrorCode.INVALID_REQUEST]
