"""The parts of OttlaContainer that need no engine; tests/scenario/test_container.py runs it."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.broker.testing.container import KafkaWaitStrategy
from tests.support.running_broker import RunningBroker


class Target:
    """A stand-in for a container, as a testcontainers wait strategy sees it, with its port mapped to `port`."""

    def __init__(self, port: int, status: str = "running") -> None:
        self.port = port
        self.status = status

    def get_container_host_ip(self) -> str:
        return "127.0.0.1"

    def get_exposed_port(self, port: int) -> int:
        return self.port

    def get_wrapped_container(self) -> None:
        return None

    def get_logs(self) -> tuple[bytes, bytes]:
        return b"", b"what it logged"

    def reload(self) -> None:
        return None


def test_container_is_ready_when_it_answers_kafkas_protocol(tmp_path: Path) -> None:
    with RunningBroker(tmp_path / "data") as running:
        KafkaWaitStrategy(9092).wait_until_ready(Target(running.port))


def test_ended_container_is_reported_at_once_with_its_log() -> None:
    with pytest.raises(RuntimeError, match="what it logged"):
        KafkaWaitStrategy(9092).wait_until_ready(Target(1, "exited"))


def test_unreachable_container_times_out_with_its_log() -> None:
    with pytest.raises(TimeoutError, match="what it logged"):
        KafkaWaitStrategy(9092).with_startup_timeout(0).wait_until_ready(Target(1))
