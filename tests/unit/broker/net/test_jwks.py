"""Keys from a file and from a URL: a real HTTP server, and a clock that the test advances."""

from __future__ import annotations

import asyncio
import os
import ssl
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from ottla.broker.core import limits
from ottla.broker.core.clock import VirtualClock
from ottla.broker.core.timers import Timers
from ottla.broker.net.jwks import FetchedKeys, FileKeys, RefreshIntervals, fetcher
from tests.support.certificates import Certificates
from tests.support.signed import jwk, key_set, rsa_key

RHYTHM = RefreshIntervals(3_600_000, 100, 10_000)


class KeyServer:
    """An HTTP server that responds with the configured body and counts requests."""

    def __init__(self, certificate: Path | None = None) -> None:
        self.text, self.status, self.location, self.requests = key_set(jwk(rsa_key(), "a")), 200, "", 0
        self.ends = threading.Event()
        """While cleared, responses do not end."""
        self.ends.set()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                ends = outer.ends
                outer.requests += 1
                self.send_response(outer.status)
                if outer.location:
                    self.send_header("Location", outer.location)
                self.end_headers()
                self.wfile.write(outer.text)
                ends.wait(20)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        scheme = "http"
        if certificate is not None:
            scheme, context = "https", ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.url = f"{scheme}://127.0.0.1:{self.server.server_port}/keys"
        self._thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))
        self._thread.start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self._thread.join()


@pytest.fixture
def served() -> Iterator[KeyServer]:
    server = KeyServer()
    yield server
    server.close()


class Harness:
    """A key set at the server's URL, and a clock that the test advances."""

    def __init__(self, served: KeyServer) -> None:
        self.clock, self.timers, self.served = VirtualClock(), Timers(), served
        self.keys = FetchedKeys(fetcher(served.url, {}, Path.read_bytes), RHYTHM, self.timers, self.clock.mono_ms)

    @property
    def ids(self) -> list[str]:
        return [key.data["kid"] for key in self.keys.current_keys()]

    def pass_ms(self, ms: int) -> None:
        self.clock.advance(ms)
        self.timers.run_due(self.clock.mono_ms())

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(20):
            while not holds():  # noqa: ASYNC110 # the awaited change happens on a thread
                await asyncio.sleep(0)


async def test_keys_are_fetched_at_the_start_and_at_intervals(served: KeyServer) -> None:
    harness = Harness(served)
    assert (harness.ids, served.requests) == (["a"], 1)
    served.text = key_set(jwk(rsa_key(), "b"))
    harness.pass_ms(RHYTHM.refresh_ms - 1)
    assert served.requests == 1
    for text, ids in ((served.text, ["b"]), (key_set(), [])):
        served.text = text
        harness.pass_ms(RHYTHM.refresh_ms)
        await harness.until(lambda ids=ids: harness.ids == ids)


async def test_an_unknown_key_triggers_a_fetch_once_in_a_minute(served: KeyServer) -> None:
    harness = Harness(served)
    served.text = key_set(jwk(rsa_key(), "b"))
    for kid in ("b", "b", "x" * (limits.JWKS_KID_CHARS + 1)):
        harness.keys.maybe_expedite_refresh(kid)
    await harness.until(lambda: harness.ids == ["b"])
    assert served.requests == 2
    served.text = key_set(jwk(rsa_key(), "z"))
    harness.pass_ms(limits.JWKS_PAUSE_MS - 1)
    harness.keys.maybe_expedite_refresh("made up")
    harness.pass_ms(1)
    harness.keys.maybe_expedite_refresh("c")
    await harness.until(lambda: harness.ids == ["z"])
    assert served.requests == 3
    served.text = key_set(jwk(rsa_key(), "c"))
    harness.pass_ms(limits.JWKS_MISSED_MS - 1)
    harness.keys.maybe_expedite_refresh("c")
    await asyncio.to_thread(fetcher(served.url, {}, Path.read_bytes))  # a request that were sent now would be answered before this one
    assert (harness.ids, served.requests) == (["z"], 4)
    harness.pass_ms(1)
    harness.keys.maybe_expedite_refresh("c")
    await harness.until(lambda: harness.ids == ["c"])


