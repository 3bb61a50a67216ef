from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ottla.broker.testing import InProcessBroker
from ottla.broker.testing.contents import Stored, Visibility, contents
from ottla.broker.txns.states import TxnState
from ottla.protocol.client import Client
from ottla.protocol.error_codes import ErrorCode
from tests.support.running_broker import RunningBroker
from tests.support.topic_calls import create, produce
from tests.support.transactions import Transactional

ENDED = {TxnState.COMPLETE_COMMIT, TxnState.COMPLETE_ABORT}


def test_stored_record_has_its_offset_producer_and_outcome(tmp_path: Path) -> None:
    with RunningBroker(tmp_path / "data") as broker, broker.client() as client:
        create(client, "t")
        produce(client, "t", b"plain")
        producer = Transactional(broker)
        for commit, value in ((True, b"kept"), (False, b"dropped")):
            producer.init()
            assert producer.produce(client, 0, value).error_code == ErrorCode.NONE
            producer.end(commit=commit)
            broker.call_until(lambda running: running.services.txns.get("tx").state in ENDED)
        producer.init()
        assert producer.produce(client, 0, b"open").error_code == ErrorCode.NONE
        found = broker.call(contents)
    assert [(each.offset, each.value, each.outcome) for each in found] == [
        (0, b"plain", Visibility.PLAIN),
        (1, b"kept", Visibility.COMMITTED),
        (3, b"dropped", Visibility.ABORTED),
        (5, b"open", Visibility.OPEN),
    ]
    assert found[1].producer_id == producer.producer_id
    assert found[1].where == "t-0@1"


def test_record_is_kept_only_if_it_and_its_commit_are_still_stored() -> None:
    record = Stored("t", 0, 5, b"key", b"value", 1, 0, 7, Visibility.COMMITTED)
    assert record.is_kept_by(replace(record))
    assert not record.is_kept_by(None), "the log ends before it"
    assert not record.is_kept_by(replace(record, value=b"another")), "another leader wrote something else"
    assert not record.is_kept_by(replace(record, outcome=Visibility.ABORTED)), "its commit is lost, and a later marker aborts"
    assert replace(record, outcome=Visibility.OPEN).is_kept_by(record), "it was committed later"


def test_only_requested_topics_are_read() -> None:
    with InProcessBroker() as broker, Client("127.0.0.1", broker.port) as client:
        for name in ("a", "b"):
            create(client, name)
            produce(client, name, name.encode())
        assert [each.value for each in broker.call(lambda running: contents(running, {"b"}))] == [b"b"]
