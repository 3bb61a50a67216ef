from __future__ import annotations

from typing import Any

import pytest

from ottla.broker.api.request_parts import (
    ARRAY_LIMITS,
    PART_ELEMENTS,
    SPLITS,
    count_elements,
    join_responses,
    oversized_array,
    split_of,
    split_request,
)
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.codec import request_class, response_class
from ottla.protocol.fields import ArrayOf, wire_fields
from ottla.protocol.messages.k00_produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.messages.k02_list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
    ListOffsetsTopicResponse,
)
from ottla.protocol.messages.k09_offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from ottla.protocol.messages.k11_join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.protocol.messages.k19_create_topics import CreatableTopic, CreatableTopicConfigs, CreateTopicsRequest
from ottla.protocol.messages.k42_delete_groups import DeleteGroupsRequest
from ottla.protocol.messages.k62_broker_registration import BrokerRegistrationRequest
from ottla.protocol.messages.k63_broker_heartbeat import BrokerHeartbeatRequest
from ottla.protocol.messages.k79_share_acknowledge import ShareAcknowledgeRequest
from ottla.protocol.messages.k88_streams_group_heartbeat import StreamsGroupHeartbeatRequest, Topology
from ottla.protocol.messages.k90_describe_share_group_offsets import (
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponseTopic,
)
from ottla.protocol.messages.share_partitions import AcknowledgementBatch, SharePartition, ShareTopic
from ottla.protocol.messages.streams_group import Subtopology, TopicInfo
from ottla.protocol.schema import Message


def test_elements_of_split_and_of_limited_arrays_are_counted() -> None:
    assert count_elements(DeleteGroupsRequest(["a", "b"])) == 2
    assert count_elements(JoinGroupRequest("g", protocols=[JoinGroupRequestProtocol("range")] * 3)) == 3
    topics = [ListOffsetsTopic("t", [ListOffsetsPartition(index) for index in range(4)])] * 2
    assert count_elements(ListOffsetsRequest(topics=topics)) == 2 + 8


def parts_of(request: Message) -> list[Any]:
    split = split_of(request)
    assert split is not None
    return list(split_request(request, split))


@pytest.mark.parametrize("key", SPLITS, ids=lambda key: ApiKey(key).name)
def test_every_split_is_a_path_of_arrays_in_the_messages(key: int) -> None:
    for split in SPLITS[key]:
        for message, path in ((request_class(key), split.request_path.split(".")), (response_class(key), split.response_path.split("."))):
            struct: Any = message
            for name in path:
                found = {field.name: field.type for field in wire_fields(struct)}
                assert isinstance(found[name], ArrayOf), (message, path)
                struct = found[name].element
        struct = request_class(key)
        for name, keys in zip(split.request_path.split("."), split.keys, strict=False):
            struct = {field.name: field.type for field in wire_fields(struct)}[name].element
            assert all(key in {field.name for field in wire_fields(struct)} for key in keys.split())


@pytest.mark.parametrize("key", ARRAY_LIMITS, ids=lambda key: ApiKey(key).name)
def test_every_maximum_belongs_to_an_array_of_the_message(key: int) -> None:
    for path in ARRAY_LIMITS[key]:
        struct: Any = request_class(key)
        for name in path.split("."):
            kind = {field.name: field.type for field in wire_fields(struct)}[name]
            struct = kind.element if isinstance(kind, ArrayOf) else kind
        assert isinstance(kind, ArrayOf)


def test_arrays_inside_a_struct_are_limited() -> None:
    allowed = StreamsGroupHeartbeatRequest(topology=Topology(0, [Subtopology("0", ["t"] * 1_999)]))
    assert oversized_array(allowed) is None
    assert oversized_array(StreamsGroupHeartbeatRequest(topology=None)) is None
    excessive = StreamsGroupHeartbeatRequest(topology=Topology(0, [Subtopology("0", ["t"] * 1_000), Subtopology("1", ["t"] * 1_000)]))
    assert oversized_array(excessive) == "more than 2000 topology.subtopologies.source_topics"
    changelogs = Subtopology("0", ["t"], state_changelog_topics=[TopicInfo("c", 0, 1)] * 2_000)
    excessive = StreamsGroupHeartbeatRequest(topology=Topology(0, [changelogs]))
    assert oversized_array(excessive) == "more than 2000 topology.subtopologies.state_changelog_topics"


def test_the_directories_of_a_broker_are_limited() -> None:
    directories = [bytes(16)] * 1_001
    assert oversized_array(BrokerRegistrationRequest(log_dirs=directories[1:])) is None
    assert oversized_array(BrokerRegistrationRequest(log_dirs=directories)) == "more than 1000 log_dirs"
    assert oversized_array(BrokerHeartbeatRequest()) is None
    assert oversized_array(BrokerHeartbeatRequest(cordoned_log_dirs=directories)) == "more than 1000 cordoned_log_dirs"


def test_a_request_with_few_elements_is_not_split() -> None:
    assert split_of(DeleteGroupsRequest(["g"] * PART_ELEMENTS)) is None
    assert split_of(ListOffsetsRequest(topics=[ListOffsetsTopic("t", [ListOffsetsPartition(0)])])) is None


def test_the_parts_have_every_element_once_and_few_each() -> None:
    names = [f"g{number}" for number in range(3 * PART_ELEMENTS + 1)]
    parts = parts_of(DeleteGroupsRequest(list(names)))
    assert [name for part in parts for name in part.groups_names] == names
    assert all(len(part.groups_names) <= PART_ELEMENTS for part in parts)


