from __future__ import annotations

from pathlib import Path

import pytest

from ottla.broker.core.quorum_addresses import QuorumAddress
from ottla.broker.core.role_settings import controllers
from ottla.broker.core.settings_load import SettingsError, load

CONTROLLER = {
    "process.roles": "controller",
    "node.id": "3",
    "controller.quorum.bootstrap.servers": "one:9093",
    "controller.listener.names": "C",
    "listeners": "C://:9093",
}
BOTH = {**CONTROLLER, "process.roles": "broker,controller", "listeners": "PLAINTEXT://:9092,C://:9093"}
MEMBER = {"process.roles": "broker", "node.id": "2", "controller.quorum.bootstrap.servers": "one:9093", "controller.listener.names": "C"}
BROKER_PROPERTIES = """
process.roles=broker
node.id=2
controller.quorum.bootstrap.servers=localhost:9093
listeners=PLAINTEXT://localhost:9092
inter.broker.listener.name=PLAINTEXT
advertised.listeners=PLAINTEXT://localhost:9092
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL
num.network.threads=3
num.io.threads=8
socket.send.buffer.bytes=102400
socket.receive.buffer.bytes=102400
socket.request.max.bytes=104857600
log.dirs=/tmp/kraft-broker-logs
num.partitions=1
num.recovery.threads.per.data.dir=1
offsets.topic.replication.factor=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
log.retention.hours=168
log.segment.bytes=1073741824
log.retention.check.interval.ms=300000
"""
"""The file config/broker.properties of Kafka 4.3, without its comments."""


def test_kafkas_broker_properties_configure_a_cluster_broker(tmp_path: Path) -> None:
    file = tmp_path / "broker.properties"
    file.write_text(BROKER_PROPERTIES)
    loaded = load({}, {}, file)
    assert loaded.settings.is_cluster_broker
    assert controllers(loaded.settings) == [QuorumAddress(-1, "localhost", 9093)]
    without_effect = {note.partition(" ")[0] for note in loaded.notes}
    assert without_effect == {
        "num.network.threads",
        "num.io.threads",
        "socket.send.buffer.bytes",
        "socket.receive.buffer.bytes",
        "num.recovery.threads.per.data.dir",
    }


def test_static_voters_take_precedence_over_bootstrap_servers() -> None:
    settings = load({**MEMBER, "controller.quorum.voters": "1@two:9094"}, {}, None).settings
    assert controllers(settings) == [QuorumAddress(1, "two", 9094)]


