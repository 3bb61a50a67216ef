"""The commands without a broker: arguments, output lines, times, help. Commands against a broker: tests/scenario/test_cli.py."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from ottla.broker.cli import faults, groups, topics, transactions
from ottla.broker.cli.audit import audit, dedup, explain
from ottla.broker.cli.cluster import AdminClient, check, name_of
from ottla.broker.cli.common import CliError, command, host_port, pairs
from ottla.broker.cli.consume import consume, json_line, plain_line
from ottla.broker.cli.dump_log import dump_log
from ottla.broker.cli.group_offsets import timestamp_ms
from ottla.broker.cli.produce import produce, split_line
from ottla.broker.cli.verify import verify
from ottla.broker.development_security import as_lines
from ottla.testing import InProcessBroker

ROOT = Path(__file__).resolve().parents[4]


@dataclass
class Taken:
    """A record as aiokafka gives it."""

    topic: str = "t"
    partition: int = 0
    offset: int = 7
    timestamp: int = 1_000
    key: bytes | None = None
    value: bytes | None = None
    headers: list[tuple[str, bytes]] = field(default_factory=list)


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [("localhost:9093", "localhost", 9093), ("kafka", "kafka", 9092), ("[::1]:9094", "::1", 9094), ("[::1]", "::1", 9092)],
)
def test_address_without_a_port_has_port_9092(text: str, host: str, port: int) -> None:
    assert host_port(text) == (host, port)


@pytest.mark.parametrize("text", ["", ":", "host:", "host:x", "host:0", "host:70000", ":9092"])
def test_invalid_address_is_rejected(text: str) -> None:
    with pytest.raises(CliError, match="not an address"):
        host_port(text)


def test_settings_are_name_and_value_and_a_value_may_hold_an_equals_sign() -> None:
    assert pairs(["a=1", "b=x=y", "c="]) == {"a": "1", "b": "x=y", "c": ""}
    with pytest.raises(CliError):
        pairs(["=1"])


def test_an_error_of_the_user_is_one_line_with_its_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    @command
    def fails() -> None:
        raise CliError("do this instead", 3)

    with pytest.raises(typer.Exit) as ended:
        fails()
    assert ended.value.exit_code == 3
    assert capsys.readouterr().err == "error: do this instead\n"


def test_error_code_is_printed_by_kafkas_name_or_number() -> None:
    assert name_of(36) == "TOPIC_ALREADY_EXISTS"
    assert name_of(9999) == "error code 9999"
    check(0, "nothing")
    with pytest.raises(CliError, match=r"topic 'x': TOPIC_ALREADY_EXISTS \(why\)"):
        check(36, "topic 'x'", "why")


def test_peer_that_does_not_speak_kafkas_protocol_is_reported() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            peer, _ = server.accept()
            with peer:
                peer.recv(1_000)
                peer.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        with AdminClient(f"127.0.0.1:{server.getsockname()[1]}") as cluster, pytest.raises(CliError, match="Kafka's protocol"):
            cluster.metadata()
        thread.join()


def test_connection_errors_advise_client_security_or_starting_a_broker(tmp_path: Path) -> None:
    with InProcessBroker(tmp_path / "data", tls=True) as broker:
        with AdminClient(broker.bootstrap) as cluster, pytest.raises(CliError, match=r"TLS or SASL: .* --config client\.properties"):
            cluster.metadata()
        address = broker.bootstrap
    with AdminClient(address) as cluster, pytest.raises(CliError, match=r"Connection refused.*Start one with `ottla serve"):
        cluster.metadata()


def test_a_line_without_the_separator_is_a_value() -> None:
    assert split_line(b"a:b:c", ":") == (b"a", b"b:c")
    assert split_line(b"abc", ":") == (None, b"abc")
    assert split_line(b"a:b", None) == (None, b"a:b")


def test_a_record_as_json_keeps_bytes_that_are_no_text() -> None:
    document = json.loads(json_line(Taken(key=b"\xff", value="é".encode(), headers=[("h", b"1")])))
    assert document["key"] == {"base64": "/w=="}
    assert document["value"] == "é"
    assert (document["offset"], document["headers"]) == (7, [["h", "1"]])


def test_a_plain_record_is_its_value_with_its_key_when_asked() -> None:
    assert plain_line(Taken(value=b"v"), None) == b"v\n"
    assert plain_line(Taken(key=b"k", value=None), "=") == b"k=\n"


def test_a_time_without_a_zone_is_utc() -> None:
    assert timestamp_ms("1970-01-01T00:00:01") == 1_000
    assert timestamp_ms("1970-01-01T01:00:01+01:00") == 1_000
    with pytest.raises(CliError, match="earliest"):
        timestamp_ms("yesterday")


def _app_of(function: Any) -> typer.Typer:
    app = typer.Typer()
    app.command()(function)
    return app


@pytest.mark.parametrize(
    ("app", "arguments"),
    [
        (topics.app, ["create", "--help"]),
        (topics.app, ["alter", "--help"]),
        (groups.app, ["reset-offsets", "--help"]),
        (_app_of(produce), ["--help"]),
        (_app_of(consume), ["--help"]),
        (_app_of(dump_log), ["--help"]),
        (_app_of(audit), ["--help"]),
        (_app_of(explain), ["--help"]),
        (_app_of(dedup), ["--help"]),
        (_app_of(verify), ["--help"]),
        (transactions.app, ["abort", "--help"]),
        (faults.app, ["add", "--help"]),
        (faults.clock, ["advance", "--help"]),
    ],
)
def test_help_teaches_by_an_example(app: typer.Typer, arguments: list[str]) -> None:
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0
    assert re.search(r"(For\s+example:|`)[^.`]*ottla\s+\w", result.stdout)


def test_reset_offsets_rejects_two_targets() -> None:
    result = CliRunner().invoke(groups.app, ["reset-offsets", "g", "--topic", "t", "--to", "earliest", "--shift-by", "1"])
    assert result.exit_code == 1
    assert "either --to or --shift-by" in result.stderr


def test_delete_without_confirmation_deletes_nothing() -> None:
    result = CliRunner().invoke(topics.app, ["delete", "orders", "--bootstrap-server", "127.0.0.1:1"], input="n\n")
    assert result.exit_code == 1
    assert "deleted" not in result.stdout


def ottla(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the command in its own process, because a missing package has to be missing for the whole interpreter."""
    command_line = [sys.executable, "-m", "ottla", *arguments]
    return subprocess.run(command_line, env={**os.environ, **environment}, capture_output=True, text=True, timeout=60, check=False)


