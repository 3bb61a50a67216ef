"""`ottla serve` as a process: its start-up line, its errors, its signals."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.broker.cli.serve import KafkaReplacement, main
from ottla.protocol.messages.k03_metadata import MetadataRequest
from tests.support.loopback import needs_ipv6
from tests.support.running_broker import HOST, ServeProcess
from tests.support.topic_calls import create, produce


@pytest.fixture
def process(tmp_path: Path) -> Iterator[ServeProcess]:
    with ServeProcess(tmp_path / "data") as running:
        yield running


def test_start_up_line_names_the_address_and_the_data_directory(process: ServeProcess) -> None:
    with process.client() as client:
        metadata = client.call(MetadataRequest(None))
    assert f"listening on {process.bootstrap} (data in {process.data_dir}, cluster id {metadata.cluster_id}," in process.start_line
    assert [(node.host, node.port) for node in metadata.brokers] == [(HOST, process.port)]


@needs_ipv6
def test_ipv6_address_in_the_start_up_line_is_in_brackets(tmp_path: Path) -> None:
    with ServeProcess(tmp_path / "data", "--host", "::1") as running:
        assert f"listening on [::1]:{running.port} (data" in running.start_line


def test_port_file_contains_the_port(tmp_path: Path) -> None:
    port_file = tmp_path / "port"
    with ServeProcess(tmp_path / "data", f"--port-file={port_file}") as running:
        assert running.start_line
        running.stop()
    assert int(port_file.read_text()) == running.port


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_stops_the_broker_cleanly(process: ServeProcess, number: signal.Signals) -> None:
    with process.client() as client:
        create(client, "t")
        process.signal(number)
        assert process.wait() == 0
    assert (process.data_dir / ".kafka_cleanshutdown").exists()


def test_broker_without_standard_streams_stops_cleanly(tmp_path: Path) -> None:
    """The event loop would get their descriptors, and libuv aborts the process when it closes one of them."""
    serve = [sys.executable, "-m", "ottla", "serve", "--port=0", f"--port-file={tmp_path / 'port'}", f"--data-dir={tmp_path / 'data'}"]
    running = subprocess.Popen(["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", *serve])
    while not (tmp_path / "port").exists():
        assert running.poll() is None
        os.sched_yield()
    running.send_signal(signal.SIGTERM)
    assert running.wait(30) == 0


SIGNALLED_IN_ITS_START = """
import os, signal, sys
from ottla.broker import app
from ottla.broker.cli.serve import KafkaReplacement, main

open_log_dir = app.LogDir.open

def signalled(*args, **kwargs):
    log_dir = open_log_dir(*args, **kwargs)
    os.kill(os.getpid(), signal.SIGTERM)
    return log_dir

