"""A delayed commit ends the producer's next transaction in the middle (KAFKA-17754, found by Jepsen).

EndTxn contains a producer id and an epoch, which both stay the same between transactions in transaction version 1. In version 2 (KIP-890)
every end increments the epoch, so the broker rejects the late request. The client chooses the version, however: a client that supports only
version 1 is affected on a cluster of version 2 as well.
"""

from __future__ import annotations

from client_compat.matrix.truth import until
from client_compat.support.brokers import HOST
from client_compat.support.log_text import marker_of
from client_compat.support.stage import READ_S, Stage
from ottla.protocol.client import Client
from ottla.protocol.codec import decode_response
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k00_produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.messages.k10_find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.k22_init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.k26_end_txn import EndTxnRequest
from ottla.protocol.records.control import ControlType
from ottla.protocol.records.record import SimpleRecord, build_batch

TIMEOUT_MS = 10_000
DEBIT, CREDIT = "debit Ann 5", "credit Bob 5"
PRODUCE_VERSION, END_TXN_VERSION, INIT_VERSION, FIND_VERSION = 12, 5, 4, 4


def torn(stage: Stage) -> bool:
    """Delay a commit of confluent-kafka until its next transaction has begun, on a cluster with transaction version 1. Return whether a
    read_committed consumer then receives half of the next transaction, although the client aborts it."""
    return _with_librdkafka(stage, "transfers-v1")


def torn_by_an_old_client(stage: Stage) -> bool:
    """Delay a commit of confluent-kafka until its next transaction has begun, on a cluster with transaction version 2, where librdkafka
    still uses version 1. Return whether a read_committed consumer then receives half of that transaction, although the client aborts it."""
    stage.print_line("The cluster's transaction.version is 2; librdkafka speaks version 1.")
    return _with_librdkafka(stage, "transfers-v1-client")


def _with_librdkafka(stage: Stage, topic: str) -> bool:
    stage.truth.create_topic(topic, 2)
    producer = stage.producer(transactional_id=topic, transaction_timeout_ms=TIMEOUT_MS)
    producer.init_transactions(READ_S)
    stage.admin.add(f"late-request:api=EndTxn,transactional_id={topic},times=1,name=late")
    producer.begin_transaction()
    producer.produce(topic, b"opening balance", partition=0)
    producer.commit_transaction(READ_S)
    stage.admin.wait_held()
    stage.print_line("Transaction 1: the connection of the first EndTxn is lost; the client repeats it, and is told: committed.")
    producer.begin_transaction()
    producer.produce(topic, DEBIT.encode(), partition=0)
    producer.flush(READ_S)
    stage.admin.release("late")
    wait_for_end(stage, topic, markers=2)
    stage.print_line(f"Transaction 2: “{DEBIT}” is written; now the held EndTxn of transaction 1 arrives.")
    producer.produce(topic, CREDIT.encode(), partition=1)
    producer.flush(READ_S)
    producer.abort_transaction(READ_S)
    wait_for_end(stage, topic, markers=1, partition=1)
    stage.print_line(f"Then “{CREDIT}” is written, and the client aborts: it is told that all of transaction 2 is gone.")
    stage.print_log(topic, 2)
    seen = stage.committed(topic, 2)
    stage.print_line(f"A read_committed consumer reads: {seen}")
    return DEBIT in seen and CREDIT not in seen


def wait_for_end(stage: Stage, topic: str, *, markers: int, partition: int = 0) -> None:
    """Wait until the partition has at least `markers` transaction markers, because the coordinator answers EndTxn before it has written
    them."""
    for _ in until(f"{markers} markers in {topic}-{partition}"):
        if sum(marker_of(batch) is not None for batch in stage.truth.batches(topic, partition)) >= markers:
            return


