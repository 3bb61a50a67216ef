from __future__ import annotations

import pytest

from ottla.protocol.client import Client
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k08_offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from tests.support.group_calls import commit, describe, fetch, find_coordinator, join, stable_member
from tests.support.running_broker import RunningBroker
from tests.support.topic_calls import create, delete
from tests.support.topic_calls import describe as describe_topics


@pytest.fixture(autouse=True)
def _topic(client: Client) -> None:
    create(client, "t", partitions=2)
    find_coordinator(client)


@pytest.mark.parametrize("version", range(2, 10))
def test_every_version_stores_the_offset_and_its_metadata(client: Client, version: int) -> None:
    assert commit(client, 42, metadata="nöte", version=version) == 0
    assert fetch(client) == (42, 2 if version >= 6 else -1, "nöte", 0)


def test_a_committed_offset_survives_a_crash(broker: RunningBroker, client: Client) -> None:
    assert commit(client, 42, metadata="x") == 0
    broker.restart(kill=True)
    with broker.client() as again:
        assert fetch(again) == (42, 2, "x", 0)


def test_unknown_partitions_are_rejected_one_by_one(client: Client) -> None:
    topics = [
        OffsetCommitRequestTopic("t", partitions=[OffsetCommitRequestPartition(0, 1), OffsetCommitRequestPartition(9, 1)]),
        OffsetCommitRequestTopic("no", partitions=[OffsetCommitRequestPartition(0, 1)]),
    ]
    response = client.call(OffsetCommitRequest("g", topics=topics), version=9)
    errors = [(topic.name, [(one.partition_index, one.error_code) for one in topic.partitions]) for topic in response.topics]
    assert errors == [("t", [(9, 3), (0, 0)]), ("no", [(0, 3)])]
    assert fetch(client)[0] == 1


def test_topics_are_named_by_id_since_version_10_and_an_unknown_id_has_its_own_error(client: Client) -> None:
    topic_id = describe_topics(client, "t")[0].topic_id
    known = [OffsetCommitRequestPartition(0, 5, 2, "x"), OffsetCommitRequestPartition(9, 1)]
    strangers = [
        OffsetCommitRequestTopic(topic_id=ident, partitions=[OffsetCommitRequestPartition(0, 1)]) for ident in (b"\7" * 16, bytes(16))
    ]
    request = OffsetCommitRequest("g", topics=[OffsetCommitRequestTopic(topic_id=topic_id, partitions=known), *strangers])
    answered = client.call(request, version=10).topics
    assert [(topic.topic_id, [one.error_code for one in topic.partitions]) for topic in answered] == [
        (topic_id, [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NONE]),
        (b"\7" * 16, [ErrorCode.UNKNOWN_TOPIC_ID]),
        (bytes(16), [ErrorCode.UNKNOWN_TOPIC_ID]),
    ]
    assert fetch(client) == (5, 2, "x", 0)


def test_metadata_longer_than_allowed_is_rejected_and_the_rest_is_stored(client: Client) -> None:
    assert commit(client, 1, metadata="x" * 4096) == 0
    assert commit(client, 2, metadata="x" * 4097) == ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert fetch(client)[0] == 1


@pytest.mark.parametrize(("version", "error"), [(8, ErrorCode.ILLEGAL_GENERATION), (9, ErrorCode.GROUP_ID_NOT_FOUND)])
def test_a_generation_of_an_unknown_group_is_rejected(client: Client, version: int, error: ErrorCode) -> None:
    assert commit(client, 1, version=version, generation_id_or_member_epoch=1, member_id="m") == error


def test_only_members_commit_with_the_groups_generation(client: Client) -> None:
    member_id, generation = stable_member(client)
    assert commit(client, 1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert commit(client, 1, member_id=member_id, generation_id_or_member_epoch=generation - 1) == ErrorCode.ILLEGAL_GENERATION
    assert commit(client, 7, member_id=member_id, generation_id_or_member_epoch=generation) == 0
    assert fetch(client)[0] == 7


def test_a_commit_between_join_and_sync_is_rejected_with_a_retriable_error(client: Client) -> None:
    joined = join(client)
    error = commit(client, 1, member_id=joined.member_id, generation_id_or_member_epoch=joined.generation_id)
    assert error == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_commit_without_a_member_creates_a_group_that_only_stores_offsets(client: Client) -> None:
    assert commit(client, 1) == 0
    group = describe(client)
    assert (group.error_code, group.group_state, group.protocol_type, group.members) == (0, "Empty", "", [])


def test_a_recreated_topic_does_not_inherit_offsets(client: Client) -> None:
    assert commit(client, 42) == 0
    delete(client, "t")
    create(client, "t", partitions=2)
    assert fetch(client)[0] == -1


def test_without_an_offsets_topic_there_is_no_coordinator(broker: RunningBroker) -> None:
    with RunningBroker(broker.data_dir.with_name("other")) as fresh, fresh.client() as stranger:
        create(stranger, "t")
        assert commit(stranger, 1) == ErrorCode.NOT_COORDINATOR


def test_an_existing_topic_without_partitions_is_not_in_the_response(client: Client) -> None:
    topics = [OffsetCommitRequestTopic(name) for name in ("t", "no")]
    assert [(topic.name, topic.partitions) for topic in client.call(OffsetCommitRequest("g", topics=topics), 9).topics] == [("no", [])]


def test_a_partition_that_is_committed_twice_has_two_results(client: Client) -> None:
    offsets = [OffsetCommitRequestPartition(0, 3, 0, "x"), OffsetCommitRequestPartition(0, 4, 0, "x" * 4097)]
    (topic,) = client.call(OffsetCommitRequest("g", topics=[OffsetCommitRequestTopic("t", partitions=offsets)]), 9).topics
    assert [one.error_code for one in topic.partitions] == [ErrorCode.NONE, ErrorCode.OFFSET_METADATA_TOO_LARGE]
    assert fetch(client)[0] == 3
