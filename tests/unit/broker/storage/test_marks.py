"""Exchanging two directories, and a process that is killed while it sets a mark or rewinds."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from queue import SimpleQueue

import pytest

from ottla.broker.storage import marks
from ottla.broker.testing.in_process import InProcessBroker

KILLED = """
import sys
from pathlib import Path
from ottla.broker.testing.in_process import InProcessBroker
from tests.support.topic_calls import produce
from ottla.protocol.client import Client

broker = InProcessBroker(Path(sys.argv[1])).start()
for number in range(10):
    broker.topics.create(f"t{number}")
def write():
    with Client("127.0.0.1", broker.port, client_id=None) as client:
        for number in range(10):
            produce(client, f"t{number}", b"x")
write()
mark = broker.mark()
print("marked", flush=True)
while True:
    write()
    broker.rewind(mark)
    broker.mark()
"""


@pytest.mark.parametrize("by_the_system", [True, False])
def test_directories_exchange_their_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by_the_system: bool) -> None:
    if not by_the_system:
        monkeypatch.setattr(marks.sys, "platform", "another")
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"of-{name}").touch()
    marks.exchange(tmp_path / "one", tmp_path / "other")
    assert sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*")) == [
        "one",
        "one/of-other",
        "other",
        "other/of-one",
    ]


@pytest.mark.parametrize("delay_s", [0.03, 0.08, 0.13])
def test_a_process_that_is_killed_leaves_one_of_both_states(tmp_path: Path, delay_s: float) -> None:
    path = tmp_path / "data"
    with subprocess.Popen([sys.executable, "-c", KILLED, str(path)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"marked\n"
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(delay_s)
        process.kill()
    with InProcessBroker(path) as broker:
        ends = [broker.topics.end_offset(f"t{number}") for number in range(10)]
        # Between two rewinds each partition gets a second record, one partition after the other.
        assert ends == sorted(ends, reverse=True)
        assert set(ends) <= {1, 2}
        assert not broker.call(lambda node: node.log_dir.findings)
        assert len(list(tmp_path.iterdir())) == 2  # the marks of the killed process
        broker.rewind(broker.mark())  # waits for the thread that also removes them
        assert len(list(tmp_path.iterdir())) == 2  # its own
    assert [left.name for left in tmp_path.iterdir()] == ["data"]


def test_marks_of_a_running_process_stay(tmp_path: Path) -> None:
    with InProcessBroker(tmp_path / "data") as one:
        mark = one.mark()
        one.kill()
        marks.remove_left(tmp_path / "data")
        one.rewind(mark)


def test_a_rewind_needs_no_recovery_and_leaves_nothing_behind(tmp_path: Path) -> None:
    with InProcessBroker(tmp_path / "data") as broker:
        broker.topics.create("t")
        mark = broker.mark()
        for end in (lambda: None, broker.kill):
            broker.topics.create("u")
            end()
            broker.rewind(mark)
            assert broker.topics.names() == ["t"]
            assert broker.call(lambda node: node.log_dir.was_clean)
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_the_mark_does_not_change_with_the_broker(tmp_path: Path) -> None:
    with InProcessBroker(tmp_path / "data") as broker:
        broker.topics.create("t")
        mark = broker.mark()
        before = {file: file.read_bytes() for file in mark.directory.rglob("*") if file.is_file()}
        for _ in range(2):
            broker.topics.create("u")
            broker.rewind(mark)
        assert {file: file.read_bytes() for file in mark.directory.rglob("*") if file.is_file()} == before


def test_the_thread_makes_the_copy_that_a_rewind_used_up_when_the_broker_has_started(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "meta.properties").touch()
    opened: SimpleQueue[int] = SimpleQueue()
    made = marks.Marks(tmp_path / "data", lambda _, now_ms: opened.put(now_ms))
    first = made.add(1, Path.touch)
    assert opened.get(timeout=30) == 1
    made.restore(first)
    made.add(2, Path.touch)
    assert opened.get(timeout=30) == 2  # the thread makes copies in the order in which it gets them
    made.copy_again()
    assert opened.get(timeout=30) == 1
    made.discard()
