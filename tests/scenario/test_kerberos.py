"""Real clients that authenticate with tickets of a real KDC: Java's, librdkafka (as kcat), aiokafka and kafka-python; and a node."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.errors import TopicAuthorizationFailedError

from client_compat.kafka.tools import Tools
from client_compat.support.kerberos import Realm, in_environment
from ottla.broker.cli.basics import CliError
from ottla.broker.cli.security import connect as tool_connect
from ottla.broker.cli.security import for_aiokafka, use_properties
from ottla.broker.core.acl import Operation
from ottla.broker.core.clock import Clock
from ottla.broker.core.timers import Timers
from ottla.broker.net.network import Sockets
from ottla.broker.net.secured_node_client import SecuredNodeClient
from ottla.broker.runtime.nodes.link import Node
from ottla.broker.runtime.upkeep.timer_driver import TimerDriver
from ottla.broker.testing.in_process import InProcessBroker
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k03_metadata import MetadataRequest
from ottla.protocol.messages.k29_describe_acls import DescribeAclsRequest
from ottla.spark_jobs.wire.address import address
from ottla.spark_jobs.wire.connection import connect
from ottla.spark_jobs.wire.security import security_of
from tests.support.apache_kafka import jars_or_skip
from tests.support.inter_broker_security import client_security_of
from tests.support.kafka_tools import good
from tests.support.kerberos import realm_or_skip

BROKER, USERS = "kafka/localhost", ("ann", "bob", "cleo/admin")
TIMEOUT_S = 60


@pytest.fixture(scope="module")
def realm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Realm]:
    with realm_or_skip(tmp_path_factory.mktemp("kerberos"), [BROKER, *USERS]) as running:
        yield running


@pytest.fixture(scope="module")
def broker(realm: Realm, tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessBroker]:
    settings = {
        "listeners": "TICKETS://127.0.0.1:0",
        "advertised.listeners": "TICKETS://localhost:0",
        "listener.security.protocol.map": "TICKETS:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "GSSAPI",
        "listener.name.tickets.gssapi.sasl.jaas.config": realm.jaas(BROKER),
        "sasl.kerberos.service.name": "kafka",
        "sasl.kerberos.principal.to.local.rules": "RULE:[2:$1-$2](.*-admin),DEFAULT",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ann;User:cleo-admin;User:kafka",
        "connections.max.reauth.ms": "3600000",
    }
    with InProcessBroker(tmp_path_factory.mktemp("broker") / "data", settings) as running:
        running.topics.create("t")
        yield running


def bootstrap(broker: InProcessBroker) -> str:
    return f"localhost:{broker.port}"


def tickets_of(realm: Realm, user: str) -> dict[str, str]:
    """Return environment variables with which python-gssapi finds the user's tickets."""
    return {"KRB5_CLIENT_KTNAME": str(realm.keytab(user)), "KRB5CCNAME": realm.tickets(user)}


async def test_aiokafka_authenticates_by_kerberos_and_a_rule_maps_its_principal(realm: Realm, broker: InProcessBroker) -> None:
    common = {"bootstrap_servers": bootstrap(broker), "security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "GSSAPI"}
    before = broker.topics.end_offset("t")
    with in_environment(tickets_of(realm, "cleo/admin")):
        async with AIOKafkaProducer(**common) as producer:
            await producer.send_and_wait("t", b"aiokafka")
    with in_environment(tickets_of(realm, "bob")):
        async with AIOKafkaProducer(**common) as producer:
            with pytest.raises(TopicAuthorizationFailedError):
                await producer.send_and_wait("t", b"bob's")
    assert broker.topics.end_offset("t") == before + 1


@pytest.mark.filterwarnings("ignore:(read|open)_text is deprecated:DeprecationWarning")
def test_kafka_python_authenticates_with_tickets_of_the_cache(realm: Realm, broker: InProcessBroker) -> None:
    from kafka import KafkaProducer

    before = broker.topics.end_offset("t")
    with in_environment(tickets_of(realm, "ann")):
        producer = KafkaProducer(
            bootstrap_servers=bootstrap(broker),
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism="GSSAPI",
            sasl_kerberos_service_name="kafka",
        )
        producer.send("t", b"kafka-python").get(TIMEOUT_S)
        producer.close()
    assert broker.topics.end_offset("t") == before + 1


def test_librdkafka_authenticates_with_a_keytab(realm: Realm, broker: InProcessBroker) -> None:
    if shutil.which("kcat") is None:
        pytest.skip("kcat is not installed (Debian, Ubuntu: 'sudo apt-get install kcat', or 'make kcat')")
    given = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "GSSAPI",
        "sasl.kerberos.service.name": "kafka",
        "sasl.kerberos.principal": f"ann@{realm.name}",
        "sasl.kerberos.keytab": str(realm.keytab("ann")),
    }
    options = [part for name, value in given.items() for part in ("-X", f"{name}={value}")]
    before = broker.topics.end_offset("t")
    done = subprocess.run(
        ["kcat", "-b", bootstrap(broker), "-P", "-t", "t", *options], input=b"kcat", capture_output=True, timeout=TIMEOUT_S, check=False
    )
    if b"No worthy mechs found" in done.stderr or b"no mechanism available" in done.stderr:
        pytest.skip("librdkafka has no GSSAPI (Debian, Ubuntu: 'sudo apt-get install libsasl2-modules-gssapi-mit', or 'make kerberos')")
    assert done.returncode == 0, done.stderr
    assert broker.topics.end_offset("t") == before + 1