app.LogDir.open = signalled
sys.exit(main(["--port", "0", "--data-dir", sys.argv[1]]))
"""


def test_sigterm_ends_a_start_even_as_a_containers_first_process(tmp_path: Path) -> None:
    """Without a handler the exit code would be the signal's, and process 1 of a container would ignore the signal."""
    data = str(tmp_path / "data")
    ended = subprocess.run([sys.executable, "-c", SIGNALLED_IN_ITS_START, data], capture_output=True, text=True, timeout=30, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (128 + signal.SIGTERM, "", "")
    with ServeProcess(tmp_path / "data") as again:
        assert again.start_line


def test_acknowledged_records_survive_sigkill(process: ServeProcess) -> None:
    with process.client() as client:
        create(client, "t")
        assert [produce(client, "t", b"x") for _ in range(10)] == list(range(10))
    process.kill()
    assert not (process.data_dir / ".kafka_cleanshutdown").exists()
    process.start()
    with process.client() as client:
        assert produce(client, "t", b"x") == 10


MAP = "listener.security.protocol.map=SECURE:{}"


@pytest.mark.parametrize(
    ("options", "code", "says"),
    [
        (("--port", "65536"), 2, "argument --port: '65536' is not a port: use a number from 0 to 65535"),
        (("--admin-port", "x"), 2, "argument --admin-port: 'x' is not a port"),
        (("--user", "a:b", "--set", MAP.format("PLAINTEXT")), 2, f"ottla serve: {MAP.format('PLAINTEXT')}: users are given"),
        (("--port-file", "{there}/no/port"), 1, "ottla serve: the port file {there}/no/port cannot be written: No such file or directory"),
        (("--data-dir", "{there}/file"), 1, "ottla serve: the data directory {there}/file cannot be created: File exists"),
        (
            ("--port", "{taken}"),
            1,
            "ottla serve: cannot listen on PLAINTEXT://127.0.0.1:{taken}: "
            "Address already in use; stop the other program, or choose another port with --port",
        ),
        (
            ("--admin-port", "0", "--admin-token", "two words"),
            1,
            "ottla serve: the admin port's token (--admin-token, OTTLA_ADMIN_TOKEN) must be ASCII",
        ),
        (
            ("--admin-port", "{taken}"),
            1,
            "ottla serve: cannot listen on http://127.0.0.1:{taken}, the admin port: "
            "Address already in use; stop the other program, or choose another port with --admin-port",
        ),
    ],
)
def test_unusable_option_prints_one_line_without_a_traceback(tmp_path: Path, options: tuple[str, ...], code: int, says: str) -> None:
    (tmp_path / "file").touch()
    with socket.create_server((HOST, 0)) as taken:
        given = {"there": tmp_path, "taken": taken.getsockname()[1]}
        words = [sys.executable, "-m", "ottla", "serve", "--data-dir", str(tmp_path / "data"), "--port", "0"]
        words += [option.format(**given) for option in options]
        ended = subprocess.run(words, capture_output=True, text=True, timeout=30, check=False)
    assert ended.returncode == code
    assert says.format(**given) in ended.stderr.splitlines()[-1 if code == 2 else 0]
    assert ended.stdout == ""
    assert "Traceback" not in ended.stderr


def test_a_second_broker_on_the_same_directory_is_refused_by_name(process: ServeProcess) -> None:
    with pytest.raises(RuntimeError, match=r"ended with 1: .*data"):
        ServeProcess(process.data_dir).start()


def test_port_in_use_is_rejected_before_the_directory_is_touched(process: ServeProcess, tmp_path: Path) -> None:
    second = ServeProcess(tmp_path / "other")
    second.port = process.port
    with pytest.raises(RuntimeError, match=f"cannot listen on PLAINTEXT://{HOST}:{process.port}"):
        second.start()
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("--set=log.segment.byte=1", "did you mean log.segment.bytes"),
        ("--set=num.partitions=0", "Value must be at least 1"),
        ("--fault=lose", "unknown fault 'lose'"),
        ("--set=listener.security.protocol.map=PLAINTEXT:SSL", "a listener with TLS needs a key and a certificate"),
    ],
)
def test_invalid_setting_stops_the_start_with_exit_code_2(tmp_path: Path, option: str, words: str) -> None:
    with pytest.raises(RuntimeError, match=f"ended with 2: .*{words}"):
        ServeProcess(tmp_path / "data", option).start()


SOURCES = ("file", "environment", "command line")


