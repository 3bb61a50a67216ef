from __future__ import annotations

import pytest

from ottla.broker.api.context import Listener, Peer
from ottla.broker.core.settings import BrokerSettings
from ottla.broker.core.settings_load import SettingsError
from ottla.broker.net.listeners import listeners_of


def settings(listeners: str, advertised: str = "", protocols: str = "PLAINTEXT:PLAINTEXT,SSL:SSL") -> BrokerSettings:
    def split(text: str) -> tuple[str, ...]:
        return tuple(item for item in text.split(",") if item)

    return BrokerSettings(listeners=split(listeners), advertised_listeners=split(advertised), listener_security_protocol_map=protocols)


def test_several_named_listeners_are_read_with_their_hosts_and_ports() -> None:
    found = listeners_of(settings("PLAINTEXT://:9092,INNER://[::1]:0", protocols="PLAINTEXT:PLAINTEXT,inner:plaintext"))
    assert [(at.name, at.host, at.port) for at in found] == [("PLAINTEXT", "", 9092), ("INNER", "::1", 0)]


def test_an_advertised_listener_belongs_to_the_one_of_its_name() -> None:
    found = listeners_of(settings("A://:1,B://:2", "B://kafka.example:19092", "A:PLAINTEXT,B:PLAINTEXT"))
    assert (found[0].advertised_host, found[0].advertised_port) == (None, None)
    assert (found[1].advertised_host, found[1].advertised_port) == ("kafka.example", 19092)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (settings(""), "listeners is empty"),
        (settings("localhost:9092"), "listeners: 'localhost:9092' is not NAME://host:port"),
        (settings("PLAINTEXT://h:65536"), "is not NAME://host:port"),
        (settings("PLAINTEXT://h:1,PLAINTEXT://h:2"), "PLAINTEXT is there twice"),
        (settings("A://[::1]:1,B://[::1]:1", protocols="A:PLAINTEXT,B:PLAINTEXT"), r"listeners: two are at \[::1\]:1"),
        (settings("OTHER://h:1"), "OTHER is not in listener.security.protocol.map"),
        (settings("SSL://h:1"), "listeners: SSL uses SSL; only PLAINTEXT is available"),
        (settings("A://h:1", protocols="A:SASL_PLAINTEXT"), "A uses SASL_PLAINTEXT; only PLAINTEXT is available"),
        (settings("A://h:1", protocols="A"), "listener.security.protocol.map: 'A' is not NAME:PROTOCOL"),
        (settings("PLAINTEXT://h:1", "INNER://h:1"), "advertised.listeners: INNER is not among listeners"),
        (settings("PLAINTEXT://h:1", "PLAINTEXT://0.0.0.0:1"), "advertised.listeners: PLAINTEXT advertises 0.0.0.0"),
    ],
)
def test_a_listener_that_cannot_be_served_is_refused_by_name(given: BrokerSettings, words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        listeners_of(given)


def test_without_an_advertised_listener_a_client_is_told_the_address_that_it_dialled() -> None:
    assert Peer("10.0.0.9", "192.168.1.5", 9092, Listener("PLAINTEXT", "0.0.0.0", 9092)).broker_address == ("192.168.1.5", 9092)


def test_an_advertised_listener_is_what_a_client_is_told() -> None:
    listener = Listener("PLAINTEXT", "0.0.0.0", 9092, "kafka.example", 19092)
    assert Peer("10.0.0.9", "192.168.1.5", 9092, listener).broker_address == ("kafka.example", 19092)