def test_a_cluster_broker_has_kafkas_replication_defaults() -> None:
    names = ("offsets.topic.replication.factor", "transaction.state.log.replication.factor", "transaction.state.log.min.isr")
    one, member = load({}, {}, None).settings, load(MEMBER, {}, None).settings
    assert [one.value(name) for name in names] == [one.default(name) for name in names] == [1, 1, 1]
    assert [member.value(name) for name in names] == [member.default(name) for name in names] == [3, 3, 2]
    assert load({**MEMBER, names[0]: "1"}, {}, None).settings.value(names[0]) == 1


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({name: text for name, text in CONTROLLER.items() if name != "node.id"}, r"node\.id must be given when process\.roles=controller"),
        ({**CONTROLLER, "controller.quorum.bootstrap.servers": ""}, r"process\.roles=controller needs controller\.quorum\.bootstrap"),
        ({**CONTROLLER, "controller.quorum.bootstrap.servers": "a:1,b:1"}, r"bootstrap\.servers=a:1,b:1: .*only voter"),
        ({**CONTROLLER, "controller.quorum.voters": "1@a:1,3@b:1"}, r"voters=1@a:1,3@b:1: .*Apache Kafka's controllers"),
        ({**CONTROLLER, "controller.listener.names": ""}, r"controller\.listener\.names must contain at least one value"),
        ({**CONTROLLER, "controller.quorum.auto.join.enable": "true"}, r"auto\.join\.enable=true: .*only voter"),
        ({**CONTROLLER, "metadata.log.dir": "/elsewhere"}, r"metadata\.log\.dir=/elsewhere"),
        ({name: text for name, text in MEMBER.items() if name != "node.id"}, r"node\.id must be given"),
        ({"process.roles": "broker,client"}, r"process\.roles: String must be one of: broker, controller"),
        ({**MEMBER, "controller.quorum.bootstrap.servers": ""}, r"process\.roles=broker needs controller\.quorum\.bootstrap\.servers"),
        ({**MEMBER, "controller.quorum.voters": "2@one:9093"}, r"controller\.quorum\.voters=2@one:9093: .* node id 2 must not be among"),
        ({**MEMBER, "controller.listener.names": ""}, r"controller\.listener\.names must contain at least one value"),
        ({**MEMBER, "controller.quorum.auto.join.enable": "true"}, r"controller\.quorum\.auto\.join\.enable is only supported"),
        ({**MEMBER, "metadata.log.dir": "/elsewhere"}, r"metadata\.log\.dir=/elsewhere"),
        ({**MEMBER, "replica.selector.class": "org.example.Mine"}, r"replica\.selector\.class=org\.example\.Mine"),
        (
            {**MEMBER, "replica.socket.timeout.ms": "499"},
            r"replica\.socket\.timeout\.ms=499 must be at least replica\.fetch\.wait\.max\.ms=500",
        ),
        (
            {**MEMBER, "replica.lag.time.max.ms": "499"},
            r"replica\.fetch\.wait\.max\.ms=500 must be at most replica\.lag\.time\.max\.ms=499",
        ),
        ({**BOTH, "controller.quorum.voters": "3@a:1,2@b:1"}, r"controller\.quorum\.voters=3@a:1,2@b:1"),
        ({**BOTH, "controller.quorum.voters": "1@a:1"}, r"only this node is allowed, node\.id=3"),
        ({**BOTH, "process.roles": "controller,broker", "controller.quorum.bootstrap.servers": "a:1,b:1"}, r"bootstrap\.servers=a:1,b:1"),
        ({**BOTH, "controller.quorum.bootstrap.servers": ""}, r"process\.roles=broker,controller needs"),
        ({**BOTH, "replica.selector.class": "org.example.Mine"}, r"replica\.selector\.class=org\.example\.Mine"),
    ],
)
def test_invalid_roles_stop_the_start_with_the_settings_name(given: dict[str, str], words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        load(given, {}, None)


def test_controller_settings_have_an_effect_only_on_a_controller() -> None:
    own = {"broker.session.timeout.ms": "5000", "leader.imbalance.check.interval.seconds": "60"}
    controller = load({**CONTROLLER, **own}, {}, None)
    assert (controller.notes, controller.settings.is_controller, controller.settings.is_cluster_broker) == ([], True, False)
    assert len(load({**MEMBER, **own}, {}, None).notes) == 2


def test_quorum_settings_that_nothing_reads_are_noted_on_a_controller_too() -> None:
    noted = "controller.quorum.election.timeout.ms (command line) is a Kafka setting that has no effect here"
    assert load({**CONTROLLER, "controller.quorum.election.timeout.ms": "2000"}, {}, None).notes == [noted]


def test_a_node_with_both_roles_is_broker_and_controller() -> None:
    both = {**CONTROLLER, "process.roles": "broker,controller", "listeners": "PLAINTEXT://h:9092,C://h:9093"}
    for quorum in ({}, {"controller.quorum.bootstrap.servers": "", "controller.quorum.voters": "3@one:9093"}):
        loaded = load({**both, "broker.session.timeout.ms": "5000", **quorum}, {}, None)
        assert (loaded.settings.is_cluster_broker, loaded.settings.is_controller, loaded.notes) == (True, True, [])


def test_cluster_settings_are_noted_on_a_standalone_node_only() -> None:
    given = {"replica.lag.time.max.ms": "10000"}
    assert load(given, {}, None).notes == ["replica.lag.time.max.ms (command line) is a Kafka setting that has no effect here"]
    assert load({**MEMBER, **given}, {}, None).notes == []


def test_a_heartbeat_interval_above_half_the_session_timeout_is_warned_about() -> None:
    assert "broker.heartbeat.interval.ms=5000" in load({**MEMBER, "broker.heartbeat.interval.ms": "5000"}, {}, None).notes[0]
    assert load({**MEMBER, "broker.heartbeat.interval.ms": "4500"}, {}, None).notes == []
