from __future__ import annotations

from pathlib import Path

from ottla.broker.testing import InProcessBroker
from ottla.protocol.client import Client
from ottla.spark_jobs.logs import find_logs, read_runs
from ottla.spark_jobs.pins import pin
from ottla.spark_jobs.segment_reader import Run, whole
from tests.support.topic_calls import produce


def batches(path: str | Path) -> list[bytes]:
    found = find_logs(path, ["t"])
    assert found.problems == []
    runs = [run for segment in found.segments for run in read_runs(whole(segment)) if isinstance(run, Run)]
    return [bytes(run.batch(row)) for run in runs for row in range(run.rows)]


def test_files_a_pinned_listing_and_a_broker_give_the_same_batches(tmp_path: Path) -> None:
    with InProcessBroker(tmp_path / "data") as broker:
        broker.topics.create("t")
        with Client("127.0.0.1", broker.port) as client:
            for value in (b"a", b"b"):
                produce(client, "t", value)
        listed = pin(str(broker.data_dir), tmp_path / "pinned.json")
        files = batches(broker.data_dir)
        assert len(files) == 2
        assert batches(f"kafka://{broker.bootstrap}") == files
        with Client("127.0.0.1", broker.port) as client:
            produce(client, "t", b"later")
        assert batches(listed) == files
        assert len(batches(broker.data_dir)) == 3
