from __future__ import annotations

import pytest

from ottla.protocol.client import Client
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k10_find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.k24_add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from tests.support.topic_calls import create
from tests.support.txn_calls import Holder, init


@pytest.mark.parametrize("version", range(4))
def test_every_client_version_adds_partitions_to_a_transaction(client: Client, version: int) -> None:
    create(client, "t", 2)
    holder = init(client)
    assert holder.add(("t", 0), ("t", 1), version=version) == [0, 0]
    state = holder.describe()
    assert (state.transaction_state, state.topics[0].topic, state.topics[0].partitions) == ("Ongoing", "t", [0, 1])


def test_one_unknown_partition_prevents_the_addition_of_all_others(client: Client) -> None:
    create(client, "t")
    holder = init(client)
    assert holder.add(("t", 0), ("t", 1), ("nowhere", 0)) == [
        ErrorCode.OPERATION_NOT_ATTEMPTED,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert holder.describe().transaction_state == "Empty"


def test_internal_topics_cannot_be_added_by_clients(client: Client) -> None:
    create(client, "t")
    client.call(FindCoordinatorRequest("g"), version=3)
    holder = init(client)
    assert holder.add(("__consumer_offsets", 0), ("t", 0)) == [
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.OPERATION_NOT_ATTEMPTED,
    ]


@pytest.mark.parametrize(("version", "error"), [(1, ErrorCode.INVALID_PRODUCER_EPOCH), (2, ErrorCode.PRODUCER_FENCED)])
def test_a_zombie_gets_the_error_of_its_version(client: Client, version: int, error: ErrorCode) -> None:
    create(client, "t")
    zombie = init(client)
    init(client)
    assert zombie.add(("t", 0), version=version) == [error]


@pytest.mark.parametrize(("producer_id", "epoch"), [(-1, -1), (-(2**63), 0), (2**63 - 1, 32767), (5_000, 0)])
def test_an_unknown_producer_id_is_rejected(client: Client, producer_id: int, epoch: int) -> None:
    create(client, "t")
    init(client)
    assert Holder(client, "tx", producer_id, epoch).add(("t", 0)) == [ErrorCode.INVALID_PRODUCER_ID_MAPPING]


def test_an_epoch_that_was_never_assigned_is_fenced(client: Client) -> None:
    create(client, "t")
    holder = init(client)
    for epoch in (-32768, -1, 1, 32767):
        assert Holder(client, "tx", holder.producer_id, epoch).add(("t", 0)) == [ErrorCode.PRODUCER_FENCED]


def test_unknown_and_empty_transactional_ids_are_rejected(client: Client) -> None:
    create(client, "t")
    init(client)
    assert Holder(client, "other", 0, 0).add(("t", 0)) == [ErrorCode.INVALID_PRODUCER_ID_MAPPING]
    assert Holder(client, "", 0, 0).add(("t", 0)) == [ErrorCode.INVALID_REQUEST]


def batched(holder: Holder, *partitions: tuple[str, int], verify_only: bool) -> AddPartitionsToTxnTransaction:
    topics = [AddPartitionsToTxnTopic(topic, [index]) for topic, index in partitions]
    return AddPartitionsToTxnTransaction(holder.transactional_id, holder.producer_id, holder.epoch, verify_only, topics)


@pytest.mark.parametrize("version", [4, 5])
def test_brokers_send_several_transactions_in_one_request(client: Client, version: int) -> None:
    create(client, "t", 2)
    added, verified, unknown = init(client, "added"), init(client, "verified"), Holder(client, "unknown", 1, 0)
    verified.add(("t", 0))
    request = AddPartitionsToTxnRequest(
        [
            batched(added, ("t", 1), verify_only=False),
            batched(verified, ("t", 0), ("t", 1), verify_only=True),
            batched(unknown, ("t", 0), verify_only=True),
        ]
    )
    response = client.call(request, version=version)
    errors = {
        result.transactional_id: [each.partition_error_code for topic in result.topic_results for each in topic.results_by_partition]
        for result in response.results_by_transaction
    }
    assert errors == {
        "added": [ErrorCode.NONE],
        "verified": [ErrorCode.NONE, ErrorCode.TRANSACTION_ABORTABLE],
        "unknown": [ErrorCode.INVALID_PRODUCER_ID_MAPPING],
    }
    assert added.describe().transaction_state == "Ongoing"
    assert verified.describe().topics[0].partitions == [0], "asking adds nothing"


def test_verified_partitions_are_answered_once(client: Client) -> None:
    create(client, "t", 2)
    holder = init(client)
    holder.add(("t", 0))
    topics = [AddPartitionsToTxnTopic(name, indexes) for name, indexes in (("t", [0, 0]), ("no", []), ("t", [1, 0]))]
    one = AddPartitionsToTxnTransaction("tx", holder.producer_id, holder.epoch, True, topics)
    (result,) = client.call(AddPartitionsToTxnRequest([one]), version=5).results_by_transaction
    (topic,) = result.topic_results
    found = [(each.partition_index, each.partition_error_code) for each in topic.results_by_partition]
    assert (topic.name, found) == ("t", [(0, ErrorCode.NONE), (1, ErrorCode.TRANSACTION_ABORTABLE)])
