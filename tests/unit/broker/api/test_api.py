from __future__ import annotations

from ottla.broker.api.context import Listener, Peer


def test_close_callbacks_run_once() -> None:
    peer = Peer("127.0.0.1", "127.0.0.1", 9092, Listener("PLAINTEXT", "", 9092))
    notified: list[str] = []
    peer.on_closed["a"] = lambda: notified.append("a")
    peer.on_closed["b"] = lambda: notified.append("b")
    del peer.on_closed["a"]
    peer.closed()
    peer.closed()
    assert notified == ["b"]
    peer.on_closed["c"] = lambda: notified.append("c")
    peer.closed()
    assert notified == ["b", "c"]
    assert not peer.on_closed
