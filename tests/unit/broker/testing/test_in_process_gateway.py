from __future__ import annotations

from pathlib import Path

import pytest

from ottla.broker.testing.in_process_gateway import InProcessGateway
from ottla.protocol.client import Client
from ottla.protocol.messages.k03_metadata import MetadataRequest
from tests.support.running_broker import HOST, RunningBroker


def test_a_gateway_serves_between_its_start_and_its_stop(tmp_path: Path) -> None:
    with RunningBroker(tmp_path / "data") as broker:
        gateway = InProcessGateway(broker.bootstrap)
        with pytest.raises(RuntimeError, match="start it first"):
            gateway.bootstrap  # noqa: B018 # it raises
        with gateway:
            port = int(gateway.bootstrap.rpartition(":")[2])
            with Client(HOST, port) as client:
                assert client.call(MetadataRequest([])).brokers
        with pytest.raises(ConnectionError):
            Client(HOST, port)


def test_verdict_of_an_unused_gateway_raises(tmp_path: Path) -> None:
    with RunningBroker(tmp_path / "data") as broker, InProcessGateway(broker.bootstrap) as gateway:
        gateway.record()
        with pytest.raises(RuntimeError, match="no client wrote or read records through the gateway"):
            gateway.assert_exactly_once()
        gateway.assert_exactly_once(expected=[])
