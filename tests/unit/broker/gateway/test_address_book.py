from __future__ import annotations

import errno

import pytest

from ottla.broker.core import limits
from ottla.broker.gateway.address_book import Address, AddressBook
from ottla.protocol.errors import ProtocolError

BOOTSTRAP = [Address("a", 9092), Address("b", 9092)]


def book() -> AddressBook:
    return AddressBook(BOOTSTRAP, lambda node_id: 20_000 + node_id)


def test_moved_broker_keeps_its_gateway_port_and_is_dialled_at_its_new_address() -> None:
    made = book()
    assert made.translate("gw", 1, "a", 9092) == ("gw", 20_001)
    assert made.candidates(1) == [("a", 9092)]
    assert made.translate("gw", 1, "c", 9999) == ("gw", 20_001)
    assert made.candidates(1) == [("c", 9999)]
    assert made.ports == {1: 20_001}


def test_any_broker_candidates_are_the_bootstrap_servers_and_all_known_brokers() -> None:
    made = book()
    made.translate("gw", 7, "c", 9092)
    made.translate("gw", 8, "b", 9092)
    assert made.candidates(None) == [("a", 9092), ("b", 9092), ("c", 9092)]


@pytest.mark.parametrize(("node_id", "host", "port"), [(-1, "", -1), (1, "", 9092), (1, "a", 0), (1, "a", 65_536), (-2, "a", 9092)])
def test_entry_without_a_broker_gets_no_port(node_id: int, host: str, port: int) -> None:
    made = book()
    assert made.translate("gw", node_id, host, port) == (host, port)
    assert made.ports == {}


def test_more_than_the_maximum_number_of_brokers_is_a_protocol_error() -> None:
    made = book()
    for node_id in range(limits.GATEWAY_NODES_MAX):
        made.translate("gw", node_id, "a", 9092)
    with pytest.raises(ProtocolError, match="more than"):
        made.translate("gw", limits.GATEWAY_NODES_MAX, "a", 9092)
    assert made.translate("gw", 5, "a", 9092) == ("gw", 20_005)


@pytest.mark.parametrize("host", ["h" * (limits.GATEWAY_HOST_CHARS + 1), "a\0b", "a\n"], ids=["long", "NUL", "newline"])
def test_impossible_host_name_is_a_protocol_error(host: str) -> None:
    with pytest.raises(ProtocolError, match="impossible host name"):
        book().translate("gw", 1, host, 9092)


def test_broker_without_a_free_port_is_a_protocol_error() -> None:
    def none(_: int) -> int:
        raise OSError(errno.EMFILE, "too many open files")

    with pytest.raises(ProtocolError, match="no port for broker 3"):
        AddressBook(BOOTSTRAP, none).translate("gw", 3, "a", 9092)


def test_remembered_topic_ids_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "GATEWAY_TOPICS_MAX", 2)
    made = book()
    for number, name in enumerate(["first", "second", "second", "third"], 1):
        made.learn(bytes([min(number, 2) if number < 4 else 4]) * 16, name)
    assert [made.topic_name(bytes([number]) * 16) for number in (1, 2, 4)] == [None, "second", "third"]