def listeners_from(source: str, directory: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Give listeners in this source; return the options that `ottla serve` needs for it."""
    listeners = "PLAINTEXT://127.0.0.1:0"
    if source == "file":
        (directory / "server.properties").write_text(f"listeners={listeners}\n")
        return ["--config", str(directory / "server.properties")]
    if source == "environment":
        monkeypatch.setenv("OTTLA_LISTENERS", listeners)
        return []
    return [f"--set=listeners={listeners}"]


@pytest.mark.parametrize("lock", ["--tls", "--user=alice:secret", "OTTLA_USERS"])
@pytest.mark.parametrize("source", SOURCES)
def test_security_options_are_rejected_beside_configured_listeners(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], lock: str, source: str
) -> None:
    options = ["--data-dir", str(tmp_path / "data"), "--port", "0"]
    if lock == "OTTLA_USERS":
        monkeypatch.setenv(lock, "alice:secret")
    else:
        options.append(lock)
    options += listeners_from(source, tmp_path, monkeypatch)
    for brokers in ([], ["--brokers=3"]):
        assert main([*options, *brokers, "--fault=none"]) == 2  # which would stop the start later, and saying something else
        output = capsys.readouterr().err
        assert f"listeners is given too (from the {source})" in output
        assert lock.partition("=")[0] in output
        assert "--host and --port" in output
    assert not list(tmp_path.glob("data*"))


@pytest.mark.parametrize("opener", ["--port=0", "--host=127.0.0.1", "--brokers=3"])
@pytest.mark.parametrize("source", SOURCES)
def test_address_options_are_rejected_beside_configured_listeners(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], opener: str, source: str
) -> None:
    options = ["--data-dir", str(tmp_path / "data"), "--fault=none", *listeners_from(source, tmp_path, monkeypatch)]
    assert main([*options, opener]) == 2
    output = capsys.readouterr().err
    assert f"{opener.partition('=')[0]} configures the listeners, but the setting listeners is given too (from the {source})" in output
    assert main(options) == 2
    assert "listeners" not in capsys.readouterr().err  # alone they may be given: what stops the start now is the fault


def test_address_options_are_rejected_beside_the_listeners_of_kafkas_variables(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    in_place = KafkaReplacement({"listeners": "PLAINTEXT://127.0.0.1:0"}, variables={"listeners": "KAFKA_LISTENERS"})
    assert main(["--data-dir", str(tmp_path / "data"), "--fault=none", "--port=0"], in_place) == 2
    output = capsys.readouterr().err
    assert (
        "--port configures the listeners, but the setting listeners is given too (from the KAFKA_ variables): remove one of them" in output
    )
    assert "(listeners comes from KAFKA_LISTENERS)" in output


CLUSTER = (
    "node.id=1",
    "cluster.id=5L6g3nShT-eMCtK--X86sw",
    "controller.listener.names=CONTROLLER",
    "controller.quorum.bootstrap.servers=127.0.0.1:1",
)


def test_node_with_invalid_security_leaves_its_new_directory_unformatted(tmp_path: Path) -> None:
    starts = {
        "broker": (
            "process.roles=broker",
            "listeners=LOCKED://127.0.0.1:0",
            "listener.security.protocol.map=LOCKED:SSL,CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name=LOCKED",
        ),
        "controller": ("process.roles=controller", "listeners=CONTROLLER://127.0.0.1:0", "listener.security.protocol.map=CONTROLLER:SSL"),
    }
    nodes = {}
    for name, settings in starts.items():
        words = [sys.executable, "-m", "ottla", "serve", "--data-dir", str(tmp_path / name)]
        words += [f"--set={setting}" for setting in (*CLUSTER, *settings)]
        nodes[name] = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
    for name, node in nodes.items():
        output = node.communicate(timeout=60)[1]
        assert (node.returncode, "a listener with TLS needs a key and a certificate" in output) == (2, True), output
        assert not (tmp_path / name).exists()


def test_requests_with_dropped_acks_are_appended_and_counted(tmp_path: Path) -> None:
    with ServeProcess(tmp_path / "data", "--fault=drop-ack:api=Produce,share=1") as running:
        with running.client() as client:
            create(client, "t")
            with pytest.raises(ConnectionError):
                produce(client, "t", b"x")
        running.stop()
        assert "drop-ack:api=PRODUCE,name=drop-ack-1: 1 of 1 hit" in running.log_text()
    with ServeProcess(tmp_path / "data") as again, again.client() as client:
        assert produce(client, "t", b"y") == 1
