"""The next data directory, which is copied and opened under another name before a rewind needs it."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from queue import SimpleQueue

import pytest

from ottla.broker.core.settings_load import load
from ottla.broker.environment import Environment
from ottla.broker.faults.engine import Faults
from ottla.broker.preopened_log_dir import PreopenedLogDir
from ottla.broker.storage.errors import LogDirLocked
from ottla.broker.storage.fork import fork
from ottla.broker.storage.marks import Mark, Marks
from ottla.broker.testing.in_process import UnsyncedFiles
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k00_produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.records.record import SimpleRecord, build_batch
from tests.support.running_broker import RunningBroker
from tests.support.topic_calls import produce


class CountedReads(UnsyncedFiles):
    """Files that count the opened files of each thread, and the bytes that it reads."""

    def __init__(self) -> None:
        self.by_thread: dict[str, int] = {}
        self.bytes_by_thread: dict[str, int] = {}

    def open_read(self, path: Path) -> int:
        name = threading.current_thread().name
        self.by_thread[name] = self.by_thread.get(name, 0) + 1
        return super().open_read(path)

    def pread(self, fd: int, size: int, position: int) -> bytes:
        data, name = super().pread(fd, size, position), threading.current_thread().name
        self.bytes_by_thread[name] = self.bytes_by_thread.get(name, 0) + len(data)
        return data


def write(broker: RunningBroker) -> list[int]:
    with broker.client() as client:
        return [produce(client, f"t{number}", b"x") for number in range(10)]


def contents(path: Path) -> dict[Path, bytes]:
    return {file.relative_to(path): file.read_bytes() for file in path.rglob("*") if file.is_file()}


@pytest.fixture
def broker(tmp_path: Path) -> RunningBroker:
    broker = RunningBroker(tmp_path / "data").start()
    for number in range(10):
        broker.topics.create(f"t{number}")
    write(broker)
    return broker


@pytest.fixture
def marks(broker: RunningBroker) -> Iterator[Marks[PreopenedLogDir]]:
    made = Marks(broker.data_dir, broker.call(lambda node: node.preopen))
    yield made
    broker.stop()
    made.discard()


async def marked(broker: RunningBroker, marks: Marks[PreopenedLogDir]) -> Mark:
    await broker.node.save()
    mark = marks.add(0, broker.node.log_dir.mark_as_clean)
    await marks.prepared(mark)
    return mark


async def rewound(broker: RunningBroker, marks: Marks[PreopenedLogDir], mark: Mark) -> None:
    await broker.node.start_again(lambda: marks.restore(mark))
    await marks.prepared(mark)


def test_a_rewind_reads_no_log_while_the_broker_waits(broker: RunningBroker) -> None:
    broker.files = files = CountedReads()
    broker.restart()
    marks = Marks(broker.data_dir, broker.call(lambda node: node.preopen))
    mark = broker.call_async(marked(broker, marks))
    metadata_bytes = (broker.data_dir / "__cluster_metadata-0" / f"{0:020}.log").stat().st_size
    for _ in range(2):
        files.by_thread.clear()
        files.bytes_by_thread.clear()
        broker.call_async(rewound(broker, marks, mark))
        assert files.bytes_by_thread["ottla-broker"] < metadata_bytes
        assert files.by_thread.pop("ottla-broker", 0) < 10
        assert sum(files.by_thread.values()) > 10
        assert write(broker) == [1] * 10
    broker.stop()
    marks.discard()


class BeginningsOfCopies(UnsyncedFiles):
    """Files that note each copy that the thread begins to open, and whether the broker runs."""

    def __init__(self, broker: RunningBroker) -> None:
        self.broker = broker
        self.running: SimpleQueue[bool] = SimpleQueue()

    def open_read(self, path: Path) -> int:
        if path.name == "meta.properties" and path.parent != self.broker.data_dir:
            self.running.put(self.broker.running)
        return super().open_read(path)


def test_a_rewind_ends_with_the_next_copy_under_way(broker: RunningBroker) -> None:
    broker.files = files = BeginningsOfCopies(broker)
    broker.restart()
    mark = broker.mark()
    for _ in range(3):
        assert files.running.get(timeout=30)
        broker.rewind(mark)
    broker.stop()


def test_a_rewind_succeeds_after_one_whose_start_failed(broker: RunningBroker) -> None:
    mark = broker.mark()
    broker.kill()
    with socket.create_server(("127.0.0.1", broker.port)), pytest.raises(OSError, match="in use"):
        broker.rewind(mark)
    broker.rewind(mark)
    assert write(broker) == [1] * 10
    broker.stop()


def test_copy_is_opened_under_its_final_name_and_the_directory_in_use_is_kept(broker: RunningBroker, tmp_path: Path) -> None:
    broker.stop()
    fork(tmp_path / "data", tmp_path / "copy")
    before = contents(tmp_path / "data")
    settings, environment = load({"log.dir": str(tmp_path / "data")}, {}, None).settings, Environment()
    preopened = PreopenedLogDir(settings, Faults(), environment, tmp_path / "copy", 0)
    assert contents(tmp_path / "data") == before
    assert preopened.activate(load({"log.dir": "another"}, {}, None).settings, environment) is None
    (tmp_path / "data").rename(tmp_path / "old")
    (tmp_path / "copy").rename(tmp_path / "data")
    log_dir = preopened.activate(settings, environment)
    assert log_dir is not None
    assert log_dir.was_clean
    assert log_dir.logs["t0", 0].log_end_offset == 1
    assert log_dir.logs["t0", 0].segments.active.path.parent == tmp_path / "data" / "t0-0"
    with pytest.raises(LogDirLocked):
        environment.files.lock(tmp_path / "data")
    log_dir.close(clean=False)
    environment.files.lock(tmp_path / "data").release()


def test_evicted_preopened_mark_needs_no_recovery(
    broker: RunningBroker, marks: Marks[PreopenedLogDir], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ottla.broker.storage.marks.OPENED_MAX", 1)
    one = broker.call_async(marked(broker, marks))
    write(broker)
    other = broker.call_async(marked(broker, marks))
    for mark, offset in ((one, 1), (other, 2), (one, 1)):
        broker.call_async(rewound(broker, marks, mark))
        assert broker.call(lambda node: node.log_dir.was_clean)
        assert write(broker) == [offset] * 10


def test_rules_fill_the_disk_before_and_after_a_rewind(broker: RunningBroker, marks: Marks[PreopenedLogDir]) -> None:
    mark = broker.call_async(marked(broker, marks))
    data = TopicProduceData("t0", partition_data=[PartitionProduceData(0, build_batch([SimpleRecord(None, b"x", 0)]))])
    for _ in range(3):
        broker.faults.add("disk-full:topic=t0,times=1")
        with broker.client() as client:
            answer = client.call(ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[data]), version=9)
        assert answer.responses[0].partition_responses[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
        broker.call_async(rewound(broker, marks, mark))
