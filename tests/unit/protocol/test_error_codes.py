from __future__ import annotations

import pytest

from ottla.protocol.error_codes import ErrorCode


def test_numbers_names_and_retriability_are_those_of_kio() -> None:
    from kio.schema.errors import ErrorCode as Theirs

    ours = {code.name: (int(code), code.retriable) for code in ErrorCode}
    of_4_4 = ("GROUP_DELETION_FAILED", "STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED", "CONTROLLER_ID_NOT_REGISTERED")
    since_4_4 = {name: (134 + at, False) for at, name in enumerate(of_4_4)}  # kio has the codes of 4.3
    assert ours == {code.name.upper(): (int(code), code.retriable) for code in Theirs} | since_4_4


@pytest.mark.parametrize("code", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.CONCURRENT_TRANSACTIONS])
def test_error_that_a_client_may_retry_is_retriable(code: ErrorCode) -> None:
    assert code.retriable


@pytest.mark.parametrize("code", [ErrorCode.NONE, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.PRODUCER_FENCED])
def test_error_that_a_client_must_not_retry_is_not_retriable(code: ErrorCode) -> None:
    assert not code.retriable


def test_unknown_error_number_raises() -> None:
    with pytest.raises(ValueError, match="9999"):
        ErrorCode(9999)


def test_error_number_of_a_newer_node_is_unknown_server_error() -> None:
    assert [ErrorCode.of(number) for number in (0, 87, 9999)] == [
        ErrorCode.NONE,
        ErrorCode.INVALID_RECORD,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    ]
