"""Broker processes and their ports, with a stand-in program for the broker."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

import pytest

from client_compat.support.brokers import BrokerFailed, BrokerProcess
from client_compat.support.ports import FIRST_PORT, LAST_PORT, free_port

LISTEN = "import socket, signal; s = socket.create_server(('127.0.0.1', {port})); signal.pause()"


def program(text: str, tmp_path: Path) -> BrokerProcess:
    port = free_port()
    return BrokerProcess([sys.executable, "-c", text.format(port=port)], port, tmp_path / "output.log", name="stand-in")


def test_a_started_broker_listens_and_a_killed_one_does_not(tmp_path: Path) -> None:
    broker = program(LISTEN, tmp_path)
    assert broker.start() > 0
    assert broker.alive
    assert broker.usage().rss_bytes > 0
    broker.kill()
    assert not broker.alive
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", broker.port)) != 0


def test_the_same_port_serves_again_after_a_kill(tmp_path: Path) -> None:
    with program(LISTEN, tmp_path) as broker:
        broker.kill()
        broker.start()
        assert (broker.alive, broker.starts) == (True, 2)


def test_broker_that_ends_before_it_listens_is_reported_with_its_last_output(tmp_path: Path) -> None:
    with pytest.raises(BrokerFailed, match="no room left"):
        program("raise SystemExit('no room left')", tmp_path).start()


def test_broker_that_never_listens_is_killed_and_reported(tmp_path: Path) -> None:
    broker = program("import signal; signal.pause()", tmp_path)
    with pytest.raises(BrokerFailed, match="did not listen"):
        broker.start(timeout_s=0.2)
    assert not broker.alive


def test_ports_are_outside_the_ephemeral_range() -> None:
    assert FIRST_PORT <= free_port() < LAST_PORT
