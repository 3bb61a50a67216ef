from __future__ import annotations

import pytest

from protocol.client import Client
from protocol.error_codes import ErrorCode
from protocol.messages.k22_init_producer_id import InitProducerIdRequest
from tests.support.running_broker import RunningBroker


@pytest.mark.parametrize("version", range(6))
def test_every_version_gives_a_new_id_with_epoch_0(client: Client, version: int) -> None:
    first, second = (client.call(InitProducerIdRequest(None, 60_000), version=version) for _ in range(2))
    assert (first.error_code, first.producer_epoch, second.producer_epoch) == (0, 0, 0)
    assert second.producer_id > first.producer_id >= 0


def test_an_id_in_the_request_does_not_change_that_a_new_one_is_given(client: Client) -> None:
    first = client.call(InitProducerIdRequest(None, 60_000)).producer_id
    again = client.call(InitProducerIdRequest(None, 60_000, first, 0))
    assert (again.error_code, again.producer_id != first, again.producer_epoch) == (0, True, 0)


@pytest.mark.parametrize("kill", [False, True])
def test_no_id_is_ever_given_twice_however_the_broker_stops(broker: RunningBroker, kill: bool) -> None:
    given: list[int] = []
    for _ in range(3):
        with broker.client() as client:
            given += [client.call(InitProducerIdRequest(None, 60_000)).producer_id for _ in range(3)]
        broker.restart(kill=kill)
    assert len(set(given)) == len(given)


@pytest.mark.parametrize(("producer_id", "epoch"), [(5, -1), (-1, 5)])
def test_half_an_identity_is_refused(client: Client, producer_id: int, epoch: int) -> None:
    assert client.call(InitProducerIdRequest(None, 60_000, producer_id, epoch)).error_code == ErrorCode.INVALID_REQUEST


def test_an_empty_transactional_id_is_refused(client: Client) -> None:
    assert client.call(InitProducerIdRequest("", 60_000)).error_code == ErrorCode.INVALID_REQUEST


def test_a_transactional_id_is_refused_so_that_clients_give_up(client: Client) -> None:
    answer = client.call(InitProducerIdRequest("my-transactions", 60_000))
    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, -1, -1)
    assert not ErrorCode(answer.error_code).retriable
