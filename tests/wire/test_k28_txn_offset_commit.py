from __future__ import annotations

import pytest

from ottla.broker.api.k28_txn_offset_commit import known_to
from ottla.broker.app import Broker
from ottla.broker.groups.states import Now
from ottla.broker.txns.txn_marker import TxnMarker
from ottla.protocol.client import Client
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k09_offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from ottla.protocol.messages.k28_txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from ottla.protocol.messages.k42_delete_groups import DeleteGroupsRequest
from tests.support import consumer_calls
from tests.support.group_calls import commit, fetch, find_coordinator, stable_member, wait_until
from tests.support.running_broker import RunningBroker
from tests.support.topic_calls import create
from tests.support.transactions import Transactional, on_service

NOTHING = (-1, -1, "", 0)
UNSTABLE = (-1, -1, "", ErrorCode.UNSTABLE_OFFSET_COMMIT)


def ready(broker: RunningBroker, client: Client, version: int = 2) -> Transactional:
    """Prepare a transactional producer, a topic "t", and a coordinator of group "g"."""
    create(client, "t")
    find_coordinator(client)
    return Transactional(broker, version=version).init()


def offsets_place(broker: RunningBroker) -> tuple[str, int]:
    return ("__consumer_offsets", broker.call(lambda running: running.services.groups.offsets_partition("g").index))


def topic_id(broker: Broker, name: str) -> bytes:
    topic = broker.services.topics.topic(name)
    assert topic is not None
    return topic.topic_id


def fetch_unstable(client: Client) -> int:
    """Return the committed offset by OffsetFetch without `require_stable`."""
    groups = [OffsetFetchRequestGroup("g", topics=[OffsetFetchRequestTopics("t", partition_indexes=[0])])]
    (group,) = client.call(OffsetFetchRequest(groups=groups, require_stable=False), version=9).groups
    offset: int = group.topics[0].partitions[0].committed_offset
    return offset


@pytest.mark.parametrize("version", range(6))
def test_every_version_commits_with_the_transaction(broker: RunningBroker, client: Client, version: int) -> None:
    producer = ready(broker, client, version=2 if version >= 5 else 1)
    if version < 5:
        producer.add(offsets_place(broker))
    assert producer.commit_offset(client, 42, version=version) == ErrorCode.NONE
    assert fetch(client) == UNSTABLE
    assert producer.end(commit=True) is ErrorCode.NONE
    assert fetch(client) == (42, 2 if version >= 2 else -1, "note", 0)


def test_version_6_names_topics_by_id(broker: RunningBroker, client: Client) -> None:
    producer = ready(broker, client)
    known = broker.call(lambda running: topic_id(running, "t"))
    offsets = [TxnOffsetCommitRequestPartition(0, 42, 2, "note"), TxnOffsetCommitRequestPartition(9, 42)]
    topics = [TxnOffsetCommitRequestTopic(topic_id=each, partitions=offsets) for each in (known, b"an unknown topic")]
    request = TxnOffsetCommitRequest("tx", "g", producer.producer_id, producer.epoch, topics=topics)
    response = client.call(request, version=6)
    assert [(topic.topic_id, [each.error_code for each in topic.partitions]) for topic in response.topics] == [
        (known, [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NONE]),
        (b"an unknown topic", [ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_ID]),
    ]
    assert producer.end(commit=True) is ErrorCode.NONE
    assert fetch(client) == (42, 2, "note", 0)


@pytest.mark.parametrize("version", [5, 6])
def test_an_unknown_group_and_a_stale_member_have_errors_of_their_own_from_version_6_on(
    broker: RunningBroker, client: Client, version: int
) -> None:
    producer = ready(broker, client)
    known = broker.call(lambda running: topic_id(running, "t"))
    topics = [TxnOffsetCommitRequestTopic("t", known, [TxnOffsetCommitRequestPartition(0, 42)])]

    def commit_at(epoch: int) -> int:
        return producer.commit_offset(client, 0, version=version, topics=topics, member_id="m", generation_id_or_member_epoch=epoch)

    unknown = commit_at(1)
    epoch = consumer_calls.join(client, "m").member_epoch
    stale = commit_at(epoch + 1)
    old = ErrorCode.ILLEGAL_GENERATION
    assert (unknown, stale) == ((ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.STALE_MEMBER_EPOCH) if version == 6 else (old, old))
    assert commit_at(epoch) == ErrorCode.NONE


