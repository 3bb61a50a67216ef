"""The image, OttlaContainer and docker-compose.yml on a real Docker engine; `make container` starts one if none is running."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient

from client_compat.support.ports import free_port
from tests.support.docker_engine import BASE, ROOT, answers, build_images, compose_command

TIMEOUT_S = 60
LARGEST_IMAGE = 150_000_000  # bytes of the broker's image; the base image has 120 MB before container/shrink
SMALL = {"offsets.topic.num.partitions": 4, "transaction.state.log.num.partitions": 4}

pytestmark = pytest.mark.skipif(not answers(), reason="no Docker engine answers (make container starts one where it may)")


@pytest.fixture(scope="module")
def docker_client() -> Iterator[Any]:
    import docker

    client = docker.from_env(timeout=900)
    yield client
    client.close()


@pytest.fixture(scope="module")
def images(docker_client: Any) -> dict[str, Any]:
    """The images of both targets of the Dockerfile. Skips the test without a base image."""
    from docker.errors import ImageNotFound

    try:
        return build_images(docker_client)
    except ImageNotFound:
        pytest.skip(f"the base image is not here: docker pull {BASE}, or make container")


@pytest.fixture
def testcontainers(images: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> Callable[[], Any]:
    """Return a function that makes OttlaContainers which publish on loopback, without testcontainers' reaper, whose image is not
    available."""
    from testcontainers.core.config import ConnectionMode, testcontainers_config

    monkeypatch.setattr(testcontainers_config, "ryuk_disabled", True)
    monkeypatch.setattr(testcontainers_config, "connection_mode_override", ConnectionMode.docker_host)

    def make() -> Any:
        from ottla.broker.testing.container import OttlaContainer

        container = OttlaContainer()
        for name, value in SMALL.items():
            container.with_setting(name, value)
        return container

    return make


def produce(bootstrap: str, topic: str, values: list[bytes]) -> None:
    """Produce idempotently with confluent-kafka; every record must be acknowledged."""
    errors = []
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "message.timeout.ms": TIMEOUT_S * 1000})
    for value in values:
        producer.produce(topic, value, partition=0, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(TIMEOUT_S) == 0
    assert errors == [None] * len(values)


def consume(bootstrap: str, topic: str, count: int) -> list[bytes]:
    """Read a topic with confluent-kafka, as a group member."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "readers", "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    found: list[bytes] = []
    deadline = time.monotonic() + TIMEOUT_S
    while len(found) < count and time.monotonic() < deadline:
        message = consumer.poll(0.5)
        if message is not None and message.error() is None:
            found.append(message.value())
    consumer.close()
    return found


async def consume_with_aiokafka(bootstrap: str, topic: str, count: int) -> list[bytes]:
    async with AIOKafkaConsumer(topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        return [(await consumer.getone()).value for _ in range(count)]


def wait_until_healthy(docker_client: Any, since: float, filters: dict[str, str]) -> None:
    """Wait until the engine reports a passed health check after `since`; a failed one raises AssertionError."""
    wanted = {**filters, "type": "container", "event": "health_status"}
    for event in docker_client.events(since=int(since), until=int(since) + TIMEOUT_S, decode=True, filters=wanted):
        assert event["status"] == "health_status: healthy"
        return
    raise AssertionError(f"no health check in {TIMEOUT_S} s")


def advertised(bootstrap: str) -> str:
    """Return the address in Metadata responses: on Linux the container's own address would work too, so a client does not notice."""
    (broker,) = AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=TIMEOUT_S).brokers.values()
    return f"{broker.host}:{broker.port}"


VALUES = [b"%d" % number for number in range(100)]


async def test_clients_reach_the_container_through_the_mapped_port_and_it_keeps_its_data(testcontainers: Callable[[], Any]) -> None:
    began = time.monotonic()
    with testcontainers() as broker:
        print(f"OttlaContainer answers after {time.monotonic() - began:.2f} s")
        first = broker.get_bootstrap_server()
        produce(first, "numbers", VALUES)
        assert consume(first, "numbers", len(VALUES)) == VALUES
        assert advertised(first) == first
        inside = broker.exec(["sh", "-c", f"ottla topics list --bootstrap-server $(hostname):{broker.INTERNAL_PORT}"])
        assert (inside.exit_code, b"numbers" in inside.output) == (0, True), inside.output
        broker.restart(kill=True)
        again = broker.get_bootstrap_server()
        assert advertised(again) == again
        assert await consume_with_aiokafka(again, "numbers", len(VALUES)) == VALUES
        published = broker.get_wrapped_container().attrs["NetworkSettings"]["Ports"]["9092/tcp"]
        assert {each["HostIp"] for each in published} == {"127.0.0.1"}


