from __future__ import annotations

import pytest

from ottla.protocol.api_keys import ApiKey
from ottla.protocol.client import Client
from ottla.protocol.codec import decode_response
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k01_fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.k20_delete_topics import DeleteTopicsRequest, DeleteTopicState
from tests.support.group_calls import find_coordinator
from tests.support.running_broker import RunningBroker
from tests.support.topic_calls import create, delete, describe, produce


@pytest.mark.parametrize("version", range(1, 7))
def test_every_version_deletes_by_name(client: Client, version: int) -> None:
    create(client, "t")
    request = DeleteTopicsRequest([DeleteTopicState("t")], ["t"])
    (result,) = client.call(request, version=version).responses
    assert (result.name, result.error_code) == ("t", 0)
    assert describe(client, "t")[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_topic_deleted_by_id_is_returned_with_its_name(client: Client) -> None:
    topic_id = create(client, "t").topic_id
    topics = [DeleteTopicState(None, topic_id), DeleteTopicState(None, b"\x07" * 16), DeleteTopicState("no")]
    known, unknown_id, unknown_name = client.call(DeleteTopicsRequest(topics), version=6).responses
    assert (known.name, known.topic_id, known.error_code) == ("t", topic_id, 0)
    assert (unknown_id.name, unknown_id.error_code) == (None, ErrorCode.UNKNOWN_TOPIC_ID)
    assert (unknown_name.name, unknown_name.error_code) == ("no", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def test_a_recreated_topic_is_empty_and_has_a_new_id(client: Client) -> None:
    old = create(client, "t").topic_id
    produce(client, "t", b"x", b"y")
    delete(client, "t")
    assert create(client, "t").topic_id != old
    assert produce(client, "t", b"z") == 0


def test_internal_topics_are_rejected(client: Client) -> None:
    find_coordinator(client)
    (result,) = client.call(DeleteTopicsRequest([DeleteTopicState("__consumer_offsets")]), version=6).responses
    assert result.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


@pytest.mark.parametrize(("version", "code"), [(1, ErrorCode.INVALID_REQUEST), (6, ErrorCode.TOPIC_DELETION_DISABLED)])
@pytest.mark.broker_settings({"delete.topic.enable": "false"})
def test_deletion_can_be_disabled(client: Client, version: int, code: ErrorCode) -> None:
    create(client, "t")
    (result,) = client.call(DeleteTopicsRequest([DeleteTopicState("t")], ["t"]), version=version).responses
    assert result.error_code == code
    assert describe(client, "t")[0].error_code == 0


def test_a_pending_fetch_is_completed_with_an_error(broker: RunningBroker, client: Client) -> None:
    create(client, "t")
    fetch = FetchRequest(
        max_wait_ms=60_000,
        min_bytes=1,
        max_bytes=1 << 20,
        topics=[FetchTopic("t", partitions=[FetchPartition(0, fetch_offset=0, partition_max_bytes=1 << 20)])],
    )
    with broker.client() as waiting:
        waiting.send(fetch, 12)
        delete(client, "t")
        _, answer = decode_response(ApiKey.FETCH, 12, waiting.read_frame())
    codes = [partition.error_code for topic in answer.responses for partition in topic.partitions]
    assert codes == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
