from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from random import Random
from typing import Any, TypeVar

import pytest

from ottla.broker.core.acl import STANDARD_AUTHORIZER
from ottla.broker.core.clock import VirtualClock
from ottla.broker.core.settings import BrokerSettings
from ottla.broker.core.settings_load import SettingsError, load
from ottla.broker.development_security import LISTENER, NODE_USER, cluster_security, make_development_security
from ottla.broker.environment import Environment
from ottla.broker.faults.engine import Faults
from ottla.broker.layout import Layout
from ottla.broker.local_cluster import LocalCluster
from ottla.broker.net.client_security import ClientSasl, ClientSecurity
from ottla.broker.net.secured_node_client import SecuredNodeClient
from ottla.broker.process import StartError
from ottla.broker.runtime.nodes.authentication import AuthenticationFailed
from ottla.broker.runtime.nodes.link import Node
from ottla.broker.sim.memory_files import MemoryFiles
from ottla.broker.sim.memory_network import MemoryNetwork
from ottla.broker.sim.sim_threads import InlineThreads
from ottla.protocol.login import tokens_of
from ottla.protocol.messages.k00_produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.messages.k19_create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.k60_describe_cluster import DescribeClusterRequest
from ottla.protocol.records.record import SimpleRecord, build_batch
from tests.support.simulation import TimelessLoop, settle

DATA = Path("/data")
RECORD = build_batch([SimpleRecord(None, b"x", 1_000)])
T = TypeVar("T")


class Machine:
    """One disk, network and clock, which outlive any number of starts of the cluster."""

    def __init__(self, **given: str) -> None:
        self.clock = VirtualClock()
        self.files = MemoryFiles()
        self.network = MemoryNetwork()
        self.random = Random(1)
        self.exit_codes: list[int] = []
        self.users_at: Callable[[BrokerSettings], Mapping[str, str]] = lambda _settings: {}
        self.given = {name.replace("_", "."): value for name, value in given.items()}

    def settings_of(self, node: Mapping[str, str]) -> BrokerSettings:
        settings = load({**self.given, **node}, {}, None).settings
        settings.users = self.users_at(settings)
        return settings

    def environment(self) -> Environment:
        return Environment(self.clock, self.files, self.network, Random(self.random.getrandbits(64)), InlineThreads)

    def cluster(self, brokers: int = 3, port: int = 9092, listener: str = "PLAINTEXT") -> LocalCluster:
        return LocalCluster(
            Layout(DATA, brokers, port=port, listener=listener), self.settings_of, Faults, self.environment, self.exit_codes.append
        )

    def link(self, cluster: LocalCluster, port: int, user: str, password: str) -> SecuredNodeClient:
        """Return a link to the node at that port that authenticates the user by PLAIN."""
        sasl = ClientSasl("PLAIN", lambda _: tokens_of("PLAIN", user, password, self.random.randbytes))
        common: dict[str, Any] = {"network": self.network, "clock": self.clock, "timers": cluster.controller.timers, "random": self.random}
        return SecuredNodeClient(Node(-1, "127.0.0.1", port), client_security=ClientSecurity(None, sasl), client_id=user, **common)

    async def done(self, work: Coroutine[Any, Any, T]) -> T:
        task = asyncio.ensure_future(work)
        for _ in range(10_000):
            await settle()
            if task.done():
                return task.result()
            self.clock.advance(10)
        raise AssertionError("it never came to an end")


def run(body: Coroutine[Any, Any, None]) -> None:
    with asyncio.Runner(loop_factory=TimelessLoop) as runner:
        runner.run(body)


def test_the_brokers_of_a_new_directory_form_one_cluster_over_a_restart() -> None:
    async def body() -> None:
        machine = Machine()
        cluster = machine.cluster()
        await machine.done(cluster.start())
        assert cluster.ports == [9092, 9093, 9094]
        image = cluster.controller.role.newest.image
        assert sorted(image.brokers) == [1, 2, 3]
        assert not any(broker.fenced for broker in image.brokers.values())
        cluster_id = cluster.controller.log_dir.cluster_id
        assert f"listening on 127.0.0.1:9092,127.0.0.1:9093,127.0.0.1:9094 (data in /data, cluster id {cluster_id}, 3 brokers, " in (
            cluster.greeting()
        )
        await machine.done(cluster.stop())
        again = machine.cluster()
        await machine.done(again.start())
        assert {broker.log_dir.cluster_id for broker in again.brokers.values()} == {cluster_id}
        assert again.controller.role.voter.epoch == 2
        await machine.done(again.stop())
        assert machine.exit_codes == []

    run(body())


def test_brokers_register_at_once_after_a_crash_of_the_process() -> None:
    async def body() -> None:
        machine = Machine()
        cluster = machine.cluster()
        await machine.done(cluster.start())
        for node in (*cluster.brokers.values(), cluster.controller):
            node.crash()
        began_ms = machine.clock.mono_ms()
        again = machine.cluster()
        await machine.done(again.start())
        assert machine.clock.mono_ms() - began_ms < 3_000  # a session lasts 9,000 ms
        assert not any(broker.fenced for broker in again.controller.role.newest.image.brokers.values())
        await machine.done(again.stop())

    run(body())


