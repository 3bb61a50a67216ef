"""The image in the place of apache/kafka, cp-kafka and bitnami/kafka: started as testcontainers and compose files start those.

The scripts are those that the testcontainers modules write (as of summer 2026), with the same commands, variables, and ready lines.
The test needs no container engine (tests/support/image_root.py).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.image_root import Container, made_layer, possible

COMPOSE_FILES = sorted((Path(__file__).parent / "compose_in_the_wild").glob("*.yml"))
Run = Callable[..., Container]

pytestmark = pytest.mark.skipif(possible() is not None, reason=f"{possible()}")


@pytest.fixture(scope="module")
def layer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made_layer(tmp_path_factory.mktemp("image"))


@pytest.fixture
def run(layer: Path, tmp_path: Path) -> Iterator[Run]:
    """Start containers, which end with the test."""
    running: list[Container] = []

    def start(env: Mapping[str, Any], command: Sequence[str] = (), **more: Any) -> Container:
        variables = {name: str(value) for name, value in env.items()}
        running.append(Container(layer, tmp_path / str(len(running)), variables, command, **more))
        return running[-1]

    yield start
    for container in running:
        container.end()
        print(container.output)


# --- compose files ---------------------------------------------------------------------------------------------------------------------


def environment(service: Mapping[str, Any]) -> dict[str, str]:
    given = service.get("environment", {})
    return dict(item.split("=", 1) for item in given) if isinstance(given, list) else {name: str(value) for name, value in given.items()}


def health_check(service: Mapping[str, Any]) -> list[str]:
    test = service["healthcheck"]["test"]
    if isinstance(test, str):
        return ["sh", "-c", test]
    return test[1:] if test[0] == "CMD" else ["sh", "-c", test[1]]


def command_of(service: Mapping[str, Any]) -> list[str]:
    command = service["command"]
    return [*service.get("entrypoint", ()), *([command.strip().strip('"')] if isinstance(command, str) else command)]


@pytest.mark.parametrize("path", COMPOSE_FILES, ids=lambda path: path.stem)
def test_compose_files_for_kafka_work_with_only_the_image_replaced(path: Path, run: Run) -> None:
    document = yaml.safe_load(path.read_text())
    service = document["services"]["kafka"]
    kafka = run(environment(service), files=document.get("x-files", {}))
    kafka.wait_until(lambda: kafka.exec(*health_check(service)).returncode == 0, "health")
    for name in document["services"].keys() & {"init", "init-kafka"}:
        done = kafka.exec(*command_of(document["services"][name]))
        assert done.returncode == 0, done.stdout + done.stderr
    assert kafka.exec("ottla", "health").returncode == 0
    external = "localhost:9094" if "EXTERNAL" in str(service) else "localhost:9092"
    for topic, partitions in document["x-topics"].items():
        kcat = ["kcat", "-b", external, "-t", topic, *document.get("x-kcat", ())]
        output = kafka.exec(*kcat, "-L").stdout
        assert f'topic "{topic}" with {partitions} partitions' in output
        assert kafka.exec(*kcat, "-P", "-K:", stdin="1:one\n2:two\n").returncode == 0
        assert sorted(kafka.exec(*kcat, "-C", "-e", "-q").stdout.split()) == ["one", "two"]
    assert "Unknown setting" in kafka.output if "CONFLUENT_SUPPORT" in str(service) else "Unknown setting" not in kafka.output
    assert kafka.stop() == 0


# --- testcontainers --------------------------------------------------------------------------------------------------------------------

WAIT_FOR = "while [ ! -f {0} ]; do sleep 0.1; done; {0}"
SCRIPT = "/tmp/testcontainers_start.sh"
RUNNING = r".*Transitioning from RECOVERY to RUNNING.*"
IN_ZOOKEEPERS_DAYS = r".*\[KafkaServer id=\d+\] started.*"
NO_FLUSH = {"KAFKA_LOG_FLUSH_INTERVAL_MESSAGES": 2**63 - 1, "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": 0}
OFFSETS = {"KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": 1, "KAFKA_OFFSETS_TOPIC_NUM_PARTITIONS": 1}
TRANSACTIONS = {"KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR": 1, "KAFKA_TRANSACTION_STATE_LOG_MIN_ISR": 1}
KRAFT = {
    "KAFKA_PROCESS_ROLES": "broker,controller",
    "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
    "KAFKA_NODE_ID": 1,
    "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@localhost:9094",
}
JAVA = {
    "CLUSTER_ID": "4L6g3nShT-eMCtK--X86sw",
    "KAFKA_LISTENERS": "PLAINTEXT://0.0.0.0:9092,BROKER://0.0.0.0:9093,CONTROLLER://0.0.0.0:9094",
    "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "BROKER:PLAINTEXT,PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "KAFKA_INTER_BROKER_LISTENER_NAME": "BROKER",
    **KRAFT,
    **OFFSETS,
    **TRANSACTIONS,
    **NO_FLUSH,
}
JAVA_SCRIPT = "#!/bin/bash\nexport KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://localhost:9092,BROKER://kafka:9093\n"
AT_9093 = {
    "KAFKA_LISTENERS": "PLAINTEXT://0.0.0.0:9093,BROKER://0.0.0.0:9092",
    "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "BROKER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "KAFKA_INTER_BROKER_LISTENER_NAME": "BROKER",
    "KAFKA_BROKER_ID": 1,
    **OFFSETS,
    **NO_FLUSH,
}
AT_9093_IN_KRAFT = {
    **AT_9093,
    **KRAFT,
    "KAFKA_LISTENERS": f"{AT_9093['KAFKA_LISTENERS']},CONTROLLER://0.0.0.0:9094",
    "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": f"{AT_9093['KAFKA_LISTENER_SECURITY_PROTOCOL_MAP']},CONTROLLER:PLAINTEXT",
}
ADVERTISED_9093 = "export KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://localhost:9093,BROKER://{}:9092\n"


LOGGED_IN = """
import json, sys
from confluent_kafka import Consumer, Producer
user, another = json.loads(sys.argv[1])
producer = Producer(user)
producer.produce("msgs", b"Message produced by a user")
assert producer.flush(30) == 0
consumer = Consumer({**another, "group.id": "g", "auto.offset.reset": "earliest"})
consumer.subscribe(["msgs"])
print(consumer.poll(30).value().decode())
consumer.close()
"""
"""Clients other than kcat: Debian's librdkafka is so old that SCRAM fails with every Kafka that compares nonces correctly
(CVE-2024-56128)."""


@dataclass(frozen=True)
class Module:
    """A testcontainers module: how it starts the image. `script` is copied in when the mapped port is known; `ready` is the line that it
    waits for."""

    env: Mapping[str, Any]
    script: str
    ready: str
    path: str = SCRIPT
    entrypoint: Sequence[str] = ("ottla-entrypoint",)
    command: Sequence[str] = ("sh", "-c", WAIT_FOR.format(SCRIPT))
    port: int = 9093
    mode: int = 0o777
    user: Mapping[str, str] | None = None


MODULES = {
    "java, KafkaContainer of apache/kafka": Module(JAVA, f"{JAVA_SCRIPT}/etc/kafka/docker/run \n", RUNNING, port=9092),
    "java, ConfluentKafkaContainer": Module(JAVA, f"{JAVA_SCRIPT}/etc/confluent/docker/run \n", RUNNING, port=9092),
    "java, the older KafkaContainer with ZooKeeper": Module(
        {**AT_9093, **TRANSACTIONS, "KAFKA_ZOOKEEPER_CONNECT": "localhost:2181"},
        f"#!/bin/bash\n{ADVERTISED_9093.format('kafka')}echo '' > /etc/confluent/docker/ensure \n"
        "echo 'clientPort=2181' > /tmp/zookeeper.properties\n"
        "echo 'dataDir=/var/lib/zookeeper/data' >> /tmp/zookeeper.properties\n"
        "echo 'dataLogDir=/var/lib/zookeeper/log' >> /tmp/zookeeper.properties\n"
        "zookeeper-server-start /tmp/zookeeper.properties &\n/etc/confluent/docker/run \n",
        IN_ZOOKEEPERS_DAYS,
        entrypoint=("sh",),
        command=("-c", WAIT_FOR.format(SCRIPT)),
    ),
    "python, with ZooKeeper, which is its default": Module(
        {**AT_9093, "KAFKA_LOG_FLUSH_INTERVAL_MESSAGES": 10_000_000},
        "#!/bin/bash\n\n        echo 'clientPort=2181' > zookeeper.properties\n"
        "        echo 'dataDir=/var/lib/zookeeper/data' >> zookeeper.properties\n"
        "        echo 'dataLogDir=/var/lib/zookeeper/log' >> zookeeper.properties\n"
        "        zookeeper-server-start zookeeper.properties &\n        export KAFKA_ZOOKEEPER_CONNECT='localhost:2181'\n\n"
        + ADVERTISED_9093.format("$(hostname -i)")
        + ". /etc/confluent/docker/bash-config\n/etc/confluent/docker/configure\n/etc/confluent/docker/launch",
        IN_ZOOKEEPERS_DAYS,
        path="/tc-start.sh",
        command=("sh", "-c", "while [ ! -f /tc-start.sh ]; do sleep 0.1; done; sh /tc-start.sh"),
        mode=0o644,
    ),
    "python, with_kraft": Module(
        {**AT_9093_IN_KRAFT, "CLUSTER_ID": "MkU3OEVBNTcwNTJENDM2Qk"},
        "#!/bin/bash\n\n        sed -i '/KAFKA_ZOOKEEPER_CONNECT/d' /etc/confluent/docker/configure\n"
        "        echo 'kafka-storage format --ignore-formatted -t MkU3OEVBNTcwNTJENDM2Qk -c /etc/kafka/kafka.properties'"
        " >> /etc/confluent/docker/configure\n\n"
        + ADVERTISED_9093.format("$(hostname -i | cut -d' ' -f1)")
        + ". /etc/confluent/docker/bash-config\n/etc/confluent/docker/configure\n/etc/confluent/docker/launch",
        r".*Kafka Server started.*",
        path="/tc-start.sh",
        command=("sh", "-c", "while [ ! -f /tc-start.sh ]; do sleep 0.1; done; sh /tc-start.sh"),
        mode=0o644,
    ),
    "go": Module(
        {**AT_9093_IN_KRAFT, **TRANSACTIONS, "KAFKA_REST_BOOTSTRAP_SERVERS": AT_9093_IN_KRAFT["KAFKA_LISTENERS"]},
        f"#!/bin/bash\nsource /etc/confluent/docker/bash-config\n{ADVERTISED_9093.format('kafka')}echo Starting Kafka KRaft mode\n"
        "sed -i '/KAFKA_ZOOKEEPER_CONNECT/d' /etc/confluent/docker/configure\n"
        "echo 'kafka-storage format --ignore-formatted -t \"$(kafka-storage random-uuid)\" -c /etc/kafka/kafka.properties'"
        " >> /etc/confluent/docker/configure\n"
        "echo '' > /etc/confluent/docker/ensure\n/etc/confluent/docker/configure\n/etc/confluent/docker/launch",
        RUNNING,
        path="/usr/sbin/testcontainers_start.sh",
        entrypoint=("sh",),
        command=("-c", "while [ ! -f /usr/sbin/testcontainers_start.sh ]; do sleep 0.1; done; bash /usr/sbin/testcontainers_start.sh"),
        mode=0o755,
    ),
    "node, with a listener of SASL_PLAINTEXT and a user of SCRAM": Module(
        {
            **AT_9093_IN_KRAFT,
            "CLUSTER_ID": "4L6g3nShT-eMCtK--X86sw",
            "KAFKA_ADVERTISED_LISTENERS": "BROKER://kafka:9092",
            "KAFKA_CONFLUENT_SUPPORT_METRICS_ENABLE": "false",
            "KAFKA_LISTENERS": f"SECURE://0.0.0.0:9096,{AT_9093_IN_KRAFT['KAFKA_LISTENERS']}",
            "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": (f"SECURE:SASL_PLAINTEXT,{AT_9093_IN_KRAFT['KAFKA_LISTENER_SECURITY_PROTOCOL_MAP']}"),
            "KAFKA_SASL_ENABLED_MECHANISMS": "SCRAM-SHA-512",
            "OTTLA_USERS": "another:hush",
            "KAFKA_LISTENER_NAME_SECURE_SCRAM-SHA-512_SASL_JAAS_CONFIG": (
                "org.apache.kafka.common.security.scram.ScramLoginModule required;"
            ),
        },
        "#!/bin/bash\nexport KAFKA_ADVERTISED_LISTENERS=BROKER://kafka:9092,PLAINTEXT://localhost:9093,SECURE://localhost:9096\n"
        'echo \'kafka-storage format --ignore-formatted -t "4L6g3nShT-eMCtK--X86sw" -c /etc/kafka/kafka.properties '
        '--add-scram "SCRAM-SHA-512=[name=app-user,password=userPassword]"\' >> /etc/confluent/docker/configure\n'
        "/etc/confluent/docker/run \n",
        RUNNING,
        entrypoint=("sh",),
        command=("-c", f"echo 'Waiting for script...'; {WAIT_FOR.format(SCRIPT)}"),
        port=9096,
        user={
            "bootstrap.servers": "localhost:9096",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": "app-user",
            "sasl.password": "userPassword",
        },
    ),
}


@pytest.mark.parametrize("name", MODULES)
def test_testcontainers_module_for_kafka_starts_the_image(name: str, run: Run) -> None:
    module = MODULES[name]
    container = run(module.env, module.command, entrypoint=module.entrypoint)
    container.put(module.path, module.script, module.mode)
    container.wait_until(lambda: re.search(module.ready, container.output), "the line that the module waits for")
    print(f"{name}: ready {container.seconds:.2f} s after its start")
    if "zookeeper-server-start /tmp" in module.script:  # Node's module also waits for ZooKeeper's port
        container.wait_until(lambda: container.exec("nc", "-z", "localhost", "2181").returncode == 0, "ZooKeeper's port")
    if module.user:
        users = json.dumps([module.user, {**module.user, "sasl.username": "another", "sasl.password": "hush"}])
        assert container.exec("/opt/ottla/bin/python", "-c", LOGGED_IN, users).stdout == "Message produced by a user\n"
        return
    kcat = ["kcat", "-b", f"localhost:{module.port}", "-t", "msgs"]
    assert container.exec(*kcat, "-P", stdin="Message produced by kcat\n").returncode == 0
    assert container.exec(*kcat, "-C", "-c", "1", "-q").stdout == "Message produced by kcat\n"


# --- other uses of the images ----------------------------------------------------------------------------------------------------------


def test_image_without_variables_serves_ottlas_defaults_and_runs_given_commands(run: Run) -> None:
    own = run({"OTTLA_TOPICS": "orders:2"}, read_only=True)
    own.wait_until(lambda: "Ottla is listening" in own.output, "the broker")
    assert own.exec("ottla", "health").returncode == 0
    assert 'topic "orders" with 2 partitions' in own.exec("kcat", "-b", "kafka:29092", "-L").stdout
    assert len(own.exec("ottla-entrypoint", "kafka-storage", "random-uuid").stdout.strip()) == 22
    assert own.exec("ottla-entrypoint", "health").stdout == "127.0.0.1:9092 serves\n"
    assert own.exec("ottla-entrypoint", "sh", "-c", "id -u; id -g").stdout == "1000\n0\n"
    refused = own.exec("env", "KAFKA_NUM_PARTITIONS=many", "KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://localhost:9092", "ottla-entrypoint")
    assert refused.returncode == 2
    assert "num.partitions comes from KAFKA_NUM_PARTITIONS" in refused.stderr
    locked = own.exec("env", "KAFKA_OPTS=-Xmx1G", "ottla-entrypoint", "serve", "--set", "no.such.setting=1")
    assert (locked.returncode, "Unknown setting no.such.setting" in locked.stderr) == (2, True)


@pytest.mark.parametrize(("env", "options"), [({}, ["--tls", "--user=alice:secret"]), ({"OTTLA_USERS": "alice:secret"}, [])])
def test_image_with_ottla_security_options_is_reached_by_an_authenticated_client(run: Run, env: dict[str, str], options: list[str]) -> None:
    own = run({**env, "OTTLA_ADVERTISED_LISTENERS": "SECURE://kafka:9092"}, ["serve", *options])
    own.wait_until(lambda: "# Python" in own.output, "the broker")
    output = own.output.partition("# librdkafka")[2].partition("# Python")[0].splitlines()[1:]
    user = dict(line.split("=", 1) for line in output if line)
    assert user["security.protocol"] == ("SASL_SSL" if options else "SASL_PLAINTEXT")
    done = own.exec("/opt/ottla/bin/python", "-c", LOGGED_IN, json.dumps([user, user]))
    assert done.stdout == "Message produced by a user\n", done.stderr


def test_image_serve_options_advertise_localhost_for_one_broker_and_loopback_for_several(run: Run) -> None:
    one = run({}, ["serve", "--port", "9093"])
    one.wait_until(lambda: "listening on 0.0.0.0:9093" in one.output, "the broker")
    assert "broker 1 at localhost:9093" in one.exec("kcat", "-b", "kafka:9093", "-L").stdout
    two = run({}, ["serve", "--brokers=2", "--port=9192", "--data-dir=/data/all"])
    two.wait_until(lambda: "listening on" in two.output, "the brokers")
    output = two.exec("kcat", "-b", "127.0.0.1:9192", "-L").stdout
    assert "broker 1 at 127.0.0.1:9192" in output
    assert "broker 2 at 127.0.0.1:9193" in output


@pytest.mark.parametrize("options", [["--config", "/etc/own.properties"], ["--config=/etc/own.properties"]])
def test_image_keeps_the_listeners_of_its_own_properties_file(run: Run, options: list[str]) -> None:
    login = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="secret";'
    text = (
        f"listeners = SASL_PLAINTEXT://:9092\nsasl.enabled.mechanisms=PLAIN\nlistener.name.sasl_plaintext.plain.sasl.jaas.config={login}\n"
    )
    own = run({}, ["serve", *options], files={"/etc/own.properties": text})
    own.wait_until(lambda: "Ottla is listening" in own.output, "the broker")
    assert own.exec("ottla", "topics", "list").returncode == 1
    user = {
        "bootstrap.servers": "localhost:9092",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "alice",
        "sasl.password": "secret",
    }
    done = own.exec("/opt/ottla/bin/python", "-c", LOGGED_IN, json.dumps([user, user]))
    assert done.stdout == "Message produced by a user\n", done.stderr


def test_image_reads_a_mounted_file_reports_unknown_settings_and_keeps_its_data(run: Run) -> None:
    mounted = {
        "/mnt/shared/config/server.properties": "num.partitions=5\nno.such.setting=1\nprocess.roles=broker,controller\nnode.id=7\n"
        "controller.quorum.voters=7@localhost:9093\ncontroller.listener.names=CONTROLLER\nlisteners=PLAINTEXT://:9092,CONTROLLER://:9093\n"
        "listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT\nadvertised.listeners=PLAINTEXT://localhost:9092\n"
    }
    kafka = run({"KAFKA_NUM_PARTITIONS": 6}, ["/etc/kafka/docker/run", "KAFKA_LOG_DIRS=/var/lib/kafka/data"], files=mounted)
    kafka.wait_until(lambda: "Kafka Server started" in kafka.output, "the broker")
    assert "Unknown setting no.such.setting" in kafka.output
    assert kafka.exec("kafka-topics", "--bootstrap-server", "localhost:9092", "--create", "--topic", "t").returncode == 0
    assert 'topic "t" with 6 partitions' in kafka.exec("kcat", "-b", "localhost:9092", "-L").stdout
    assert "cluster.id=5L6g3nShT-eMCtK--X86sw" in kafka.exec("cat", "/var/lib/kafka/data/meta.properties").stdout
