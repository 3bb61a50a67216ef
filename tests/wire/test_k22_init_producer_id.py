from __future__ import annotations

import pytest

from ottla.protocol.client import Client
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k22_init_producer_id import InitProducerIdRequest
from tests.support.running_broker import RunningBroker
from tests.support.txn_calls import find_transaction_coordinator


@pytest.mark.parametrize("version", range(6))
def test_every_version_assigns_a_new_id_with_epoch_0(client: Client, version: int) -> None:
    first, second = (client.call(InitProducerIdRequest(None, 60_000), version=version) for _ in range(2))
    assert (first.error_code, first.producer_epoch, second.producer_epoch) == (0, 0, 0)
    assert second.producer_id > first.producer_id >= 0


def test_an_id_in_the_request_is_ignored_without_a_transactional_id(client: Client) -> None:
    first = client.call(InitProducerIdRequest(None, 60_000)).producer_id
    again = client.call(InitProducerIdRequest(None, 60_000, first, 0))
    assert (again.error_code, again.producer_id != first, again.producer_epoch) == (0, True, 0)


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
def test_an_invalid_timeout_is_rejected_before_a_coordinator_exists(client: Client, timeout_ms: int) -> None:
    assert client.call(InitProducerIdRequest("tx", timeout_ms)).error_code == ErrorCode.INVALID_TRANSACTION_TIMEOUT
    assert client.call(InitProducerIdRequest("tx", 900_000)).error_code == ErrorCode.NOT_COORDINATOR


@pytest.mark.parametrize("kill", [False, True])
def test_no_id_is_assigned_twice_however_the_broker_stops(broker: RunningBroker, kill: bool) -> None:
    given: list[int] = []
    for _ in range(3):
        with broker.client() as client:
            given += [client.call(InitProducerIdRequest(None, 60_000)).producer_id for _ in range(3)]
        broker.restart(kill=kill)
    assert len(set(given)) == len(given)


@pytest.mark.parametrize(("producer_id", "epoch"), [(5, -1), (-1, 5)])
def test_a_producer_id_without_an_epoch_or_the_reverse_is_rejected(client: Client, producer_id: int, epoch: int) -> None:
    assert client.call(InitProducerIdRequest(None, 60_000, producer_id, epoch)).error_code == ErrorCode.INVALID_REQUEST


def test_an_empty_transactional_id_is_rejected(client: Client) -> None:
    assert client.call(InitProducerIdRequest("", 60_000)).error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("version", range(6))
def test_a_transactional_id_keeps_its_producer_id_and_gets_the_next_epoch(client: Client, version: int) -> None:
    find_transaction_coordinator(client)
    first, second = (client.call(InitProducerIdRequest("tx", 60_000), version=version) for _ in range(2))
    assert (first.error_code, first.producer_epoch) == (0, 0)
    assert (second.error_code, second.producer_id, second.producer_epoch) == (0, first.producer_id, 1)


@pytest.mark.parametrize(
    ("version", "error"), [(3, ErrorCode.INVALID_PRODUCER_EPOCH), (4, ErrorCode.PRODUCER_FENCED), (5, ErrorCode.PRODUCER_FENCED)]
)
def test_a_fenced_producer_gets_the_error_of_its_version(client: Client, version: int, error: ErrorCode) -> None:
    find_transaction_coordinator(client)
    held = client.call(InitProducerIdRequest("tx", 60_000))
    for _ in range(2):
        client.call(InitProducerIdRequest("tx", 60_000))
    answer = client.call(InitProducerIdRequest("tx", 60_000, held.producer_id, held.producer_epoch), version=version)
    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (error, -1, -1)


def test_a_new_transactional_id_accepts_any_producer_id_and_epoch(client: Client) -> None:
    """@platformatic/kafka sends such a request: a new transactional id has no earlier producer to fence."""
    find_transaction_coordinator(client)
    answer = client.call(InitProducerIdRequest("tx", 60_000, 0, 0))
    assert (answer.error_code, answer.producer_epoch) == (0, 0)


@pytest.mark.parametrize("timeout_ms", [-1, 0, 900_001, 2**31 - 1])
def test_a_timeout_above_the_brokers_maximum_is_rejected(client: Client, timeout_ms: int) -> None:
    find_transaction_coordinator(client)
    assert client.call(InitProducerIdRequest("tx", timeout_ms)).error_code == ErrorCode.INVALID_TRANSACTION_TIMEOUT


def test_without_its_topic_there_is_no_transaction_coordinator(client: Client) -> None:
    assert client.call(InitProducerIdRequest("tx", 60_000)).error_code == ErrorCode.NOT_COORDINATOR


def test_the_longest_id_that_the_protocol_allows_works_and_survives(broker: RunningBroker, client: Client) -> None:
    find_transaction_coordinator(client)
    longest = "x" * 32_767
    held = client.call(InitProducerIdRequest(longest, 60_000))
    broker.restart(kill=True)
    with broker.client() as again:
        answer = again.call(InitProducerIdRequest(longest, 60_000, held.producer_id, held.producer_epoch))
    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (0, held.producer_id, 1)
