"""The benchmark's broker without a fault engine in its request path."""

from __future__ import annotations

from pathlib import Path

from client_compat.bench.loads.topics import connect
from client_compat.bench.peers import without_faults
from client_compat.bench.peers.without_faults import DISPATCHER, QUESTION
from tests.support.topic_calls import create, produce

ROOT = Path(without_faults.__file__).parents[3]


def test_broker_without_fault_checks_serves(tmp_path: Path) -> None:
    broker = without_faults.make(tmp_path)
    assert QUESTION in (ROOT / DISPATCHER).read_text()
    assert QUESTION not in (tmp_path / "without-faults" / DISPATCHER).read_text()
    with broker, connect(broker.bootstrap) as client:
        create(client, "t")
        assert produce(client, "t", b"x") == 0
