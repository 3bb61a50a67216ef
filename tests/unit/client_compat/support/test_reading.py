"""A topic is read to its end only if no open transaction holds the last stable offset back."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Producer

from client_compat.support import reading
from client_compat.support.workers import RunFailed
from ottla.testing import InProcessBroker

TIMEOUT_S = 20


def test_open_transaction_is_awaited_and_a_hanging_one_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with InProcessBroker(tmp_path / "data") as broker:
        broker.topics.create("t", 2)
        producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "tx"})
        producer.init_transactions(TIMEOUT_S)
        producer.begin_transaction()
        producer.produce("t", b"a", partition=1)
        assert producer.flush(TIMEOUT_S) == 0
        assert (reading.ends(broker.bootstrap, "t", 2), reading.ends(broker.bootstrap, "t", 2, "read_uncommitted")) == ([0, 0], [0, 1])
        with monkeypatch.context() as patched:
            patched.setattr(reading, "STABLE_TIMEOUT_S", 0)
            with pytest.raises(RunFailed, match=r"t ends at \[0, 1\]"):
                reading.wait_until_stable(broker.bootstrap, "t", 2)
        producer.commit_transaction(TIMEOUT_S)
        reading.wait_until_stable(broker.bootstrap, "t", 2)
        assert [one.value for one in reading.read_with_confluent(broker.bootstrap, "t", 2, "read_committed")] == [b"a"]
