"""The nodes of docker-compose.yml as processes on loopback, with their variables. test_container.py tests the file on a real engine."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka import Producer

from client_compat.support.admin import create_topic
from client_compat.support.brokers import BrokerProcess
from client_compat.support.ports import free_port
from ottla.broker.cli import health
from ottla.spark_jobs.audit import audit

ROOT = Path(__file__).parents[2]
SERVICES: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
BROKERS = sorted(name for name in SERVICES if name.startswith("broker-"))
TIMEOUT_S = 60
DEFAULT = -1
_DEFAULT = re.compile(r"\$\{(\w+):-([^}]*)\}")
_ANYWHERE = re.compile(r"(\w+)://0\.0\.0\.0:\d+")
_NODE = re.compile(rf"\b({'|'.join(['controller', *BROKERS])}):\d+")


class Nodes:
    """The processes of all services. Each listener has its own port on this machine, whereas each container would have its own address."""

    def __init__(self, directory: Path, stack: ExitStack) -> None:
        self.directory, self._stack = directory, stack
        self.variables: dict[str, dict[str, str]] = {}
        self._ports = {(name, inside): free_port() for name in ["controller", *BROKERS] for inside in (True, False)}
        self.processes = {name: self._start(name) for name in ["controller", *BROKERS]}
        self.bootstrap = ",".join(self.processes[name].bootstrap for name in BROKERS)

    def _start(self, name: str) -> BrokerProcess:
        env = {key: self._here(name, str(value)) for key, value in SERVICES[name]["environment"].items()}
        self.variables[name] = dict(env)
        env["OTTLA_LOG_DIR"] = str(self.directory / name)
        variables = [f"{key}={value}" for key, value in env.items()]
        port = self._ports[name, name == "controller"]
        process = BrokerProcess(["env", *variables, sys.executable, "-m", "ottla", "serve"], port, self.directory / f"{name}.log", name)
        process.start()
        self._stack.callback(lambda: process.alive and process.stop())
        return process

    def _here(self, name: str, value: str) -> str:
        """Return the value of a service's variable with loopback addresses in place of the containers'."""
        published = {f"PORT_{number}": str(self._ports[broker, False]) for number, broker in enumerate(BROKERS, 1)}
        value = _DEFAULT.sub(lambda found: published.get(found[1], found[2]), value)
        value = _ANYWHERE.sub(lambda found: f"{found[1]}://127.0.0.1:{self._ports[name, found[1] != 'PLAINTEXT']}", value)
        return _NODE.sub(lambda found: f"127.0.0.1:{self._ports[found[1], True]}", value)


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[Nodes]:
    with ExitStack() as stack:
        yield Nodes(tmp_path, stack)


def test_three_brokers_replicate_one_is_killed_and_back_and_the_audit_compares_their_directories(nodes: Nodes) -> None:
    create_topic(nodes.bootstrap, "numbers", 3, replicas=DEFAULT)
    producer = Producer({"bootstrap.servers": nodes.bootstrap, "enable.idempotence": True, "message.timeout.ms": TIMEOUT_S * 1000})
    problems: list[Any] = []

    def send(values: range) -> None:
        for value in values:
            producer.produce("numbers", b"%d" % value, on_delivery=lambda error, _: problems.append(error))
        assert producer.flush(TIMEOUT_S) == 0

    send(range(100))
    nodes.processes[BROKERS[0]].kill()
    send(range(100, 200))
    nodes.processes[BROKERS[0]].start()
    send(range(200, 300))
    assert problems == [None] * 300
    for variables in nodes.variables.values():
        address, secure = health.first_listener(variables)
        health.ask(address, secure=secure)  # as the health checks in docker-compose.yml do
    for name in reversed(nodes.processes):
        nodes.processes[name].stop()
    verdict = audit([nodes.directory / name for name in BROKERS], replicas=True, engine="duckdb")
    assert verdict.exit_code == 0


def test_audit_service_of_compose_mounts_every_brokers_directory() -> None:
    service = SERVICES["audit"]
    mounted = {volume.split(":")[0]: volume.split(":")[1] for volume in service["volumes"]}
    assert sorted(mounted) == BROKERS
    assert service["command"] == ["audit", "--replicas", *mounted.values()]


def test_each_compose_image_is_built_by_one_service_and_never_pulled() -> None:
    """Compose builds all services at once, and an image store rejects a second image of the same name during a build. No image is
    pulled."""
    built = [service["image"] for service in SERVICES.values() if "build" in service]
    assert sorted(built) == sorted({service["image"] for service in SERVICES.values()})
    assert all("build" in service or service["pull_policy"] == "never" for service in SERVICES.values())


def test_every_compose_node_has_a_health_check() -> None:
    checks = {name: service["healthcheck"]["test"] for name, service in SERVICES.items() if name != "audit"}
    assert checks == {name: ["CMD", "ottla", "health"] for name in ["controller", *BROKERS]}