def test_installation_without_extras_has_help_and_names_the_extra_of_the_audit(tmp_path: Path) -> None:
    for package in ("pyarrow", "duckdb"):
        (tmp_path / f"{package}.py").write_text(f"raise ModuleNotFoundError(\"No module named '{package}'\", name='{package}')")
    help_ = ottla("--help", PYTHONPATH=str(tmp_path))
    assert help_.returncode == 0
    assert "Needs the extra 'audit'" in help_.stdout
    misspelt = ottla("tpics", PYTHONPATH=str(tmp_path))
    assert (misspelt.returncode, "Did you mean 'topics'" in misspelt.stderr) == (2, True)
    audit = ottla("audit", "data", "--html", "page.html", PYTHONPATH=str(tmp_path))
    assert (audit.returncode, audit.stdout) == (2, "")
    assert audit.stderr == "ottla audit needs the packages of the extra 'audit': pip install 'ottla[audit]' (No module named 'pyarrow')\n"


@pytest.mark.parametrize("command", ["serve", "topics"])
def test_uninstalled_checkout_prints_installation_instructions(command: str) -> None:
    argv = [sys.executable, "-S", "-m", "ottla", command]  # -S: without the packages of this environment
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert "install it with 'pip install .' in the checkout or 'make setup'" in done.stderr


def test_the_version_is_that_of_the_installed_package() -> None:
    assert ottla("--version").stdout == f"ottla {metadata.version('ottla')}\n"


def test_an_interrupt_in_the_middle_of_an_import_is_no_trace(tmp_path: Path) -> None:
    (tmp_path / "aiokafka.py").write_text("raise KeyboardInterrupt")
    stopped = ottla("consume", "numbers", PYTHONPATH=str(tmp_path))
    assert (stopped.returncode, stopped.stderr) == (130, "")


def test_the_root_commands_client_settings_apply_to_the_audit_of_a_cluster(tmp_path: Path) -> None:
    file, data = tmp_path / "client.properties", tmp_path / "data"
    with InProcessBroker(data, tls=True, users={"alice": "secret"}) as broker:
        broker.topics.create("t")
        file.write_text("\n".join(as_lines(broker.client_properties())))
        cluster = f"kafka://{broker.bootstrap}"
        by_option = ottla("--config", str(file), "audit", cluster)
        by_variable = ottla("audit", cluster, OTTLA_CLIENT_CONFIG=str(file))
        own = ottla("audit", cluster, "--command-config", str(file), OTTLA_CLIENT_CONFIG="none")
    assert (by_option.returncode, by_variable.returncode) == (0, 0), by_option.stderr + by_variable.stderr
    assert "none" in own.stderr, "OTTLA_CLIENT_CONFIG names a file that does not exist"


def test_bug_in_the_audit_does_not_exit_with_a_verdicts_code(tmp_path: Path) -> None:
    (tmp_path / "duckdb.py").write_text("raise RuntimeError('a bug')")
    (tmp_path / "data" / "orders-0").mkdir(parents=True)
    (tmp_path / "data" / "orders-0" / "00000000000000000000.log").touch()
    failed = ottla("audit", "--engine", "duckdb", str(tmp_path / "data"), PYTHONPATH=str(tmp_path))
    assert (failed.returncode, "a bug" in failed.stderr) == (2, True)


def test_an_error_is_red_on_a_terminal_unless_no_color_is_set() -> None:
    def shown(**environment: str) -> bytes:
        terminal, its_end = os.openpty()
        wrong = [sys.executable, "-m", "ottla", "topics", "list", "-b", "localhost:x"]
        subprocess.run(wrong, env={**os.environ, **environment}, stderr=its_end, timeout=60, check=False)
        os.close(its_end)
        with os.fdopen(terminal, "rb", 0) as reader:
            return reader.read(1_000)

    line = b"error: 'localhost:x' is not an address: use HOST:PORT, such as localhost:9092"
    assert shown(NO_COLOR="") == b"\x1b[31m" + line + b"\x1b[0m\r\n"
    assert shown(NO_COLOR="1") == line + b"\r\n"