def test_an_abort_discards_the_transactions_offsets(broker: RunningBroker, client: Client) -> None:
    producer = ready(broker, client)
    assert commit(client, 7) == ErrorCode.NONE
    producer.commit_offset(client, 42)
    assert (fetch(client), fetch_unstable(client)) == (UNSTABLE, 7)
    producer.end(commit=False)
    assert fetch(client)[0] == 7


@pytest.mark.parametrize("kill", [True, False], ids=["killed", "stopped"])
def test_pending_offsets_survive_a_restart_and_can_be_committed_after_it(broker: RunningBroker, client: Client, kill: bool) -> None:
    producer = ready(broker, client)
    producer.commit_offset(client, 42)
    client.close()
    broker.restart(kill=kill)
    with broker.client() as again:
        assert fetch(again) == UNSTABLE
        assert producer.end(commit=True) is ErrorCode.NONE
        assert fetch(again)[0] == 42
    broker.restart(kill=kill)
    with broker.client() as again:
        assert fetch(again)[0] == 42


def test_a_later_plain_commit_overrides_the_transactions_offset(broker: RunningBroker, client: Client) -> None:
    producer = ready(broker, client)
    producer.commit_offset(client, 42)
    assert commit(client, 50) == ErrorCode.NONE
    producer.end(commit=True)
    assert fetch(client)[0] == 50


def test_the_later_record_of_two_transactions_wins_whichever_commits_last(broker: RunningBroker, client: Client) -> None:
    first = ready(broker, client)
    second = Transactional(broker, "other").init()
    first.commit_offset(client, 1)
    second.commit_offset(client, 2)
    second.end(commit=True)
    assert fetch(client) == UNSTABLE
    first.end(commit=True)
    assert fetch(client)[0] == 2


@pytest.mark.parametrize(("version", "error"), [(3, ErrorCode.INVALID_TXN_STATE), (4, ErrorCode.TRANSACTION_ABORTABLE)])
def test_offsets_outside_the_transaction_are_rejected(broker: RunningBroker, client: Client, version: int, error: ErrorCode) -> None:
    producer = ready(broker, client, version=1)
    assert producer.commit_offset(client, 42, version=version) == error
    assert fetch(client) == NOTHING


@pytest.mark.parametrize("version", [0, 4, 5])
def test_a_fenced_producer_gets_invalid_producer_epoch(broker: RunningBroker, client: Client, version: int) -> None:
    zombie = ready(broker, client)
    Transactional(broker).init()
    assert zombie.commit_offset(client, 42, version=version) == ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_producer_fenced_during_its_transaction_gets_invalid_producer_epoch(broker: RunningBroker, client: Client) -> None:
    zombie = ready(broker, client)
    assert zombie.commit_offset(client, 41) == ErrorCode.NONE
    Transactional(broker).init()
    assert zombie.commit_offset(client, 42) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert fetch(client) == NOTHING


def test_another_producers_transactional_id_is_rejected(broker: RunningBroker, client: Client) -> None:
    producer = ready(broker, client)
    error = ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert producer.commit_offset(client, 42, transactional_id="unknown") == error
    assert producer.commit_offset(client, 42, producer_id=producer.producer_id + 1) == error


def test_a_member_of_another_generation_is_rejected(broker: RunningBroker, client: Client) -> None:
    producer = ready(broker, client)
    member_id, generation = stable_member(client)
    assert (
        producer.commit_offset(client, 1, generation_id_or_member_epoch=generation - 1, member_id=member_id) == ErrorCode.ILLEGAL_GENERATION
    )
    assert producer.commit_offset(client, 1, generation_id_or_member_epoch=generation, member_id="who") == ErrorCode.UNKNOWN_MEMBER_ID
    error = producer.commit_offset(client, 1, generation_id_or_member_epoch=generation, member_id=member_id, group_instance_id="other")
    assert error == ErrorCode.UNKNOWN_MEMBER_ID
    assert fetch(client) == NOTHING
    assert producer.commit_offset(client, 1, generation_id_or_member_epoch=generation, member_id=member_id) == ErrorCode.NONE


def test_a_commit_without_a_member_is_accepted_for_a_group_with_members(broker: RunningBroker, client: Client) -> None:
    producer = ready(broker, client)
    stable_member(client)
    assert producer.commit_offset(client, 5, version=2) == ErrorCode.INVALID_TXN_STATE
    producer.add(offsets_place(broker))
    assert producer.commit_offset(client, 5, version=2) == ErrorCode.NONE


