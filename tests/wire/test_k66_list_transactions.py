from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.broker.core.clock import VirtualClock
from ottla.protocol.client import Client
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k66_list_transactions import ListTransactionsRequest
from tests.support.running_broker import RunningBroker
from tests.support.topic_calls import create
from tests.support.txn_calls import init


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[RunningBroker]:
    with RunningBroker(tmp_path / "data", clock=VirtualClock()) as running:
        yield running


@pytest.fixture
def ids(broker: RunningBroker, client: Client) -> dict[str, int]:
    """Return the producer ids of four transactions: "empty" was never begun, "old" and "new" are open since 5 s and 0 s, "done" is
    committed."""
    create(client, "t")
    given = {}
    for name, age_ms in [("old", 5_000), ("empty", 0), ("done", 0), ("new", 0)]:
        holder = init(client, name)
        given[name] = holder.producer_id
        if name != "empty":
            holder.add(("t", 0))
        if name == "done":
            holder.end(commit=True)
        broker.clock.advance(age_ms / 1000)
    return given


def listed(client: Client, version: int = 2, **filters: object) -> set[str]:
    response = client.call(ListTransactionsRequest(**filters), version=version)
    assert response.error_code == 0
    return {state.transactional_id for state in response.transaction_states}


@pytest.mark.parametrize("version", range(3))
def test_without_filters_every_id_is_listed_with_its_state(client: Client, ids: dict[str, int], version: int) -> None:
    found = client.call(ListTransactionsRequest(), version=version).transaction_states
    assert {state.transactional_id: (state.producer_id, state.transaction_state) for state in found} == {
        "empty": (ids["empty"], "Empty"),
        "old": (ids["old"], "Ongoing"),
        "new": (ids["new"], "Ongoing"),
        "done": (ids["done"], "CompleteCommit"),
    }


def test_a_transaction_must_match_all_filters(client: Client, ids: dict[str, int]) -> None:
    assert listed(client, state_filters=["Ongoing", "Empty"]) == {"old", "new", "empty"}
    assert listed(client, producer_id_filters=[ids["new"], ids["done"], -1]) == {"new", "done"}
    assert listed(client, state_filters=["Ongoing"], producer_id_filters=[ids["new"], ids["done"]]) == {"new"}
    assert listed(client, transactional_id_pattern="(old|new)") == {"old", "new"}
    assert listed(client, transactional_id_pattern="o") == set(), "the whole id has to match"
    assert listed(client, transactional_id_pattern="") == set(ids)


@pytest.mark.parametrize(("duration_ms", "found"), [(0, {"old"}), (4_999, {"old"}), (5_000, set()), (-1, {"old", "new"})])
def test_a_duration_matches_transactions_that_lasted_longer(client: Client, ids: dict[str, int], duration_ms: int, found: set[str]) -> None:
    assert listed(client, state_filters=["Ongoing"], duration_filter=duration_ms) == found


def test_unknown_states_are_returned_and_match_nothing(client: Client, ids: dict[str, int]) -> None:
    response = client.call(ListTransactionsRequest(["Nonsense", "ongoing", "Nonsense"]))
    assert (response.unknown_state_filters, response.transaction_states) == (["Nonsense", "ongoing"], [])


def test_an_invalid_expression_is_rejected(client: Client, ids: dict[str, int]) -> None:
    assert client.call(ListTransactionsRequest(transactional_id_pattern="(")).error_code == ErrorCode.INVALID_REGULAR_EXPRESSION


def test_matching_takes_linear_time_for_any_expression(client: Client) -> None:
    init(client, "a" * 30_000)
    assert listed(client, transactional_id_pattern="(a|aa)*(a|aa)*(a|aa)*b") == set()


def test_before_the_first_transactional_id_the_list_is_empty(client: Client) -> None:
    assert listed(client) == set()