def test_the_java_client_authenticates_with_a_keytab(realm: Realm, broker: InProcessBroker, tmp_path: Path) -> None:
    jars_or_skip()
    config = tmp_path / "client.properties"
    lines = ("security.protocol=SASL_PLAINTEXT", "sasl.mechanism=GSSAPI", "sasl.kerberos.service.name=kafka")
    config.write_text("\n".join([*lines, f"sasl.jaas.config={realm.jaas('ann')}", ""]))
    before = broker.topics.end_offset("t")
    with in_environment({"JAVA_TOOL_OPTIONS": f"-Djava.security.krb5.conf={realm.config}"}):
        at = ["--bootstrap-server", bootstrap(broker), "--command-config", str(config)]
        good(Tools().run("kafka-console-producer", *at, "--topic", "t", text="of Java\n", timeout_s=TIMEOUT_S))
    assert broker.topics.end_offset("t") == before + 1


def test_command_line_tools_and_audit_authenticate_by_kerberos(realm: Realm, broker: InProcessBroker, tmp_path: Path) -> None:
    lines = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "GSSAPI"}
    by_key = {**lines, "sasl.jaas.config": realm.jaas("ann")}

    def seen(given: Mapping[str, str]) -> list[str]:
        with tool_connect("localhost", broker.port, "t", security=security_of(given)) as client:
            return [topic.name for topic in client.call(MetadataRequest(None), 1).topics]

    assert seen(by_key) == ["t"]
    assert seen({**lines, "sasl.kerberos.keytab": str(realm.keytab("bob")), "sasl.kerberos.principal": f"bob@{realm.name}"}) == []
    with pytest.raises(CliError, match=r"Kerberos authentication failed: .*http/localhost@.* not found"):
        seen({**by_key, "sasl.kerberos.service.name": "http"})
    use_properties(by_key)
    try:
        with pytest.raises(CliError, match="get one with 'kinit -kt KEYTAB PRINCIPAL'"):
            for_aiokafka()
    finally:
        use_properties({})
    before = broker.topics.end_offset("t")
    config = tmp_path / "client.properties"
    config.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
    with in_environment(tickets_of(realm, "ann")):
        argv = [sys.executable, "-m", "ottla", "--config", str(config), "produce", "t", "-b", bootstrap(broker)]
        done = subprocess.run(argv, input=b"of the tools\n", capture_output=True, timeout=TIMEOUT_S, check=False)
        assert done.returncode == 0, done.stderr
        assert broker.topics.end_offset("t") == before + 1
        with connect(address(bootstrap(broker), lines), "localhost", broker.port) as client:
            assert [topic.name for topic in client.call(MetadataRequest(None), 1).topics] == ["t"]


async def test_node_authenticates_by_kerberos_and_a_silent_kdc_blocks_no_other_connection(realm: Realm, broker: InProcessBroker) -> None:
    given = {
        "listener.name.a.sasl.enabled.mechanisms": "GSSAPI",
        "listener.name.a.gssapi.sasl.jaas.config": realm.jaas(BROKER),
        "sasl.kerberos.service.name": "kafka",
    }
    client_security, clock, timers = client_security_of("A", "SASL_PLAINTEXT", "GSSAPI", ours=given), Clock(), Timers()
    driver = TimerDriver(timers, clock)
    driver.start()
    common: dict[str, Any] = {"clock": clock, "timers": timers, "random": Random(1), "client_id": "broker-7", "network": Sockets()}
    link = SecuredNodeClient(Node(7, "localhost", broker.port), client_security=client_security, **common)
    realm.pause()
    try:
        response = asyncio.ensure_future(
            link.call(DescribeAclsRequest(1, None, 1, None, None, Operation.ANY, 1), timeout_ms=TIMEOUT_S * 1000)
        )
        done, _ = await asyncio.wait({response}, timeout=0.3)
        assert not done
    finally:
        realm.resume()
    try:
        assert (await response).error_code == ErrorCode.NONE
    finally:
        link.close()
        driver.stop()
