from __future__ import annotations

from ottla.protocol.client import Client
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k65_describe_transactions import DescribeTransactionsRequest
from tests.support.running_broker import RunningBroker
from tests.support.topic_calls import create
from tests.support.txn_calls import init


def test_an_open_transaction_is_described_completely(broker: RunningBroker, client: Client) -> None:
    create(client, "b", 3)
    create(client, "a")
    begun = broker.clock.now_ms()
    holder = init(client, timeout_ms=30_000)
    assert holder.describe().transaction_start_time_ms == -1
    assert holder.add(("b", 2), ("a", 0), ("b", 0)) == [0, 0, 0]
    state = holder.describe()
    assert (state.error_code, state.transaction_state, state.transaction_timeout_ms) == (0, "Ongoing", 30_000)
    assert (state.producer_id, state.producer_epoch) == (holder.producer_id, 0)
    assert state.transaction_start_time_ms >= begun
    assert [(topic.topic, topic.partitions) for topic in state.topics] == [("a", [0]), ("b", [0, 2])]


def test_a_finished_transaction_has_no_partitions(client: Client) -> None:
    create(client, "t")
    holder = init(client)
    holder.add(("t", 0))
    holder.end(commit=False)
    assert (holder.describe().transaction_state, holder.describe().topics) == ("CompleteAbort", [])


def test_unknown_and_empty_ids_have_their_own_errors(client: Client) -> None:
    init(client)
    states = client.call(DescribeTransactionsRequest(["tx", "other", ""])).transaction_states
    assert [(state.transactional_id, state.error_code) for state in states] == [
        ("tx", 0),
        ("other", ErrorCode.TRANSACTIONAL_ID_NOT_FOUND),
        ("", ErrorCode.INVALID_REQUEST),
    ]


def test_without_a_coordinator_every_id_has_an_error(client: Client) -> None:
    (state,) = client.call(DescribeTransactionsRequest(["tx"])).transaction_states
    assert state.error_code == ErrorCode.NOT_COORDINATOR
