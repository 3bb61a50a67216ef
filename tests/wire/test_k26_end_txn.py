from __future__ import annotations

import pytest

from ottla.protocol.client import Client
from ottla.protocol.error_codes import ErrorCode
from tests.support.topic_calls import create
from tests.support.txn_calls import Holder, init


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("version", range(6))
def test_every_version_ends_the_transaction(client: Client, version: int, commit: bool) -> None:
    create(client, "t")
    holder = init(client)
    holder.add(("t", 0))
    assert holder.end(commit=commit, version=version).error_code == ErrorCode.NONE
    assert holder.describe().transaction_state == ("CompleteCommit" if commit else "CompleteAbort")


def test_version_5_returns_the_epoch_of_the_next_transaction(client: Client) -> None:
    create(client, "t")
    holder = init(client)
    holder.add(("t", 0))
    first = holder.end(commit=True, version=5)
    assert (first.producer_id, first.producer_epoch) == (holder.producer_id, holder.epoch + 1)
    again = holder.end(commit=True, version=5)
    assert (again.error_code, again.producer_id, again.producer_epoch) == (0, holder.producer_id, holder.epoch + 1)


def test_an_error_has_no_producer_id(client: Client) -> None:
    refused = init(client).end(commit=True, version=5)
    assert (refused.error_code, refused.producer_id, refused.producer_epoch) == (ErrorCode.INVALID_TXN_STATE, -1, -1)


@pytest.mark.parametrize(
    ("version", "error"),
    [(1, ErrorCode.INVALID_PRODUCER_EPOCH), (2, ErrorCode.PRODUCER_FENCED), (5, ErrorCode.PRODUCER_FENCED)],
)
def test_a_zombie_gets_the_error_of_its_version(client: Client, version: int, error: ErrorCode) -> None:
    zombie = init(client)
    for _ in range(2):
        init(client)
    assert zombie.end(commit=True, version=version).error_code == error


@pytest.mark.parametrize("version", [0, 5])
def test_invalid_producer_ids_and_epochs_are_rejected(client: Client, version: int) -> None:
    holder = init(client)
    refusals = {
        ErrorCode.INVALID_REQUEST: Holder(client, "", holder.producer_id, 0),
        ErrorCode.INVALID_PRODUCER_ID_MAPPING: Holder(client, "tx", -(2**63), 0),
        ErrorCode.PRODUCER_FENCED if version else ErrorCode.INVALID_PRODUCER_EPOCH: Holder(client, "tx", holder.producer_id, -32768),
    }
    for error, hostile in refusals.items():
        assert hostile.end(commit=True, version=version).error_code == error
    assert holder.describe().producer_epoch == 0