def test_a_topic_with_many_partitions_is_split() -> None:
    count = 2 * PART_ELEMENTS + 7
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic("t", [ListOffsetsPartition(index) for index in range(count)])])
    parts = parts_of(request)
    assert len(parts) > 2
    assert {part.replica_id for part in parts} == {-1}
    assert [partition.partition_index for part in parts for topic in part.topics for partition in topic.partitions] == list(range(count))


def test_three_levels_are_split_at_the_innermost() -> None:
    topics = [OffsetFetchRequestTopics(name, partition_indexes=list(range(PART_ELEMENTS))) for name in "abc"]
    groups = [OffsetFetchRequestGroup("one", topics=topics), OffsetFetchRequestGroup("all", topics=None)]
    parts = parts_of(OffsetFetchRequest(groups=groups, require_stable=True))
    found = [
        (group.group_id, topic.name, index)
        for part in parts
        for group in part.groups
        for topic in group.topics or ()
        for index in topic.partition_indexes
    ]
    assert found == [("one", name, index) for name in "abc" for index in range(PART_ELEMENTS)]
    assert [group.topics for part in parts for group in part.groups if group.group_id == "all"] == [None]


def test_a_duplicate_name_stays_in_one_part() -> None:
    names = [f"t{number}" for number in range(2 * PART_ELEMENTS)]
    parts = parts_of(CreateTopicsRequest([CreatableTopic(name) for name in [*names, "t0", "t0"]]))
    named = [[topic.name for topic in part.topics] for part in parts]
    assert sorted({name for part in named for name in part}) == sorted(names)
    assert [part.count("t0") for part in named] == [2, *[0] * (len(named) - 1)]


def test_the_last_batch_of_a_partition_named_twice_comes_last() -> None:
    data = [PartitionProduceData(index, b"first") for index in range(2 * PART_ELEMENTS)]
    topics = [TopicProduceData("t", partition_data=data), TopicProduceData("t", partition_data=[PartitionProduceData(0, b"last")])]
    parts = parts_of(ProduceRequest(topic_data=topics))
    batches = [each.records for part in parts for topic in part.topic_data for each in topic.partition_data if each.index == 0]
    assert batches == [b"first", b"last"]
    assert {each.index for topic in parts[0].topic_data for each in topic.partition_data} >= {0}


def test_results_of_a_split_topic_are_joined() -> None:
    def answered(part: ListOffsetsRequest, throttle_ms: int) -> ListOffsetsResponse:
        return ListOffsetsResponse(
            throttle_ms,
            [
                ListOffsetsTopicResponse(topic.name, [ListOffsetsPartitionResponse(each.partition_index) for each in topic.partitions])
                for topic in part.topics
            ],
        )

    count = 2 * PART_ELEMENTS + 7
    topics = [ListOffsetsTopic(name, [ListOffsetsPartition(index) for index in range(count)]) for name in "ab"]
    split = SPLITS[ApiKey.LIST_OFFSETS][0]
    whole, *others = [answered(part, number) for number, part in enumerate(parts_of(ListOffsetsRequest(topics=topics)))]
    for other in others:
        join_responses(whole, other, split.response_path.split("."))
    assert [topic.name for topic in whole.topics] == ["a", "b"]
    assert [[each.partition_index for each in topic.partitions] for topic in whole.topics] == [list(range(count))] * 2
    assert whole.throttle_time_ms == len(others)


@pytest.mark.parametrize(("first", "second"), [(0, 14), (14, 0), (15, 14)])
def test_an_entry_that_failed_in_one_part_has_its_last_error_and_message_only(first: int, second: int) -> None:
    def answered(error: int) -> DescribeShareGroupOffsetsResponse:
        topics = [] if error else [DescribeShareGroupOffsetsResponseTopic("t")]
        group = DescribeShareGroupOffsetsResponseGroup("g", topics, error, f"error {error}" if error else None)
        return DescribeShareGroupOffsetsResponse(groups=[group])

    whole = answered(first)
    join_responses(whole, answered(second), SPLITS[ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS][0].response_path.split("."))
    assert whole == answered(14)


def test_arrays_handled_in_one_step_have_a_maximum() -> None:
    assert oversized_array(JoinGroupRequest(protocols=[JoinGroupRequestProtocol("p")] * 100)) is None
    assert oversized_array(JoinGroupRequest(protocols=[JoinGroupRequestProtocol("p")] * 101)) == "more than 100 protocols"
    configs = [CreatableTopicConfigs("k", "v")] * 1_000
    assert oversized_array(CreateTopicsRequest([CreatableTopic("a", configs=configs), CreatableTopic("b", configs=configs)])) is None
    assert oversized_array(CreateTopicsRequest([CreatableTopic("a", configs=configs * 2)])) == "more than 1000 topics.configs"


def test_the_batches_of_all_partitions_of_a_share_acknowledgement_are_limited_together() -> None:
    def request(batches: int) -> ShareAcknowledgeRequest:
        given = [AcknowledgementBatch(0, 0, [1])] * batches
        return ShareAcknowledgeRequest(topics=[ShareTopic(b"\0" * 16, [SharePartition(0, given), SharePartition(1, given)])])

    assert oversized_array(request(9_990)) is None
    assert oversized_array(request(10_001)) == "more than 20000 topics.partitions.acknowledgement_batches"
