from __future__ import annotations

from typing import Any

from ottla.broker.faults.engine import Exchange
from ottla.broker.faults.exchange_text import errors_in, is_long, joined, subject_text
from ottla.broker.faults.subject import subject_of
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.k00_produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from ottla.protocol.messages.k03_metadata import MetadataResponse, MetadataResponsePartition, MetadataResponseTopic
from ottla.protocol.messages.k08_offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from ottla.protocol.messages.k12_heartbeat import HeartbeatResponse
from ottla.protocol.messages.k26_end_txn import EndTxnRequest


def exchange_of(api: ApiKey, request: Any) -> Exchange:
    return Exchange(subject_of(api, "me", 1, request, lambda _: None), 0, 0, request, None, seen=False)


def test_request_is_described_by_its_group_and_partitions() -> None:
    partitions = [OffsetCommitRequestPartition(number) for number in range(6)]
    request = OffsetCommitRequest("g", topics=[OffsetCommitRequestTopic("t", partitions=partitions)])
    assert subject_text(exchange_of(ApiKey.OFFSET_COMMIT, request)) == "group g; t-0; t-1; t-2; and 2 more"


def test_end_txn_is_described_as_commit_or_abort() -> None:
    assert subject_text(exchange_of(ApiKey.END_TXN, EndTxnRequest("tx", committed=True))) == "transaction tx; commit"
    assert subject_text(exchange_of(ApiKey.END_TXN, EndTxnRequest("tx", committed=False))) == "transaction tx; abort"


def test_long_names_are_truncated_in_a_description() -> None:
    assert joined(["x" * 300], "t") == f"transaction t; {'x' * 200}"


def test_a_response_with_many_structs_or_elements_is_long() -> None:
    def response(topics: int, partitions: int, replicas: int) -> MetadataResponse:
        part = MetadataResponsePartition(0, 0, 1, 1, list(range(replicas)))
        return MetadataResponse(topics=[MetadataResponseTopic(0, "t", partitions=[part] * partitions)] * topics)

    assert not is_long(HeartbeatResponse())
    assert not is_long(response(5, 10, 3))
    assert is_long(response(100, 0, 0))
    assert is_long(response(1, 100, 0))
    assert is_long(response(1, 1, 1_001))


def test_errors_are_found_at_any_depth_and_unknown_ones_keep_their_number() -> None:
    parts = [PartitionProduceResponse(0, error_code=code) for code in (0, 6, 9_999)]
    assert list(errors_in(ProduceResponse(responses=[TopicProduceResponse("t", partition_responses=parts)]))) == [
        "NOT_LEADER_OR_FOLLOWER",
        "9999",
    ]
    assert list(errors_in(None)) == []
