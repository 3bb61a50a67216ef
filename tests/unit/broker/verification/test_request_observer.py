from __future__ import annotations

from typing import Any

from ottla.broker.faults.engine import Exchange
from ottla.broker.faults.subject import subject_of
from ottla.broker.verification.request_observer import VERIFIER_CLIENT, RequestObserver
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k00_produce import PartitionProduceResponse, ProduceRequest, ProduceResponse, TopicProduceResponse
from ottla.protocol.messages.k01_fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from ottla.protocol.messages.k08_offset_commit import OffsetCommitRequest, OffsetCommitResponse
from ottla.protocol.messages.k11_join_group import JoinGroupRequest, JoinGroupResponse
from ottla.protocol.messages.k22_init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.protocol.messages.k26_end_txn import EndTxnRequest, EndTxnResponse
from ottla.protocol.messages.k78_share_fetch import AcquiredRecords, ShareFetchableTopicResponse, ShareFetchRequest, ShareFetchResponse
from ottla.protocol.messages.k78_share_fetch import PartitionData as FetchedPartition
from ottla.protocol.messages.k79_share_acknowledge import PartitionData as AcknowledgedPartition
from ottla.protocol.messages.k79_share_acknowledge import (
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
)
from ottla.protocol.messages.share_partitions import AcknowledgementBatch, SharePartition, ShareTopic


def observe(
    observer: RequestObserver,
    api: ApiKey,
    request: Any,
    response: Any,
    *,
    client_id: str = "app",
    version: int = 5,
    faults: tuple[str, ...] = (),
) -> None:
    subject = subject_of(api, client_id, 1, request, lambda _: None)
    observer(Exchange(subject, 0, version, request, response, True, faults))


def test_verifiers_requests_are_not_attributed_to_the_program() -> None:
    observer = RequestObserver()
    observe(observer, ApiKey.PRODUCE, ProduceRequest(), ProduceResponse(), client_id=VERIFIER_CLIENT)
    assert not observer.calls
    observe(observer, ApiKey.PRODUCE, ProduceRequest(), ProduceResponse())
    assert observer.calls[ApiKey.PRODUCE] == 1


def test_requested_acks_and_rejections_are_recorded() -> None:
    observer = RequestObserver()
    assert observer.uses_acks_all
    parts = [PartitionProduceResponse(0, int(error)) for error in (ErrorCode.NONE, ErrorCode.NOT_ENOUGH_REPLICAS)]
    answer = ProduceResponse(responses=[TopicProduceResponse("t", partition_responses=parts)])
    observe(observer, ApiKey.PRODUCE, ProduceRequest(acks=-1), answer)
    assert (observer.uses_acks_all, dict(observer.refusals)) == (True, {ErrorCode.NOT_ENOUGH_REPLICAS: 1})
    observe(observer, ApiKey.PRODUCE, ProduceRequest(acks=1), None)
    assert not observer.uses_acks_all


def test_fetches_count_only_with_records() -> None:
    observer = RequestObserver()
    for records in (None, b"", b"batch"):
        answer = FetchResponse(responses=[FetchableTopicResponse("t", partitions=[PartitionData(0, records=records)])])
        observe(observer, ApiKey.FETCH, FetchRequest(), answer)
    observe(observer, ApiKey.FETCH, FetchRequest(), None)
    assert observer.calls[ApiKey.FETCH] == 1


def test_offset_commit_after_the_work_is_done_is_not_counted() -> None:
    observer = RequestObserver()
    observe(observer, ApiKey.OFFSET_COMMIT, OffsetCommitRequest("g"), OffsetCommitResponse())
    observer.work_is_done = True
    observe(observer, ApiKey.OFFSET_COMMIT, OffsetCommitRequest("g"), OffsetCommitResponse())
    assert observer.calls[ApiKey.OFFSET_COMMIT] == 1
    assert observer.groups == {"g"}


def test_transactions_are_recorded_by_id_version_and_outcome() -> None:
    observer = RequestObserver()
    assert (observer.end_version, observer.idempotent) == (-1, False)
    observe(observer, ApiKey.INIT_PRODUCER_ID, InitProducerIdRequest("tx", 9_000), InitProducerIdResponse(producer_id=7, producer_epoch=0))
    observe(observer, ApiKey.END_TXN, EndTxnRequest("tx", 7, 0, True), EndTxnResponse(producer_id=8, producer_epoch=0), faults=("late",))
    observe(observer, ApiKey.END_TXN, EndTxnRequest("tx", 7, 0, False), None, version=3)
    assert [(end.committed, end.error, end.faults) for end in observer.ends] == [(True, ErrorCode.NONE, ("late",)), (False, None, ())]
    assert (observer.end_version, observer.idempotent, observer.transaction_timeout_ms) == (5, True, 9_000)
    assert observer.producer_ids == {"tx": {7, 8}}


def test_idempotent_producer_has_no_transactional_id() -> None:
    observer = RequestObserver()
    observe(observer, ApiKey.INIT_PRODUCER_ID, InitProducerIdRequest(None, 60_000), InitProducerIdResponse(producer_id=7, producer_epoch=0))
    assert observer.idempotent
    assert not observer.producer_ids


def test_longest_session_timeout_is_recorded() -> None:
    observer = RequestObserver()
    for session_ms in (6_000, 45_000, 10_000):
        observe(observer, ApiKey.JOIN_GROUP, JoinGroupRequest("g", session_ms), JoinGroupResponse())
    assert observer.session_timeout_ms == 45_000


def test_redelivery_of_an_accepted_share_record_is_recorded() -> None:
    observer = RequestObserver()
    topic = bytes(16)

    def acknowledge(error: int, *types: int) -> None:
        request = ShareAcknowledgeRequest("g", "m", 1)
        request.topics = [ShareTopic(topic, [SharePartition(0, [AcknowledgementBatch(5, 7, list(types))])])]
        observe(observer, ApiKey.SHARE_ACKNOWLEDGE, request, ShareAcknowledgeResponse(responses=[acknowledged(error)]))

    def acknowledged(error: int) -> ShareAcknowledgeTopicResponse:
        return ShareAcknowledgeTopicResponse(topic, [AcknowledgedPartition(0, error)])

    def deliver(first: int, last: int, group: str = "g") -> None:
        part = FetchedPartition(0)
        part.acquired_records = [AcquiredRecords(first, last, 1)]
        response = ShareFetchResponse(responses=[ShareFetchableTopicResponse(topic, [part])])
        observe(observer, ApiKey.SHARE_FETCH, ShareFetchRequest(group, "m", 1), response)

    deliver(5, 7)
    acknowledge(ErrorCode.INVALID_RECORD_STATE, 1)
    deliver(5, 7)
    acknowledge(0, 1, 2, 1)
    deliver(6, 6)
    deliver(5, 9, group="another")
    assert not observer.delivered_again
    deliver(4, 5)
    assert {offset for *_, offset in observer.delivered_again} == {5}
    acknowledge(0, 1)
    deliver(6, 7)
    assert {offset for *_, offset in observer.delivered_again} == {5, 6, 7}
