from __future__ import annotations

import pytest

from ottla.broker.groups.coordinator import Commit, OffsetToCommit
from ottla.protocol.client import Client
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k09_offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from tests.support.group_calls import commit, find_coordinator
from tests.support.running_broker import RunningBroker
from tests.support.topic_calls import create, describe


@pytest.fixture(autouse=True)
def _offsets(client: Client) -> None:
    create(client, "t", partitions=2)
    create(client, "u")
    find_coordinator(client)
    assert commit(client, 5, metadata="m") == 0
    assert commit(client, 6, topic="u") == 0


@pytest.mark.parametrize("version", range(1, 8))
def test_one_group_is_answered_by_partition_with_minus_one_without_a_commit(client: Client, version: int) -> None:
    response = client.call(OffsetFetchRequest("g", [OffsetFetchRequestTopic("t", [0, 1])]), version=version)
    assert response.error_code == 0
    (topic,) = response.topics
    epoch = 2 if version >= 5 else -1
    assert [(p.partition_index, p.committed_offset, p.committed_leader_epoch, p.metadata, p.error_code) for p in topic.partitions] == [
        (0, 5, epoch, "m", 0),
        (1, -1, -1, "", 0),
    ]


@pytest.mark.parametrize("version", range(2, 8))
def test_without_topics_all_committed_offsets_of_a_group_are_returned(client: Client, version: int) -> None:
    response = client.call(OffsetFetchRequest("g", None), version=version)
    assert {(topic.name, one.partition_index, one.committed_offset) for topic in response.topics for one in topic.partitions} == {
        ("t", 0, 5),
        ("u", 0, 6),
    }


@pytest.mark.parametrize("version", [8, 9])
def test_several_groups_are_answered_one_by_one_and_an_unknown_one_without_an_error(client: Client, version: int) -> None:
    groups = [
        OffsetFetchRequestGroup("g", topics=None),
        OffsetFetchRequestGroup("nobody", topics=[OffsetFetchRequestTopics("t", partition_indexes=[0])]),
        OffsetFetchRequestGroup("nobody either", topics=None),
    ]
    known, unknown, empty = client.call(OffsetFetchRequest(groups=groups, require_stable=True), version=version).groups
    assert (known.group_id, known.error_code, {topic.name for topic in known.topics}) == ("g", 0, {"t", "u"})
    one = unknown.topics[0].partitions[0]
    assert (unknown.error_code, one.committed_offset, one.committed_leader_epoch, one.metadata, one.error_code) == (0, -1, -1, "", 0)
    assert (empty.error_code, empty.topics) == (0, [])


def test_topics_are_named_by_id_since_version_10_and_an_unknown_id_has_its_own_error(client: Client) -> None:
    (topic,) = describe(client, "t")
    topics = [OffsetFetchRequestTopics(topic_id=ident, partition_indexes=[0]) for ident in (b"\7" * 16, topic.topic_id, bytes(16))]
    groups = [OffsetFetchRequestGroup("g", topics=topics), OffsetFetchRequestGroup("g", topics=None)]
    named, whole = client.call(OffsetFetchRequest(groups=groups, require_stable=True), version=10).groups
    assert [(found.topic_id, [(one.committed_offset, one.error_code) for one in found.partitions]) for found in named.topics] == [
        (topic.topic_id, [(5, ErrorCode.NONE)]),
        (b"\7" * 16, [(-1, ErrorCode.UNKNOWN_TOPIC_ID)]),
        (bytes(16), [(-1, ErrorCode.UNKNOWN_TOPIC_ID)]),
    ]
    assert {found.topic_id for found in whole.topics} == {known.topic_id for known in describe(client, "t", "u")}


def test_without_an_offsets_topic_the_error_is_in_the_versions_field(broker: RunningBroker) -> None:
    with RunningBroker(broker.data_dir.with_name("other")) as fresh, fresh.client() as stranger:
        error = ErrorCode.NOT_COORDINATOR
        (topic,) = stranger.call(OffsetFetchRequest("g", [OffsetFetchRequestTopic("t", [0])]), version=1).topics
        assert [(one.committed_offset, one.error_code) for one in topic.partitions] == [(-1, error)]
        assert stranger.call(OffsetFetchRequest("g", []), version=7).error_code == error
        (group,) = stranger.call(OffsetFetchRequest(groups=[OffsetFetchRequestGroup("g", topics=[])]), version=9).groups
        assert group.error_code == error


def test_an_offset_of_an_earlier_topic_with_the_name_is_not_returned_by_id(broker: RunningBroker, client: Client) -> None:
    (topic,) = describe(client, "t")
    earlier = Commit(group_id="g", offsets=[OffsetToCommit("t", 1, 7, topic_id=b"\7" * 16)])
    broker.call_until(lambda running: running.services.groups.commit(earlier) is not None)
    requested = OffsetFetchRequestTopics("t", topic.topic_id, [0, 1])
    for version, offsets in ((9, [5, 7]), (10, [5, -1])):
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup("g", topics=[requested])], require_stable=True)
        (group,) = client.call(request, version=version).groups
        assert [one.committed_offset for one in group.topics[0].partitions] == offsets
