from __future__ import annotations

import socket

import pytest

from ottla.broker.api.context import Listener, Peer
from ottla.broker.core.security_protocol import SecurityProtocol
from ottla.broker.core.settings import BrokerSettings
from ottla.broker.core.settings_load import SettingsError, load
from ottla.broker.net.listeners import (
    controller_listeners_of,
    endpoints_of,
    inter_broker_listener,
    listeners_of,
    of_brokers,
    of_controllers,
    registered_listeners,
)


def settings(listeners: str, advertised: str = "", protocols: str = "PLAINTEXT:PLAINTEXT,SSL:SSL") -> BrokerSettings:
    def split(text: str) -> tuple[str, ...]:
        return tuple(item for item in text.split(",") if item)

    return BrokerSettings(listeners=split(listeners), advertised_listeners=split(advertised), listener_security_protocol_map=protocols)


def test_several_listeners_are_parsed_with_hosts_and_ports() -> None:
    found = listeners_of(settings("PLAINTEXT://:9092,INNER://[::1]:0", protocols="PLAINTEXT:PLAINTEXT,inner:plaintext"))
    assert [(at.name, at.host, at.port) for at in found] == [("PLAINTEXT", "", 9092), ("INNER", "::1", 0)]


def test_the_map_sets_a_listeners_security_protocol() -> None:
    found = listeners_of(settings("SSL://h:1,A://h:2,B://h:3,C://h:4", protocols="ssl:ssl,A:SASL_SSL,B: sasl_plaintext ,C:PLAINTEXT"))
    assert [at.protocol.name for at in found] == ["SSL", "SASL_SSL", "SASL_PLAINTEXT", "PLAINTEXT"]


