"""Tests of handlers' arguments and of the table of routes."""

from __future__ import annotations

from ottla.broker.api.context import Listener, Peer
from ottla.broker.api.routes import ROUTES, load_all
from ottla.protocol.codec import request_class


def test_close_callbacks_run_once() -> None:
    peer = Peer("127.0.0.1", "127.0.0.1", 9092, Listener("PLAINTEXT", "", 9092))
    told: list[str] = []
    peer.on_closed["a"] = lambda: told.append("a")
    peer.on_closed["b"] = lambda: told.append("b")
    del peer.on_closed["a"]
    peer.closed()
    peer.closed()
    assert told == ["b"]


def test_every_handler_can_be_imported_and_its_module_is_named_after_its_key() -> None:
    load_all()
    for key, route in ROUTES.items():
        assert route.module.startswith(f"k{int(key):02d}_")
        assert key == request_class(key).API_KEY


def test_routes_are_in_the_order_of_their_keys() -> None:
    assert list(ROUTES) == sorted(ROUTES)