async def test_a_failed_fetch_is_retried_and_the_previous_keys_stay_in_use(served: KeyServer, caplog: pytest.LogCaptureFixture) -> None:
    harness = Harness(served)
    served.status = 500
    harness.keys.maybe_expedite_refresh("b")
    waits = []
    for tries in range(2, 30):
        await harness.until(
            lambda tries=tries: served.requests == tries and (len(harness.timers) == 2 or "Cannot fetch the keys" in caplog.text)
        )
        if "Cannot fetch the keys" in caplog.text:
            break
        wait_ms = (harness.timers.next_deadline() or 0) - harness.clock.mono_ms()
        waits.append(wait_ms)
        harness.pass_ms(wait_ms)
    assert waits == [100, 200, 400, 800, 1_600, 3_200, 3_700]
    assert harness.ids == ["a"]
    served.status, served.text = 200, key_set(jwk(rsa_key(), "b"))
    harness.pass_ms(limits.JWKS_MISSED_MS)
    harness.keys.maybe_expedite_refresh("b")
    await harness.until(lambda: harness.ids == ["b"])


async def test_a_response_that_does_not_end_is_abandoned_when_the_next_fetch_is_due(served: KeyServer) -> None:
    harness = Harness(served)
    failures: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(context))
    held = threading.Event()
    ended, served.ends = served.ends, held
    harness.keys.maybe_expedite_refresh("b")
    await harness.until(lambda: served.requests == 2)
    served.text, served.ends = key_set(jwk(rsa_key(), "b")), ended
    harness.pass_ms(RHYTHM.backoff_max_ms + limits.JWKS_FETCH_MS)
    harness.keys.maybe_expedite_refresh("too early")
    harness.pass_ms(limits.JWKS_PAUSE_MS)
    harness.keys.maybe_expedite_refresh("another")
    await harness.until(lambda: harness.ids == ["b"])
    held.set()
    await harness.until(lambda: not any(thread.name == "jwks" for thread in threading.enumerate()))
    await asyncio.sleep(0)
    assert (harness.ids, served.requests, failures) == (["b"], 3, [])


@pytest.mark.parametrize("case", ["too large", "no set", "gone", "elsewhere"])
def test_unusable_responses_raise(served: KeyServer, case: str) -> None:
    served.text = {"too large": b" " * (limits.JWKS_BYTES + 1), "no set": b"<html>"}.get(case, served.text)
    served.status = {"gone": 404, "elsewhere": 302}.get(case, 200)
    served.location = "https://127.0.0.1:1/keys" if case == "elsewhere" else ""
    with pytest.raises((OSError, ValueError)):
        Harness(served)


def test_an_https_url_requires_a_trusted_certificate(tmp_path: Path) -> None:
    made = Certificates(tmp_path / "tls")
    server = KeyServer(made.server)
    try:
        trust = {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(made.ca), "other": "x"}
        assert fetcher(server.url, trust, lambda path: Path(path).read_bytes())() == server.text
        for options, words in (
            ({}, "CERTIFICATE_VERIFY_FAILED"),
            ({"ssl.keystore.location": "x"}, "unsupported options of the login module: ssl.keystore.location"),
        ):
            with pytest.raises((OSError, ValueError), match=words):
                fetcher(server.url, options, lambda path: Path(path).read_bytes())()
    finally:
        server.close()


def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    file.write_bytes(key_set(jwk(rsa_key(), "a")))
    os.utime(file, (1, 1))
    keys = FileKeys(file)
    assert [key.data["kid"] for key in keys.current_keys()] == ["a"]
    file.write_bytes(key_set(jwk(rsa_key(), "b")))
    os.utime(file, (2, 2))
    assert [key.data["kid"] for key in keys.current_keys()] == ["b"]
    file.unlink()
    with pytest.raises(OSError, match="No such file"):
        keys.current_keys()