def test_an_advertised_listener_belongs_to_the_listener_with_its_name() -> None:
    found = listeners_of(settings("A://:1,B://:2", "B://kafka.example:19092", "A:PLAINTEXT,B:PLAINTEXT"))
    assert (found[0].advertised_host, found[0].advertised_port) == (None, None)
    assert (found[1].advertised_host, found[1].advertised_port) == ("kafka.example", 19092)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (settings(""), "listeners is empty"),
        (settings("localhost:9092"), "listeners: 'localhost:9092' is not NAME://host:port"),
        (settings("PLAINTEXT://h:65536"), "is not NAME://host:port"),
        (settings("PLAINTEXT://h:1,PLAINTEXT://h:2"), "PLAINTEXT occurs twice"),
        (settings("A://[::1]:1,B://[::1]:1", protocols="A:PLAINTEXT,B:PLAINTEXT"), r"listeners: two listeners have the address \[::1\]:1"),
        (settings("OTHER://h:1"), "OTHER is not in listener.security.protocol.map"),
        (settings("A://h:1", protocols="A:TLS"), "listener.security.protocol.map: 'A:TLS' is not NAME:PROTOCOL"),
        (settings("A://h:1", protocols="A"), "listener.security.protocol.map: 'A' is not NAME:PROTOCOL"),
        (settings("PLAINTEXT://h:1", "INNER://h:1"), "advertised.listeners: INNER is not among listeners"),
        (settings("PLAINTEXT://h:1", "PLAINTEXT://0.0.0.0:1"), "advertised.listeners: PLAINTEXT advertises 0.0.0.0"),
    ],
)
def test_an_invalid_listener_is_reported_by_name(given: BrokerSettings, words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        listeners_of(given)


def test_without_advertised_listeners_a_client_gets_the_address_that_it_connected_to() -> None:
    assert Peer("10.0.0.9", "192.168.1.5", 9092, Listener("PLAINTEXT", "0.0.0.0", 9092)).client_listener == (
        "PLAINTEXT",
        "192.168.1.5",
        9092,
    )


def test_an_advertised_listener_is_returned_to_clients() -> None:
    listener = Listener("PLAINTEXT", "0.0.0.0", 9092, "kafka.example", 19092)
    assert Peer("10.0.0.9", "192.168.1.5", 9092, listener).client_listener == ("PLAINTEXT", "kafka.example", 19092)


def member(listeners: str, advertised: str = "", **others: str) -> BrokerSettings:
    given = {
        "process.roles": "broker",
        "node.id": "2",
        "controller.quorum.bootstrap.servers": "one:9093",
        "controller.listener.names": "CONTROLLER",
    }
    named = {name.replace("_", "."): text for name, text in others.items()}
    return load({**given, "listeners": listeners, "advertised.listeners": advertised, **named}, {}, None).settings


def registered(settings: BrokerSettings) -> list[tuple[str, str, int]]:
    endpoints = registered_listeners(settings, listeners_of(settings))
    assert {endpoint.security_protocol for endpoint in endpoints} <= {0}
    return [(endpoint.name, endpoint.host, endpoint.port) for endpoint in endpoints]


def test_a_cluster_broker_registers_only_its_advertised_listeners() -> None:
    two = {"listener_security_protocol_map": "A:PLAINTEXT,PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT"}
    assert registered(member("PLAINTEXT://h:1,A://h:2", **two)) == [("PLAINTEXT", "h", 1), ("A", "h", 2)]
    assert registered(member("PLAINTEXT://h:1,A://h:2", "PLAINTEXT://k:9", **two)) == [("PLAINTEXT", "k", 9)]


def test_a_listener_at_every_address_is_registered_under_the_machines_name() -> None:
    assert registered(member("PLAINTEXT://:1")) == [("PLAINTEXT", socket.getfqdn(), 1)]


def test_an_advertised_controller_listener_is_ignored_on_a_broker() -> None:
    assert registered(member("PLAINTEXT://h:1", "PLAINTEXT://h:1,CONTROLLER://h:2")) == [("PLAINTEXT", "h", 1)]


def test_inter_broker_connections_use_the_peer_listeners_protocol() -> None:
    protocols = "INNER:SASL_SSL,SSL:SSL,CONTROLLER:SASL_PLAINTEXT"
    by_name = member(
        "INNER://h:1,SSL://h:2",
        inter_broker_listener_name="inner",
        listener_security_protocol_map=protocols,
        sasl_enabled_mechanisms="PLAIN",
        sasl_mechanism_inter_broker_protocol="PLAIN",
        sasl_mechanism_controller_protocol="SCRAM-SHA-512",
    )
    assert [(at.name, at.protocol.name, at.mechanism) for at in (of_brokers(by_name), of_controllers(by_name))] == [
        ("INNER", "SASL_SSL", "PLAIN"),
        ("CONTROLLER", "SASL_PLAINTEXT", "SCRAM-SHA-512"),
    ]
    assert [(at.name, at.protocol.name) for at in listeners_of(by_name)] == [("INNER", "SASL_SSL"), ("SSL", "SSL")]
    by_protocol = member("INNER://h:1,SSL://h:2", security_inter_broker_protocol="SSL", listener_security_protocol_map=protocols)
    assert of_brokers(by_protocol)[:2] == ("SSL", SecurityProtocol.SSL)


def test_the_inter_broker_listener_is_found_by_name_or_by_protocol() -> None:
    protocols = "INNER:PLAINTEXT,PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT"
    settings = member("INNER://h:1", inter_broker_listener_name="inner", listener_security_protocol_map=protocols)
    assert inter_broker_listener(settings) == listeners_of(settings)[0].name == "INNER"
    assert inter_broker_listener(member("PLAINTEXT://h:1")) == "PLAINTEXT"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (member("PLAINTEXT://h:1,CONTROLLER://h:2"), r"controller\.listener\.names: CONTROLLER must not be among listeners"),
        (
            member("PLAINTEXT://h:1", listener_security_protocol_map="PLAINTEXT:PLAINTEXT"),
            r"controller\.listener\.names: CONTROLLER is not in listener\.security\.protocol\.map",
        ),
        (
            member("PLAINTEXT://h:1", inter_broker_listener_name="OTHER"),
            r"inter\.broker\.listener\.name=OTHER must be one of the advertised listeners: PLAINTEXT",
        ),
        (
            member("A://h:1", listener_security_protocol_map="A:PLAINTEXT,CONTROLLER:PLAINTEXT"),
            r"security\.inter\.broker\.protocol=PLAINTEXT must be one of the advertised listeners: A",
        ),
        (
            member("PLAINTEXT://h:1", inter_broker_listener_name="PLAINTEXT", security_inter_broker_protocol="PLAINTEXT"),
            r"only one of inter\.broker\.listener\.name and security\.inter\.broker\.protocol",
        ),
        (
            member(
                "A://h:1",
                inter_broker_listener_name="A",
                listener_security_protocol_map="A:SASL_SSL,CONTROLLER:PLAINTEXT",
                sasl_enabled_mechanisms="PLAIN",
            ),
            r"sasl\.mechanism\.inter\.broker\.protocol=GSSAPI must be included in sasl\.enabled\.mechanisms=PLAIN",
        ),
        (
            member("SSL://h:1", security_inter_broker_protocol="SSL", listener_security_protocol_map="SSL:PLAINTEXT,CONTROLLER:PLAINTEXT"),
            r"security\.inter\.broker\.protocol=SSL, but listener\.security\.protocol\.map has SSL:PLAINTEXT",
        ),
        (member("PLAINTEXT://h:1", early_start_listeners="CONTROLLER,OTHER"), r"early\.start\.listeners: OTHER is among neither"),
        (member("PLAINTEXT://0.0.0.0:1"), r"advertised\.listeners is required: PLAINTEXT listens at 0\.0\.0\.0"),
    ],
)
def test_listeners_that_make_a_cluster_broker_unreachable_are_rejected_by_name(given: BrokerSettings, words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        listeners_of(given)


def test_a_controllers_listener_is_plaintext_by_default() -> None:
    assert [at.name for at in listeners_of(load({"listeners": "C://h:1", "controller.listener.names": "C"}, {}, None).settings)] == ["C"]
    with pytest.raises(SettingsError, match=r"C is not in listener\.security\.protocol\.map"):
        listeners_of(load({"listeners": "C://h:1,SSL://h:2", "controller.listener.names": "C"}, {}, None).settings)


def test_all_listeners_of_a_controller_must_be_controller_listeners() -> None:
    given = {
        "process.roles": "controller",
        "node.id": "3",
        "controller.quorum.bootstrap.servers": "h:9093",
        "controller.listener.names": "C",
    }
    alone = load({**given, "listeners": "C://h:9093"}, {}, None).settings
    assert (listeners_of(alone), [at.name for at in controller_listeners_of(alone)]) == ([], ["C"])
    with pytest.raises(SettingsError, match=r"listeners: PLAINTEXT must be in controller\.listener\.names"):
        listeners_of(load({**given, "listeners": "C://h:9093,PLAINTEXT://h:9092"}, {}, None).settings)


def test_a_node_with_both_roles_has_listeners_for_each() -> None:
    given = {
        "process.roles": "broker,controller",
        "node.id": "3",
        "controller.quorum.bootstrap.servers": "h:9093",
        "controller.listener.names": "C",
        "listeners": "PLAINTEXT://h:9092,C://h:9093",
    }
    both = load({**given, "advertised.listeners": "PLAINTEXT://outside:1,C://inside:2"}, {}, None).settings
    (client,), (controller,) = listeners_of(both), controller_listeners_of(both)
    assert (client.name, controller.name) == ("PLAINTEXT", "C")
    assert [(at.name, at.host, at.port) for at in registered_listeners(both, [client])] == [("PLAINTEXT", "outside", 1)]
    assert [(at.name, at.host, at.port) for at in endpoints_of([controller])] == [("C", "inside", 2)]
    for listeners, words in (("PLAINTEXT://h:1", "C must be among listeners"), ("C://h:1", "at least one must be for clients")):
        with pytest.raises(SettingsError, match=words):
            listeners_of(load({**given, "listeners": listeners}, {}, None).settings)


def test_a_controller_at_every_address_is_advertised_at_its_voter_address() -> None:
    """The rule is that of Kafka's KafkaConfig.effectiveAdvertisedControllerListeners."""
    node = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": "1@kafka:9094",
        "advertised.listeners": "PLAINTEXT://kafka:9092",
    }
    for host, advertised in (("0.0.0.0", ("kafka", 9094)), ("", ("kafka", 9094)), ("127.0.0.1", ("127.0.0.1", 9093))):
        settings = load({**node, "listeners": f"PLAINTEXT://:9092,CONTROLLER://{host}:9093"}, {}, None).settings
        assert [(at.host, at.port) for at in endpoints_of(controller_listeners_of(settings))] == [advertised]
