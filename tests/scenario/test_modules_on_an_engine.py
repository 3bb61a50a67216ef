"""The image in Kafka's place on a real Docker engine: the testcontainers modules themselves, and compose files with `docker compose`.

OTTLA_STARTS sets how many starts are timed (default one); docs/in-kafkas-place.md has the figures.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka import Consumer, Producer

from client_compat.matrix.clients import ToolchainMissing
from client_compat.modules import MODULES, Module
from tests.support.docker_engine import BASE, answers, build_images, compose_command

STARTS = int(os.environ.get("OTTLA_STARTS", "1"))
TAGS = ("8.0.0", "7.9.0")  # like Confluent's, because Python's and Node's modules compare versions
TIMEOUT_S = 60
READY = "Kafka Server started"
COMPOSE_FILES = sorted((Path(__file__).parent / "compose_in_the_wild").glob("*.yml"))
INITS = {"init", "init-kafka"}

pytestmark = pytest.mark.skipif(not answers(), reason="no Docker engine answers (make container starts one where it may)")


@pytest.fixture(scope="module", autouse=True)
def image() -> Iterator[None]:
    """Build `ottla`, with the tags that two modules need."""
    import docker
    from docker.errors import ImageNotFound

    client = docker.from_env(timeout=900)
    try:
        made = build_images(client)["broker"]
    except ImageNotFound:
        pytest.skip(f"the base image is not here: docker pull {BASE}, or make container")
    else:
        for tag in TAGS:
            made.tag("ottla", tag)
        yield
    finally:
        client.close()


def print_seconds(name: str, seconds: Sequence[float]) -> None:
    print(f"{name}: {statistics.median(seconds):.2f} s ({min(seconds):.2f}-{max(seconds):.2f}, {len(seconds)} starts)")


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.name)
def test_testcontainers_module_starts_the_image_and_a_client_produces_and_consumes(module: Module) -> None:
    try:
        module.language.ensure_built()
    except ToolchainMissing as missing:
        pytest.skip(str(missing))
    print_seconds(module.name, [module.seconds() for _ in range(STARTS)])


class Composed:
    """A compose file with only the image names replaced, as its own project below `directory`."""

    def __init__(self, path: Path, directory: Path, command: Sequence[str]) -> None:
        self.document = yaml.safe_load(path.read_text())
        self.directory = directory
        for service in self.document["services"].values():
            if "zookeeper" in service["image"]:  # the image cannot be pulled here, and nothing uses it
                service["entrypoint"] = ["sleep", "infinity"]
            service["image"] = "ottla"
        (directory / "compose.yml").write_text(yaml.safe_dump(self.document))
        often = {"services": {"kafka": {"healthcheck": {"interval": "1s"}}}}  # instead of Docker's default of 30 s
        (directory / "often.yml").write_text(yaml.safe_dump(often))
        for name, text in self.document.get("x-files", {}).items():
            file = directory / "secrets" / Path(name).name
            file.parent.mkdir(exist_ok=True)
            file.write_text(text)
        self._argv = [*command, "-f", "compose.yml", "-f", "often.yml", "-p", f"ottla-{path.stem}-{os.getpid()}"]

    def run(self, *options: str, stdin: str = "") -> str:
        """Run `docker compose`, which must succeed; return its output."""
        argv = [*self._argv, *options]
        done = subprocess.run(argv, cwd=self.directory, input=stdin, capture_output=True, text=True, check=False, timeout=TIMEOUT_S * 3)
        assert done.returncode == 0, done.stdout + done.stderr + self._logs()
        return done.stdout

    def up(self) -> float:
        """Start it; return the seconds until the ready line."""
        began = time.monotonic()
        self.run("up", "-d", "--no-build", "kafka")
        argv = [*self._argv, "logs", "--follow", "kafka"]
        with subprocess.Popen(argv, cwd=self.directory, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as following:
            assert following.stdout is not None
            seen = any(READY in line for line in following.stdout)
            seconds = time.monotonic() - began
            following.kill()
        assert seen, self._logs()
        return seconds

    def down(self) -> None:
        self.run("down", "--volumes", "--timeout", "20")

    def health(self) -> str:
        container = self.run("ps", "-q", "kafka").strip()
        state = subprocess.run(["docker", "inspect", "-f", "{{json .State.Health}}", container], capture_output=True, text=True, check=True)
        return str(json.loads(state.stdout)["Status"])

    def _logs(self) -> str:
        return subprocess.run([*self._argv, "logs"], cwd=self.directory, capture_output=True, text=True, check=False).stdout[-4000:]


def through(client: dict[str, Any], topic: str) -> list[bytes]:
    """Produce and consume with a client on this machine; return what it consumed."""
    errors = []
    producer = Producer(client)
    for value in (b"one", b"two"):
        producer.produce(topic, value, key=value, on_delivery=lambda error, _: errors.append(error))
    assert (producer.flush(TIMEOUT_S), errors) == (0, [None, None])
    consumer = Consumer({**client, "group.id": "readers", "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    found = consumer.consume(2, TIMEOUT_S)
    consumer.close()
    return sorted(message.value() or b"" for message in found)


@pytest.mark.parametrize("path", COMPOSE_FILES, ids=lambda path: path.stem)
def test_compose_file_becomes_healthy_and_its_services_exit_successfully(path: Path, tmp_path: Path) -> None:
    command = compose_command()
    if command is None:
        pytest.skip("neither docker compose nor docker-compose is installed")
    project = Composed(path, tmp_path, command)
    seconds = []
    try:
        for _ in range(STARTS):
            project.down()
            seconds.append(project.up())
        print_seconds(f"compose, {path.stem}", seconds)
        deadline = time.monotonic() + TIMEOUT_S
        while (health := project.health()) == "starting" and time.monotonic() < deadline:
            pass  # asking takes a tenth of a second
        assert health == "healthy"
        for name in project.document["services"].keys() & INITS:
            project.run("run", "--rm", "-T", name)
        service = project.document["services"]["kafka"]
        options = project.document.get("x-kcat", ())[1::2]
        client = {"bootstrap.servers": "localhost:9094" if "EXTERNAL" in str(service) else "localhost:9092"}
        client |= dict(option.split("=", 1) for option in options)
        for topic in project.document["x-topics"]:
            if "kafka:9092" in str(service):  # it is advertised only to other containers
                at = ("--bootstrap-server", "kafka:9092", "--topic", topic)
                project.run("exec", "-T", "kafka", "/opt/kafka/bin/kafka-console-producer.sh", *at, stdin="one\ntwo\n")
                consume = ("--from-beginning", "--max-messages", "2", "--timeout-ms", "30000")
                output = project.run("exec", "-T", "kafka", "/opt/kafka/bin/kafka-console-consumer.sh", *at, *consume)
                assert sorted(output.split()) == ["one", "two"]
            else:
                assert through(client, topic) == [b"one", b"two"]
    finally:
        project.down()
