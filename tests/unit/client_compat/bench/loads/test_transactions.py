from __future__ import annotations

from pathlib import Path

import pytest

from client_compat.bench.loads.transactions import transact
from client_compat.bench.model import LoadFailed
from tests.support.running_broker import RunningBroker
from tests.support.topic_calls import create
from tests.support.transactions import committed_values


def test_every_transaction_is_committed_with_all_its_records(tmp_path: Path) -> None:
    with RunningBroker(tmp_path / "data") as broker, broker.client() as client:
        create(client, "t", partitions=3)
        assert transact(broker.bootstrap, "t", partitions=3, record_bytes=5, transactions=4, records_each=7) > 0
        found = [committed_values(client, "t", index=index) for index in range(3)]
        assert [len(values) for values in found] == [5 * 3, 5 * 2, 5 * 2], "four that are measured, one before"
        assert set(found[0]) == {b"vvvvv"}


def test_load_rejected_by_the_broker_names_its_topic(tmp_path: Path) -> None:
    with (
        RunningBroker(tmp_path / "data", {"transaction.max.timeout.ms": "1000"}) as broker,
        pytest.raises(LoadFailed, match=r"^nowhere: .*INVALID_TRANSACTION_TIMEOUT"),
    ):
        transact(broker.bootstrap, "nowhere", partitions=1, record_bytes=1, transactions=1, records_each=1)
