from __future__ import annotations

from pathlib import Path

from tests.support.running_broker import RunningBroker
from tests.support.share_calls import ShareMember, acquired, configure, initialize
from tests.support.topic_calls import create, produce


def test_neither_a_crash_nor_a_stop_releases_acquired_records(tmp_path: Path) -> None:
    """A release would count the delivery; without one, a restart continues from the state of the last acknowledgement."""
    broker = RunningBroker(tmp_path / "data")
    for end in (broker.kill, broker.stop):
        with broker.start(), broker.client() as client:
            if not broker.call(lambda running: running.services.topics.topic("t")):
                create(client, "t")
                initialize(client)
                configure(client, "g", share__auto__offset__reset="earliest")
                produce(client, "t", b"a")
            assert acquired(ShareMember(client, "m").fetch(max_wait_ms=20_000)) == [(0, 0, 1)]
            end()
