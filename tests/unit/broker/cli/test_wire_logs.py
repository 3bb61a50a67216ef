"""`ottla gateway --log`, `ottla tap` and `ottla serve --log-requests`, as processes and files."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from client_compat.support.ports import free_port
from ottla.broker.cli.wire_logs import wire_log
from ottla.broker.faults.rules import FaultSyntax
from ottla.protocol.client import Client
from ottla.protocol.messages.k03_metadata import MetadataRequest
from tests.support.running_broker import HOST, RunningBroker, ServeProcess
from tests.support.topic_calls import create

TIMEOUT_S = 20


def test_tap_shows_requests_as_they_pass(tmp_path: Path) -> None:
    port = free_port()
    with RunningBroker(tmp_path / "data") as broker:
        argv = [sys.executable, "-m", "ottla", "tap", "--to", broker.bootstrap, "--port", str(port), "--json", "--only", "api=CreateTopics"]
        with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            try:
                assert process.stderr is not None
                assert process.stdout is not None
                assert "listening on" in process.stderr.readline()
                with Client(HOST, port) as client:
                    client.call(MetadataRequest([]))
                    create(client, "orders")
                shown = json.loads(process.stdout.readline())
                assert (shown["api"], shown["about"], shown["errors"]) == ("CreateTopics", "orders", [])
                assert shown["request"]["topics"][0]["name"] == "orders"
            finally:
                process.terminate()
            assert process.communicate(timeout=TIMEOUT_S)[0] == ""


def test_a_broker_logs_its_requests_to_a_private_file(tmp_path: Path) -> None:
    log = tmp_path / "requests.log"
    with ServeProcess(tmp_path / "data", f"--log-requests={log}") as running, running.client("me") as client:
        create(client, "orders")
        (line,) = [each for each in log.read_text().splitlines() if "CreateTopics" in each]
    assert "client=me" in line
    assert "orders" in line
    assert log.stat().st_mode & 0o777 == 0o600


def test_unwritable_request_log_stops_the_start(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=r"--log-requests .* cannot be written: Is a directory"):
        ServeProcess(tmp_path / "data", f"--log-requests={tmp_path}").start()


def test_fault_rule_option_in_a_filter_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(FaultSyntax, match="a filter has no times"):
        wire_log(str(tmp_path / "log"), ["api=Fetch,times=1"])
