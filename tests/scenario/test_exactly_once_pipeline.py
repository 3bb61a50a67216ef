"""The transactions demo with a twentieth of the flights: real clients, one transactional id, SIGKILLs."""

from __future__ import annotations

from pathlib import Path

from rich.progress import Progress

from client_compat.demo.flights import write_rows
from client_compat.demo_transactions import topics
from client_compat.demo_transactions.instance import INPUT, INPUT_PARTITIONS
from client_compat.demo_transactions.run import KILLS, Flights, PipelineRun
from client_compat.support.admin import create_topic
from client_compat.support.brokers import ottla
from ottla.protocol.client import Client
from ottla.protocol.messages.k66_list_transactions import ListTransactionsRequest

FLIGHTS = 16_000
OVER = {"Empty", "CompleteCommit", "CompleteAbort"}


def test_each_flight_counts_once_with_a_shared_transactional_id_and_a_killed_broker(tmp_path: Path) -> None:
    count = write_rows(tmp_path / "flights.tsv", FLIGHTS)
    with ottla(tmp_path / "log") as broker:
        create_topic(broker.bootstrap, INPUT, INPUT_PARTITIONS)
        flights = Flights(*topics.load(broker.bootstrap, tmp_path / "flights.tsv", lambda _: None))
        assert flights.total == count
        result = PipelineRun(broker, flights, tmp_path / "clients.log", transactional=True, display=Progress(disable=True)).execute()
        with Client("127.0.0.1", broker.port) as client:
            listed = client.call(ListTransactionsRequest())
    assert result.judgement.exact, result
    assert result.readers_agree
    assert (result.lag, len(result.restart_seconds)) == (0, KILLS)
    assert result.takeovers >= 2
    assert {state.transaction_state for state in listed.transaction_states} <= OVER
