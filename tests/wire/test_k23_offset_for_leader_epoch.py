from __future__ import annotations

import pytest

from ottla.protocol.client import Client
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k23_offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tests.support.running_broker import RunningBroker
from tests.support.topic_calls import create, produce


def ask(client: Client, leader_epoch: int, *, current: int = -1, topic: str = "t", version: int = 4) -> EpochEndOffset:
    requested = OffsetForLeaderTopic(topic, [OffsetForLeaderPartition(0, current, leader_epoch)])
    answer = client.call(OffsetForLeaderEpochRequest(-1, [requested]), version=version).topics[0].partitions[0]
    assert isinstance(answer, EpochEndOffset)
    return answer


@pytest.mark.parametrize("version", [2, 3, 4])
def test_the_current_epoch_ends_at_the_log_end_offset(client: Client, version: int) -> None:
    create(client, "t")
    produce(client, "t", b"a", b"b")
    answer = ask(client, 0, version=version)
    assert (answer.error_code, answer.partition, answer.leader_epoch, answer.end_offset) == (0, 0, 0, 2)


def test_an_older_epoch_ends_where_the_next_began(broker: RunningBroker, client: Client) -> None:
    create(client, "t")
    produce(client, "t", b"a", b"b")
    broker.restart(kill=True)
    with broker.client() as after:
        produce(after, "t", b"c")
        assert [(answer.leader_epoch, answer.end_offset) for answer in (ask(after, 0), ask(after, 1))] == [(0, 2), (1, 3)]


def test_a_newer_epoch_is_unknown(client: Client) -> None:
    create(client, "t")
    answer = ask(client, 5)
    assert (answer.error_code, answer.leader_epoch, answer.end_offset) == (0, -1, -1)


@pytest.mark.parametrize(("current", "error"), [(-1, ErrorCode.NONE), (0, ErrorCode.NONE), (1, ErrorCode.UNKNOWN_LEADER_EPOCH)])
def test_a_client_with_another_leader_epoch_gets_an_error(client: Client, current: int, error: ErrorCode) -> None:
    create(client, "t")
    assert ask(client, 0, current=current).error_code == error


def test_an_unknown_partition_is_a_partition_error(client: Client) -> None:
    assert ask(client, 0, topic="absent").error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_the_epoch_of_an_empty_log_ends_where_it_begins(client: Client) -> None:
    create(client, "t")
    assert (ask(client, 0).leader_epoch, ask(client, 0).end_offset) == (0, 0)
