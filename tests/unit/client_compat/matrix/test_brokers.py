"""Which processes are left when a broker of the matrix ends, with stand-in programs for Kafka 2.8 and its ZooKeeper."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from client_compat.kafka import reference
from client_compat.matrix import brokers
from client_compat.matrix.brokers import KAFKA, KINDS, Broker, running
from client_compat.support.brokers import BrokerProcess

LISTEN = """
import re, signal, socket, sys
given = sys.argv[1]
port = given if given.isdigit() else re.search(r"PLAINTEXT://[^:]+:([0-9]+)", open(given).read())[1]
server = socket.create_server(("127.0.0.1", int(port)))
signal.pause()
"""


@pytest.fixture(autouse=True)
def kafka_with_zookeeper(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def command(_version: str, _main_class: str, *arguments: str, **_: Any) -> list[str]:
        return [sys.executable, "-c", LISTEN, *arguments]

    monkeypatch.setenv("KAFKA_REFERENCE_VERSION", "2.8.2")
    monkeypatch.setattr(reference, "java_command", command)
    monkeypatch.setattr(brokers, "FORMATTED", tmp_path / "formatted")


def children() -> set[psutil.Process]:
    return set(psutil.Process().children())


@pytest.mark.parametrize("last", [Broker.stop, Broker.kill, lambda broker: signal.raise_signal(signal.SIGINT)])
def test_broker_with_zookeeper_leaves_no_process(tmp_path: Path, last: Callable[[Broker], None]) -> None:
    before = children()
    with suppress(KeyboardInterrupt), running(KINDS[KAFKA], tmp_path / "broker") as broker:
        assert len(children() - before) == 2
        last(broker)
    assert children() == before


def test_interrupted_start_leaves_no_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    start = BrokerProcess.start

    def interrupted(process: BrokerProcess, timeout_s: float) -> float:
        took = start(process, timeout_s)
        if process.name.startswith("Apache Kafka"):
            raise KeyboardInterrupt
        return took

    monkeypatch.setattr(BrokerProcess, "start", interrupted)
    before = children()
    with pytest.raises(KeyboardInterrupt):
        reference.ReferenceBroker(tmp_path / "data").start()
    assert children() == before
