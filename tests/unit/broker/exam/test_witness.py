"""What the exam counts of a program's requests."""

from __future__ import annotations

from typing import Any

from ottla.broker.exam.witness import EXAMINER, Witness
from ottla.broker.faults.engine import Exchange
from ottla.broker.faults.subject import subject_of
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k00_produce import PartitionProduceResponse, ProduceRequest, ProduceResponse, TopicProduceResponse
from ottla.protocol.messages.k01_fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from ottla.protocol.messages.k08_offset_commit import OffsetCommitRequest, OffsetCommitResponse
from ottla.protocol.messages.k11_join_group import JoinGroupRequest, JoinGroupResponse
from ottla.protocol.messages.k22_init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.protocol.messages.k26_end_txn import EndTxnRequest, EndTxnResponse


def tell(
    witness: Witness, api: ApiKey, request: Any, response: Any, *, client_id: str = "app", version: int = 5, faults: tuple[str, ...] = ()
) -> None:
    subject = subject_of(api, client_id, 1, request, lambda _: None)
    witness(Exchange(subject, 0, version, request, response, True, faults))


def test_the_exams_own_requests_are_not_the_programs() -> None:
    witness = Witness()
    tell(witness, ApiKey.PRODUCE, ProduceRequest(), ProduceResponse(), client_id=EXAMINER)
    assert not witness.calls
    tell(witness, ApiKey.PRODUCE, ProduceRequest(), ProduceResponse())
    assert witness.calls[ApiKey.PRODUCE] == 1


def test_what_it_asks_for_and_what_it_is_refused_is_known() -> None:
    witness = Witness()
    assert witness.waits_for_all
    parts = [PartitionProduceResponse(0, int(error)) for error in (ErrorCode.NONE, ErrorCode.NOT_ENOUGH_REPLICAS)]
    answer = ProduceResponse(responses=[TopicProduceResponse("t", partition_responses=parts)])
    tell(witness, ApiKey.PRODUCE, ProduceRequest(acks=-1), answer)
    assert (witness.waits_for_all, dict(witness.refusals)) == (True, {ErrorCode.NOT_ENOUGH_REPLICAS: 1})
    tell(witness, ApiKey.PRODUCE, ProduceRequest(acks=1), None)
    assert not witness.waits_for_all


def test_fetches_count_when_they_bring_records() -> None:
    witness = Witness()
    for records in (None, b"", b"batch"):
        answer = FetchResponse(responses=[FetchableTopicResponse("t", partitions=[PartitionData(0, records=records)])])
        tell(witness, ApiKey.FETCH, FetchRequest(), answer)
    tell(witness, ApiKey.FETCH, FetchRequest(), None)
    assert witness.calls[ApiKey.FETCH] == 1


def test_a_commit_after_the_work_is_no_work() -> None:
    witness = Witness()
    tell(witness, ApiKey.OFFSET_COMMIT, OffsetCommitRequest("g"), OffsetCommitResponse())
    witness.work_is_done = True
    tell(witness, ApiKey.OFFSET_COMMIT, OffsetCommitRequest("g"), OffsetCommitResponse())
    assert witness.calls[ApiKey.OFFSET_COMMIT] == 1
    assert witness.groups == {"g"}


def test_transactions_are_known_by_id_version_and_outcome() -> None:
    witness = Witness()
    assert (witness.end_version, witness.idempotent) == (-1, False)
    tell(witness, ApiKey.INIT_PRODUCER_ID, InitProducerIdRequest("tx", 9_000), InitProducerIdResponse(producer_id=7, producer_epoch=0))
    tell(witness, ApiKey.END_TXN, EndTxnRequest("tx", 7, 0, True), EndTxnResponse(producer_id=8, producer_epoch=0), faults=("late",))
    tell(witness, ApiKey.END_TXN, EndTxnRequest("tx", 7, 0, False), None, version=3)
    assert [(end.committed, end.error, end.faults) for end in witness.ends] == [(True, ErrorCode.NONE, ("late",)), (False, None, ())]
    assert (witness.end_version, witness.idempotent, witness.transaction_timeout_ms) == (5, True, 9_000)
    assert witness.producer_ids == {"tx": {7, 8}}


def test_a_producer_id_without_transactions_has_no_transactional_id() -> None:
    witness = Witness()
    tell(witness, ApiKey.INIT_PRODUCER_ID, InitProducerIdRequest(None, 60_000), InitProducerIdResponse(producer_id=7, producer_epoch=0))
    assert witness.idempotent
    assert not witness.producer_ids


def test_the_longest_session_counts() -> None:
    witness = Witness()
    for session_ms in (6_000, 45_000, 10_000):
        tell(witness, ApiKey.JOIN_GROUP, JoinGroupRequest("g", session_ms), JoinGroupResponse())
    assert witness.session_timeout_ms == 45_000