def test_a_commit_without_a_member_is_accepted_for_a_consumer_group_with_members(broker: RunningBroker, client: Client) -> None:
    producer = ready(broker, client)
    assert consumer_calls.join(client, "m").error_code == ErrorCode.NONE
    assert producer.commit_offset(client, 42) == ErrorCode.NONE
    assert producer.commit_offset(client, 43, member_id="stranger", generation_id_or_member_epoch=1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert producer.commit_offset(client, 43, group_instance_id="stranger") == ErrorCode.UNKNOWN_MEMBER_ID
    assert producer.end(commit=True) is ErrorCode.NONE
    assert fetch_unstable(client) == 42


def test_a_generation_of_an_unknown_group_is_rejected(broker: RunningBroker, client: Client) -> None:
    producer = ready(broker, client)
    assert producer.commit_offset(client, 1, generation_id_or_member_epoch=3, member_id="m") == ErrorCode.ILLEGAL_GENERATION


def test_an_empty_group_id_is_rejected(broker: RunningBroker, client: Client) -> None:
    assert ready(broker, client).commit_offset(client, 1, group_id="") == ErrorCode.INVALID_GROUP_ID


def test_unknown_partitions_and_long_metadata_are_rejected_one_by_one(broker: RunningBroker, client: Client) -> None:
    producer = ready(broker, client)
    partitions = [
        TxnOffsetCommitRequestPartition(1, 5, 0, None),
        TxnOffsetCommitRequestPartition(0, 6, 0, "m" * 4097),
    ]
    request = TxnOffsetCommitRequest(
        "tx", "g", producer.producer_id, producer.epoch, topics=[TxnOffsetCommitRequestTopic("t", partitions=partitions)]
    )
    answers = client.call(request, version=5).topics[0].partitions
    assert [answer.error_code for answer in answers] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.OFFSET_METADATA_TOO_LARGE]
    nowhere = [TxnOffsetCommitRequestTopic("nowhere", partitions=[TxnOffsetCommitRequestPartition(0, 1, 0, None)])]
    assert producer.commit_offset(client, 0, topics=nowhere) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert fetch(client) == NOTHING


def test_a_group_with_pending_offsets_does_not_expire(broker: RunningBroker, client: Client) -> None:
    producer = ready(broker, client)
    producer.commit_offset(client, 42)
    machine = broker.call(lambda running: running.services.groups.shards.of("g").machine)
    far = Now(0, 2**60)
    assert list(broker.call(lambda _: machine.expire_offsets(far).records)) == []
    producer.end(commit=False)
    assert len(broker.call(lambda _: machine.expire_offsets(far).records)) == 1


def test_deleting_a_group_deletes_its_pending_offsets(broker: RunningBroker, client: Client) -> None:
    producer = ready(broker, client)
    producer.commit_offset(client, 42)
    (result,) = client.call(DeleteGroupsRequest(["g"])).results
    assert result.error_code == ErrorCode.NONE
    producer.end(commit=True)
    assert fetch(client) == NOTHING


@pytest.mark.broker_settings({"log.flush.interval.messages": "1"})
def test_with_flush_messages_the_response_follows_the_sync(broker: RunningBroker, client: Client) -> None:
    producer = ready(broker, client)
    assert producer.commit_offset(client, 42) == ErrorCode.NONE
    log = broker.call(lambda running: running.services.groups.offsets_partition("g").log)
    assert broker.call(lambda _: log.high_watermark) == 1
    producer.end(commit=True)
    wait_until(lambda: fetch(client)[0] == 42, "the commit is visible")


def test_a_marker_for_an_unknown_offsets_partition_is_rejected(broker: RunningBroker, client: Client) -> None:
    find_coordinator(client)
    with pytest.raises(Exception, match="UNKNOWN_TOPIC_OR_PARTITION"):
        on_service(
            broker,
            lambda running: running.services.groups.write_marker(99, TxnMarker(1, 0, True, 0, 0)),
        )


@pytest.mark.parametrize(
    ("version", "code", "seen"),
    [
        (1, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (2, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (4, ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (1, ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (5, ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.CONCURRENT_TRANSACTIONS),
    ],
)
def test_a_retriable_coordinator_error_becomes_one_that_the_client_retries(version: int, code: ErrorCode, seen: ErrorCode) -> None:
    assert known_to(version, code) is seen


def test_an_existing_topic_without_partitions_is_not_in_the_response(broker: RunningBroker, client: Client) -> None:
    producer = ready(broker, client)
    topics = [TxnOffsetCommitRequestTopic(name) for name in ("t", "no")]
    request = TxnOffsetCommitRequest("tx", "g", producer.producer_id, producer.epoch, topics=topics)
    assert [(topic.name, topic.partitions) for topic in client.call(request, version=5).topics] == [("no", [])]
