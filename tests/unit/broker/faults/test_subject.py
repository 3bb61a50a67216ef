from __future__ import annotations

from typing import Any

import pytest

from ottla.broker.faults.subject import names_in, subject_of
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages import k00_produce as produce
from ottla.protocol.messages import k01_fetch as fetch
from ottla.protocol.messages import k09_offset_fetch as offset_fetch
from ottla.protocol.messages import k10_find_coordinator as find_coordinator
from ottla.protocol.messages import k15_describe_groups as describe_groups
from ottla.protocol.messages import k19_create_topics as create_topics
from ottla.protocol.messages import k20_delete_topics as delete_topics
from ottla.protocol.messages import k24_add_partitions_to_txn as add_partitions
from ottla.protocol.messages import k27_write_txn_markers as markers
from ottla.protocol.messages import k28_txn_offset_commit as txn_offset_commit
from ottla.protocol.messages import k69_consumer_group_describe as consumer_group_describe

IDS = {b"1" * 16: "by-id"}

CASES: list[tuple[ApiKey, Any, set[str], set[str], list[tuple[str, int | None]]]] = [
    (
        ApiKey.PRODUCE,
        produce.ProduceRequest("tx", topic_data=[produce.TopicProduceData("a", partition_data=[produce.PartitionProduceData(2)])]),
        {"tx"},
        set(),
        [("a", 2)],
    ),
    (
        ApiKey.FETCH,
        fetch.FetchRequest(
            topics=[
                fetch.FetchTopic(topic_id=b"1" * 16, partitions=[fetch.FetchPartition(0), fetch.FetchPartition(1)]),
                fetch.FetchTopic(topic_id=b"2" * 16, partitions=[fetch.FetchPartition(0)]),
            ]
        ),
        set(),
        set(),
        [("by-id", 0), ("by-id", 1)],
    ),
    (
        ApiKey.OFFSET_FETCH,
        offset_fetch.OffsetFetchRequest(
            groups=[
                offset_fetch.OffsetFetchRequestGroup("g", topics=[offset_fetch.OffsetFetchRequestTopics("a", partition_indexes=[0, 3])])
            ]
        ),
        set(),
        {"g"},
        [("a", 0), ("a", 3)],
    ),
    (ApiKey.FIND_COORDINATOR, find_coordinator.FindCoordinatorRequest(key_type=1, coordinator_keys=["tx"]), {"tx"}, set(), []),
    (ApiKey.FIND_COORDINATOR, find_coordinator.FindCoordinatorRequest("g"), set(), {"g"}, []),
    (ApiKey.DESCRIBE_GROUPS, describe_groups.DescribeGroupsRequest(["g", "h"]), set(), {"g", "h"}, []),
    (ApiKey.CONSUMER_GROUP_DESCRIBE, consumer_group_describe.ConsumerGroupDescribeRequest(["g", "h"]), set(), {"g", "h"}, []),
    (ApiKey.CREATE_TOPICS, create_topics.CreateTopicsRequest([create_topics.CreatableTopic("a", 3)]), set(), set(), [("a", None)]),
    (ApiKey.DELETE_TOPICS, delete_topics.DeleteTopicsRequest(topic_names=["a"]), set(), set(), [("a", None)]),
    (
        ApiKey.ADD_PARTITIONS_TO_TXN,
        add_partitions.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id="tx", v3_and_below_topics=[add_partitions.AddPartitionsToTxnTopic("a", [1])]
        ),
        {"tx"},
        set(),
        [("a", 1)],
    ),
    (
        ApiKey.WRITE_TXN_MARKERS,
        markers.WriteTxnMarkersRequest([markers.WritableTxnMarker(topics=[markers.WritableTxnMarkerTopic("a", [4])])]),
        set(),
        set(),
        [("a", 4)],
    ),
    (
        ApiKey.TXN_OFFSET_COMMIT,
        txn_offset_commit.TxnOffsetCommitRequest(
            "tx",
            "g",
            topics=[txn_offset_commit.TxnOffsetCommitRequestTopic("a", partitions=[txn_offset_commit.TxnOffsetCommitRequestPartition(5)])],
        ),
        {"tx"},
        {"g"},
        [("a", 5)],
    ),
]


@pytest.mark.parametrize(("api", "body", "transactions", "groups", "partitions"), CASES, ids=[case[0].name for case in CASES])
def test_subject_of_a_request_has_its_transactional_ids_groups_and_partitions(
    api: ApiKey, body: Any, transactions: set[str], groups: set[str], partitions: list[tuple[str, int | None]]
) -> None:
    found = subject_of(api, "app", 1, body, IDS.get)
    assert (found.transactional_ids, found.groups, found.partitions) == (transactions, groups, partitions)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0].name)
def test_names_in_an_api_include_those_of_its_requests(case: tuple[ApiKey, Any, set[str], set[str], list[Any]]) -> None:
    api, _, transactional_ids, groups, partitions = case
    found = {"transactional_id": transactional_ids, "group": groups, "topic": partitions}
    assert {name for name, names in found.items() if names} <= names_in(api)


def test_api_without_topics_groups_or_transactions_names_nothing() -> None:
    assert names_in(ApiKey.FETCH) == {"topic"}
    assert names_in(ApiKey.API_VERSIONS) == frozenset()