def test_the_image_is_small(images: dict[str, Any]) -> None:
    assert images["broker"].attrs["Size"] < LARGEST_IMAGE


def test_container_runs_healthy_as_non_root_with_a_read_only_root(testcontainers: Callable[[], Any], docker_client: Any) -> None:
    began, wall = time.monotonic(), time.time()
    with testcontainers().with_kwargs(read_only=True, cap_drop=["ALL"]).with_tmpfs_mount("/tmp") as broker:
        container = broker.get_wrapped_container()
        assert broker.exec(["touch", "/home/appuser/file"]).exit_code != 0
        assert broker.exec(["ottla", "health"]).exit_code == 0
        assert broker.exec(["id", "-u"]).output.strip() == b"1000"
        assert {row[0] for row in container.top()["Processes"]}.isdisjoint({"root", "0"})
        wait_until_healthy(docker_client, wall, {"container": container.id})
        print(f"healthy after {time.monotonic() - began:.2f} s")


def test_containers_admin_port_controls_faults_and_the_clock(testcontainers: Callable[[], Any]) -> None:
    with testcontainers().with_admin().with_fault("delay:api=Metadata,ms=1,times=1,name=from-the-start") as broker:
        name = broker.add_fault("drop-ack:api=Produce,topic=numbers,times=1")
        produce(broker.get_bootstrap_server(), "numbers", VALUES)
        consumed = {rule["name"]: rule["consumed"] for rule in broker.admin("GET", "/faults")}
        assert consumed == {"from-the-start": True, name: True}
        broker.advance_clock(3600)
        assert broker.admin("GET", "/clock")["ahead_ms"] == 3_600_000
        assert consume(broker.get_bootstrap_server(), "numbers", len(VALUES)) == VALUES


def test_the_containers_broker_returns_to_a_mark(testcontainers: Callable[[], Any]) -> None:
    with testcontainers().with_marks() as broker:
        produce(broker.get_bootstrap_server(), "numbers", VALUES)
        name = broker.mark()
        produce(broker.get_bootstrap_server(), "numbers", VALUES)
        broker.rewind(name)
        produce(broker.get_bootstrap_server(), "numbers", [b"after"])
        assert consume(broker.get_bootstrap_server(), "numbers", len(VALUES) + 1) == [*VALUES, b"after"]


def test_a_setting_that_is_misspelt_ends_the_start_with_its_log(testcontainers: Callable[[], Any]) -> None:
    with pytest.raises(RuntimeError, match=r"num\.partitons"), testcontainers().with_setting("num.partitons", 3):
        pass


@pytest.fixture
def compose(images: dict[str, Any], tmp_path: Path) -> Iterator[Callable[..., subprocess.CompletedProcess[str]]]:
    """Run `docker compose` in its own project, which is removed with its volume."""
    command = compose_command()
    if command is None:
        pytest.skip("neither docker compose nor docker-compose is installed")
    ports, project = [str(free_port()) for _ in range(3)], f"ottla-test-{os.getpid()}"
    environment = {**os.environ, **{f"PORT_{number}": port for number, port in enumerate(ports, 1)}}

    def run(*options: str) -> subprocess.CompletedProcess[str]:
        argv = [*command, "-f", str(ROOT / "docker-compose.yml"), "-p", project, *options]
        return subprocess.run(argv, capture_output=True, text=True, check=False, env=environment, timeout=600)

    run.bootstrap = ",".join(f"localhost:{port}" for port in ports)  # type: ignore[attr-defined] # an attribute for the tests
    yield run
    down = run("down", "--volumes", "--timeout", "20")
    assert down.returncode == 0, down.stderr


async def test_compose_runs_three_brokers_that_outlive_one_and_the_audit_finds_their_volumes_clean(compose: Any) -> None:
    for first in (True, False):
        began = time.monotonic()
        up = compose("up", "-d", "--no-build", "--wait")
        assert up.returncode == 0, up.stderr
        print(f"three brokers are healthy after {time.monotonic() - began:.2f} s")
        if first:
            produce(compose.bootstrap, "numbers", VALUES)
            assert compose("kill", "broker-1").returncode == 0
        assert await consume_with_aiokafka(compose.bootstrap, "numbers", len(VALUES)) == VALUES
        if first:
            assert compose("rm", "--force", "--stop").returncode == 0
    inside = compose("exec", "-T", "broker-1", "ottla", "topics", "list", "--bootstrap-server", "broker-2:29092")
    assert (inside.returncode, "numbers" in inside.stdout) == (0, True), inside.stderr
    audit = compose("--profile", "audit", "run", "--rm", "audit")
    print(audit.stdout)
    assert audit.returncode == 0, audit.stdout + audit.stderr
