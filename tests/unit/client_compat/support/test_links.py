"""Links between nodes over real sockets: this process plays both nodes, each on its own port."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import closing

import pytest

from client_compat.support.brokers import HOST
from client_compat.support.links import Links

ONE, TWO = 1, 2
A_MOMENT_S = 0.2
TIMEOUT_S = 20.0


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server((HOST, 0)) as made:
        made.settimeout(TIMEOUT_S)
        yield made


def connected(links: Links, port: int, listener: socket.socket) -> tuple[socket.socket, socket.socket]:
    """Return both ends of a connection: that of node 1, which opened it, and that of node 2."""
    dialled = socket.create_connection((HOST, port), TIMEOUT_S)
    accepted, _ = listener.accept()
    accepted.settimeout(TIMEOUT_S)
    return dialled, accepted


def nothing_comes(end: socket.socket) -> bool:
    end.settimeout(A_MOMENT_S)
    try:
        return end.recv(1) is None
    except TimeoutError:
        return True
    finally:
        end.settimeout(TIMEOUT_S)


def test_cut_direction_carries_nothing_until_healed_and_the_other_is_open(listener: socket.socket) -> None:
    links = Links(lambda: {ONE: os.getpid()})
    port = links.to(TWO, listener.getsockname()[1])
    with links:
        one, two = connected(links, port, listener)
        with closing(one), closing(two):
            one.sendall(b"a")
            assert two.recv(1) == b"a"
            with links.cut([(ONE, TWO)]):
                one.sendall(b"b")
                two.sendall(b"c")
                assert one.recv(1) == b"c"
                assert nothing_comes(two)
            assert two.recv(1) == b"b"


def test_connection_made_while_the_link_is_cut_is_served_afterwards(listener: socket.socket) -> None:
    links = Links(lambda: {ONE: os.getpid()})
    port = links.to(TWO, listener.getsockname()[1])
    with links:
        with links.cut([(ONE, TWO), (TWO, ONE)]):
            one, two = connected(links, port, listener)
            one.sendall(b"a")
            assert nothing_comes(two)
        with closing(one), closing(two):
            assert two.recv(1) == b"a"


def test_direction_cut_twice_is_open_when_both_cuts_ended(listener: socket.socket) -> None:
    links = Links(lambda: {ONE: os.getpid()})
    port = links.to(TWO, listener.getsockname()[1])
    with links:
        one, two = connected(links, port, listener)
        with closing(one), closing(two):
            with links.cut([(ONE, TWO)]):
                with links.cut([(ONE, TWO)]):
                    one.sendall(b"a")
                assert nothing_comes(two)
            assert two.recv(1) == b"a"


def test_unknown_process_is_disconnected_and_a_node_that_is_down_closes_the_connection(listener: socket.socket) -> None:
    port = listener.getsockname()[1]
    links = Links(dict)
    at = links.to(TWO, port)
    with links, socket.create_connection((HOST, at), TIMEOUT_S) as stranger:
        assert ended(stranger)
    listener.close()
    links = Links(lambda: {ONE: os.getpid()})
    at = links.to(TWO, port)
    with links, socket.create_connection((HOST, at), TIMEOUT_S) as one:
        assert ended(one)


def ended(end: socket.socket) -> bool:
    try:
        return end.recv(1) == b""
    except ConnectionResetError:
        return True


def test_closing_one_end_closes_the_other_after_its_data(listener: socket.socket) -> None:
    links = Links(lambda: {ONE: os.getpid()})
    port = links.to(TWO, listener.getsockname()[1])
    with links:
        one, two = connected(links, port, listener)
        one.sendall(b"last")
        one.close()
        with closing(two):
            assert two.recv(4) == b"last"
            assert ended(two)


def test_a_node_may_dial_from_a_socket_of_ipv6_as_a_jvm_does(listener: socket.socket) -> None:
    links = Links(lambda: {ONE: os.getpid()})
    port = links.to(TWO, listener.getsockname()[1])
    with links, socket.socket(socket.AF_INET6) as one:
        one.connect((f"::ffff:{HOST}", port))
        accepted, _ = listener.accept()
        with closing(accepted):
            one.sendall(b"a")
            assert accepted.recv(1) == b"a"