def refused(stage: Stage) -> bool:
    """Send a commit of transaction version 2 so late that the producer's next transaction has begun, and then abort the next transaction.
    Return whether the broker rejects the late commit, and a read_committed consumer receives nothing of the next transaction. All requests
    are sent without a client library.

    A real client would have closed the late request's connection. Here the connection stays open, so that the response can be read.
    """
    topic = "transfers-v2"
    stage.truth.create_topic(topic, 2)
    with Client(HOST, stage.broker.port) as first, Client(HOST, stage.broker.port) as second:
        producer_id, epoch = _init(first, topic)
        stage.print_line(f"producer {producer_id} epoch {epoch}")
        _write(first, topic, 0, "opening balance", (producer_id, epoch))
        stage.admin.add(f"hold-request:api=EndTxn,transactional_id={topic},times=1,name=late")
        commit = EndTxnRequest(topic, producer_id, epoch, True)
        first.send(commit, END_TXN_VERSION)
        stage.admin.wait_held()
        answer = second.call(commit, END_TXN_VERSION)
        stage.print_line(
            f"Transaction 1: its EndTxn is held; repeated on another connection it is answered {_name(answer.error_code)}, "
            f"next epoch {answer.producer_epoch}."
        )
        epoch = answer.producer_epoch
        wait_for_end(stage, topic, markers=1)
        _write(second, topic, 0, DEBIT, (producer_id, epoch))
        stage.admin.release("late")
        late = decode_response(EndTxnRequest.API_KEY, END_TXN_VERSION, first.read_frame())[1]
        stage.print_line(
            f"Transaction 2: “{DEBIT}” is written in epoch {epoch}; the held EndTxn of epoch {commit.producer_epoch} arrives "
            f"and is answered {_name(late.error_code)}."
        )
        _write(second, topic, 1, CREDIT, (producer_id, epoch))
        aborted = second.call(EndTxnRequest(topic, producer_id, epoch, False), END_TXN_VERSION)
        stage.print_line(f"Then “{CREDIT}” is written, and the abort is answered {_name(aborted.error_code)}.")
    wait_for_end(stage, topic, markers=2)
    wait_for_end(stage, topic, markers=1, partition=1)
    stage.print_log(topic, 2)
    seen = stage.committed(topic, 2)
    stage.print_line(f"A read_committed consumer reads: {seen}")
    last = [marker_of(stage.truth.batches(topic, index)[-1]) for index in range(2)]
    return late.error_code == ErrorCode.PRODUCER_FENCED and seen == ["opening balance"] and last == [ControlType.ABORT] * 2


def _init(client: Client, transactional_id: str) -> tuple[int, int]:
    for _ in until("a producer id"):
        found = client.call(FindCoordinatorRequest(transactional_id, 1, [transactional_id]), FIND_VERSION).coordinators[0]
        if found.error_code == ErrorCode.NONE:
            answer = client.call(InitProducerIdRequest(transactional_id, TIMEOUT_MS), INIT_VERSION)
            if answer.error_code == ErrorCode.NONE:
                return int(answer.producer_id), int(answer.producer_epoch)
    raise AssertionError("until raises")


def _write(client: Client, topic: str, partition: int, value: str, producer: tuple[int, int]) -> None:
    producer_id, epoch = producer
    records = [SimpleRecord(None, value.encode())]
    batch = build_batch(records, producer_id=producer_id, producer_epoch=epoch, base_sequence=0, transactional=True)
    data = [TopicProduceData(topic, partition_data=[PartitionProduceData(partition, batch)])]
    request = ProduceRequest(transactional_id=topic, acks=-1, timeout_ms=TIMEOUT_MS, topic_data=data)
    for _ in until(f"a write to {topic}-{partition}"):
        code = client.call(request, PRODUCE_VERSION).responses[0].partition_responses[0].error_code
        if code != ErrorCode.CONCURRENT_TRANSACTIONS:
            assert code == ErrorCode.NONE, _name(code)
            return


def _name(code: int) -> str:
    return ErrorCode(code).name
