"""`ottla fork` and `ottla serve --on-copy-of` as processes, on directories of one node and of a cluster, stopped, killed and in use."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from ottla.broker.cli import serve
from tests.support.running_broker import RunningBroker, ServeProcess
from tests.support.topic_calls import create, produce

VALUES = [b"%d" % number for number in range(20)]


def ottla(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "ottla", *map(str, arguments)]
    return subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)


def hashes(path: Path) -> dict[str, str]:
    return {
        file.relative_to(path).as_posix(): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in sorted(path.rglob("*"))
        if file.is_file() and file.name != ".lock"
    }


def consumer(bootstrap: str, group: str) -> Consumer:
    return Consumer({"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False})


def taken(client: Consumer, count: int) -> list[bytes]:
    """Poll `count` records and return their values."""
    found: list[bytes] = []
    while len(found) < count:
        record = client.poll(20)
        assert record is not None, f"only {len(found)} of {count} records can be read"
        assert record.error() is None
        found.append(record.value())
    return found


def read(bootstrap: str, topic: str) -> list[bytes]:
    """Read partition 0 of a topic with a real client, from its beginning to its end."""
    client = consumer(bootstrap, "none")
    try:
        start, end = client.get_watermark_offsets(TopicPartition(topic, 0), timeout=20)
        client.assign([TopicPartition(topic, 0, start)])
        return taken(client, end - start)
    finally:
        client.close()


class ServedCopy(ServeProcess):
    """`ottla serve --on-copy-of`; its own log is beside `place`."""

    def __init__(self, place: Path, source: Path, *options: str) -> None:
        super().__init__(place, f"--on-copy-of={source}", *options)

    @property
    def brokers(self) -> str:
        return self.start_line.split(" listening on ")[1].split(" ")[0]


@pytest.fixture
def original(tmp_path: Path) -> Iterator[RunningBroker]:
    """A running broker with records."""
    with RunningBroker(tmp_path / "original") as broker, broker.client() as client:
        create(client, "t")
        produce(client, "t", *VALUES)
        yield broker


def test_copy_of_a_running_broker_is_writable_while_the_original_continues(original: RunningBroker, tmp_path: Path) -> None:
    with ServedCopy(tmp_path / "copy", original.data_dir, "--log-level=error") as copy:
        with copy.client() as client:
            produce(client, "t", b"only in the copy")
        with original.client() as client:
            produce(client, "t", b"only in the original")
        assert read(copy.bootstrap, "t") == [*VALUES, b"only in the copy"]
        assert read(original.bootstrap, "t") == [*VALUES, b"only in the original"]
        assert copy.stop() == 0


def test_copy_without_a_data_directory_option_is_removed_at_the_end(original: RunningBroker, tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "ottla", "serve", "--on-copy-of", str(original.data_dir), "--port", "0"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        line = process.stdout.readline().decode()
        assert "original-fork-" in line
        assert [path for path in tmp_path.iterdir() if path.name.startswith("original-fork-")]
        process.terminate()
        assert process.wait(20) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["original"]


def test_fork_command_reports_the_copy_and_rejects_an_existing_target(original: RunningBroker, tmp_path: Path) -> None:
    done = ottla("fork", original.data_dir, tmp_path / "new")
    assert (done.returncode, done.stderr) == (0, "")
    assert f"{tmp_path / 'new'} is a copy of {original.data_dir}: 2 partitions" in done.stdout
    assert "in use or crashed" in done.stdout
    again = ottla("fork", original.data_dir, tmp_path / "new")
    assert (again.returncode, again.stderr) == (1, f"error: {tmp_path / 'new'} exists already: give the copy a new name\n")


def test_copy_of_a_cluster_is_a_separate_cluster_and_one_node_serves_its_partitions(tmp_path: Path) -> None:
    topics = ("--topic=everywhere:1:3", "--topic=once:3:1", "--set=broker.session.timeout.ms=1000")
    source = tmp_path / "cluster"
    with ServeProcess(source, "--brokers=3", *topics) as cluster:
        bootstrap = cluster.start_line.split(" listening on ")[1].split(" ")[0]
        argv = [sys.executable, "-m", "ottla", "produce", "everywhere", "-b", bootstrap]
        subprocess.run(argv, input=b"\n".join(VALUES) + b"\n", check=True, timeout=30, capture_output=True)
        # while the original runs, the nodes of the copy know its addresses
        with ServedCopy(tmp_path / "copy", source, "--set=broker.session.timeout.ms=1000") as copy:
            assert read(copy.brokers, "everywhere") == VALUES
            copy.stop()
        cluster.kill()
    before = hashes(source)
    refused = ottla("serve", "--on-copy-of", source / "broker2")
    assert (refused.returncode, "of a cluster with the brokers 1, 2, 3: add --alone" in refused.stderr) == (2, True)
    with ServedCopy(tmp_path / "alone", source / "broker2", "--alone") as alone:
        assert read(alone.bootstrap, "everywhere") == VALUES
        member = consumer(alone.bootstrap, "g")
        member.subscribe(["everywhere"])
        assert taken(member, len(VALUES)) == VALUES
        member.commit(asynchronous=False)
        member.close()
        described = ottla("topics", "list", "-b", alone.bootstrap)
        assert "once" in described.stdout
        alone.stop()
    assert hashes(source) == before


def test_copy_is_served_read_only_as_of_an_earlier_moment(original: RunningBroker, tmp_path: Path) -> None:
    with original.client() as client:
        produce(client, "t", b"later")
    with ServedCopy(tmp_path / "copy", original.data_dir, "--as-of", f"t-0@{len(VALUES)}") as copy:
        assert read(copy.bootstrap, "t") == VALUES
        argv = [sys.executable, "-m", "ottla", "produce", "t", "-b", copy.bootstrap]
        done = subprocess.run(argv, input=b"x\n", check=False, timeout=30, capture_output=True)
        assert done.returncode == 1
        assert b"AuthorizationFailed" in done.stderr
        assert copy.stop() == 0
    refused = ottla("serve", "--on-copy-of", original.data_dir, "--as-of", "2001-01-01")
    assert refused.returncode == 1
    assert "the metadata of that moment (2001-01-01T00:00:00.000Z) was removed, or is older than the node" in refused.stderr


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--as-of", "t-0@1"], "--as-of goes with --on-copy-of"),
        (["--on-copy-of", "{original}", "--as-of", "yesterday"], "--as-of yesterday: use a time such as"),
        (["--alone"], "--alone goes with --on-copy-of"),
        (["--on-copy-of", "{original}", "--brokers", "3"], "is the directory of one node: leave out --brokers"),
        (["--on-copy-of", "{original}", "--set", "process.roles=broker,controller"], "must not join a cluster"),
        (["--on-copy-of", "{original}/none"], "none is not a directory"),
        (["--on-copy-of", "{original}/t-0"], "is no data directory"),
    ],
)
def test_incompatible_serve_options_are_rejected(
    original: RunningBroker, options: list[str], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert serve.main([option.format(original=original.data_dir) for option in options]) in {1, 2}
    assert problem in capsys.readouterr().err