def test_an_invalid_security_setting_is_refused_before_the_start() -> None:
    machine = Machine(listener_security_protocol_map="SECURE:SSL,CONTROLLER:PLAINTEXT", inter_broker_listener_name="SECURE")
    with pytest.raises(SettingsError, match="a listener with TLS needs a key and a certificate"):
        machine.cluster(listener="SECURE")


def test_nodes_authenticate_to_each_other_with_sasl() -> None:
    async def body() -> None:
        machine = Machine(authorizer_class_name=STANDARD_AUTHORIZER)
        lock = cluster_security(make_development_security(DATA, 0, tls=False, users={"alice": "a"}), "CONTROLLER", "between us")
        machine.given |= {**lock.settings, "super.users": lock.super_users("User:alice"), "default.replication.factor": "3"}
        machine.users_at = lock.users_at
        cluster = machine.cluster(listener=LISTENER)
        await machine.done(cluster.start())
        alice = machine.link(cluster, cluster.ports[0], "alice", "a")
        created = await machine.done(alice.call(CreateTopicsRequest([CreatableTopic("t", 1, 3)]), timeout_ms=10_000))
        assert not created.topics[0].error_code
        topic = cluster.brokers[1].services.topics.topic("t")
        assert topic is not None
        leader = topic.partitions[0].leader
        produced = ProduceRequest(None, -1, 5_000, [TopicProduceData("t", partition_data=[PartitionProduceData(0, RECORD)])])
        link = machine.link(cluster, cluster.ports[leader - 1], "alice", "a")
        (answer,) = (await machine.done(link.call(produced, timeout_ms=10_000, version=12))).responses[0].partition_responses
        assert (answer.error_code, answer.base_offset) == (0, 0)  # which all in sync have
        assert [broker.services.partitions.get("t", 0).log.log_end_offset for broker in cluster.brokers.values()] == [1, 1, 1]
        for user, password in ((NODE_USER, "wrong"), ("alice", "a")):  # a client's user logs in at brokers alone, as in Kafka
            nobody = machine.link(cluster, cluster.controller.address[1], user, password)
            with pytest.raises(AuthenticationFailed, match="Invalid username or password"):
                await machine.done(nobody.call(DescribeClusterRequest(endpoint_type=2), timeout_ms=10_000))
        await machine.done(cluster.stop())

    run(body())


def test_a_broker_with_a_wrong_password_retries_until_its_timeout(caplog: pytest.LogCaptureFixture) -> None:
    async def body() -> None:
        machine = Machine(initial_broker_registration_timeout_ms="6000")
        lock = cluster_security(make_development_security(DATA, 0, tls=False, users={"alice": "a"}), "CONTROLLER", "between us")
        machine.given |= lock.settings
        machine.users_at = lambda _settings: {**lock.users, NODE_USER: "not what they bring"}
        with pytest.raises(ConnectionError, match="could not join its cluster"):
            await machine.done(machine.cluster(1, listener=LISTENER).start())

    run(body())
    why = "Authentication failed during authentication due to invalid credentials with SASL mechanism SCRAM-SHA-256"
    message = f"Connection to node -1 failed authentication due to: 127.0.0.1:9093: '{why}'"
    assert caplog.text.count(message) > 3
    assert "between us" not in caplog.text


def test_with_port_0_all_nodes_get_free_ports_and_connect() -> None:
    async def body() -> None:
        machine = Machine()
        for _ in range(2):
            cluster = machine.cluster(2, port=0)
            await machine.done(cluster.start())
            assert len({*cluster.ports, cluster.controller.address[1]} - {0}) == 3
            await machine.done(cluster.stop())

    run(body())


def test_a_node_that_fails_to_start_stops_the_others() -> None:
    async def body() -> None:
        machine = Machine()
        taken = machine.network.listen("127.0.0.1", 9093)
        with pytest.raises(OSError, match=r"cannot listen on PLAINTEXT://127\.0\.0\.1:9093"):
            await machine.done(machine.cluster().start())
        taken.close()
        assert machine.network.servers == {}
        cluster = machine.cluster()
        await machine.done(cluster.start())
        await machine.done(cluster.stop())

    run(body())


def test_a_single_nodes_directory_is_refused() -> None:
    async def body() -> None:
        machine = Machine()
        machine.files.make_dir(DATA)
        machine.files.write(DATA / "meta.properties", b"", sync=True)
        with pytest.raises(StartError, match="is the directory of a single node"):
            await machine.done(machine.cluster().start())

    run(body())


def test_an_invalid_setting_is_refused_before_the_start() -> None:
    machine = Machine(replica_fetch_wait_max_ms="40000")
    with pytest.raises(SettingsError, match=r"replica\.fetch\.wait\.max\.ms"):
        machine.cluster(listener="SECURE")
    assert machine.files.scan(Path("/")) == []


def test_an_unroutable_host_is_refused_before_the_start() -> None:
    machine = Machine()
    with pytest.raises(SettingsError, match=r"advertised\.listeners is required: PLAINTEXT listens at 0\.0\.0\.0"):
        LocalCluster(Layout(DATA, 2, host="0.0.0.0"), machine.settings_of, Faults, machine.environment, machine.exit_codes.append)
    assert machine.files.scan(Path("/")) == []
