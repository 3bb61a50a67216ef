"""The keys that verify OAUTHBEARER tokens: a JWKS document in a file, or at a URL that is fetched regularly.

Invariants:
* No login waits for the network. Keys are fetched on a separate thread, and the current keys are used meanwhile. Only the broker's start
  waits, and fails if the keys cannot be fetched.
* A token with an unknown key id triggers a fetch, for each id at most once per JWKS_MISSED_MS; only a few ids are remembered. Because
  clients can invent ids, JWKS_PAUSE_MS pass between two such fetches.
* The size of a response is limited. A fetch that does not end is abandoned when the next one is due.

Source: KAFKA RefreshingHttpsJwks, JwksFileVerificationKeyResolver, Retry.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import IO, Any, Final
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, HTTPSHandler, ProxyHandler, Request, build_opener

from ottla.broker.core import limits
from ottla.broker.core.listener_security import ListenerSecurity
from ottla.broker.core.security_keys import SECURITY_KEYS
from ottla.broker.core.settings import BrokerSettings
from ottla.broker.core.timers import Timers
from ottla.broker.security.signed_tokens import SigningKey, read_key_set
from ottla.broker.security.stores import trust_anchors

logger = logging.getLogger(__name__)

_TRUST: Final = frozenset(f"ssl.truststore.{name}" for name in ("type", "location", "password", "certificates"))
Fetch = Callable[[], bytes]
"""A function that returns the bytes of a JWKS document. It raises OSError, ValueError or HTTPException."""


class FileKeys:
    """The keys that verify tokens, from a JWKS file, which is read again when it has changed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._changed_ns = -1
        self._keys: Sequence[SigningKey] = ()
        self.current_keys()

    def current_keys(self) -> Sequence[SigningKey]:
        """Return the keys in the file, as it is now (`KeySource.current_keys`). Raises OSError if the file cannot be read, ValueError if it
        is invalid."""
        changed_ns = self._path.stat().st_mtime_ns
        if changed_ns != self._changed_ns:
            with self._path.open("rb") as file:
                self._keys = read_key_set(_bounded(file))
            self._changed_ns = changed_ns
        return self._keys

    def maybe_expedite_refresh(self, kid: str) -> None:
        """Do nothing for the unknown key id `kid`: whenever keys are needed, `current_keys` checks by itself whether the file has
        changed."""


@dataclass(frozen=True, slots=True)
class RefreshIntervals:
    """The intervals in ms at which a JWKS document is fetched, and fetched again after a failure:
    `sasl.oauthbearer.jwks.endpoint.refresh.ms`, `….retry.backoff.ms` and `….retry.backoff.max.ms`.
    """

    refresh_ms: int
    backoff_ms: int
    backoff_max_ms: int


class FetchedKeys:
    """The keys that verify tokens, from a JWKS document at a URL, which is fetched regularly. The constructor fetches it and blocks; it
    raises what `fetch` raises, and ValueError for an invalid document."""

    def __init__(self, fetch: Fetch, intervals: RefreshIntervals, timers: Timers, mono_ms: Callable[[], int]) -> None:
        self._fetch, self._intervals, self._timers, self._mono_ms = fetch, intervals, timers, mono_ms
        self._keys: Sequence[SigningKey] = read_key_set(fetch())
        self._retry_at: dict[str, int] = {}
        self._paused_until = mono_ms()
        self._gives_up_at: int | None = None
        """The monotonic time (ms) at which the current fetch gives up its retries; None if no fetch is in progress."""
        self._tries = 0
        self._latest: object = None
        """An object that identifies the newest attempt to fetch the keys. The result of an older attempt, which was abandoned, is
        ignored."""
        self._later()

    def current_keys(self) -> Sequence[SigningKey]:
        """Return the keys of the last successful fetch (`KeySource.current_keys`)."""
        return self._keys

    def maybe_expedite_refresh(self, kid: str) -> None:
        """Fetch the keys for an unknown key id (`KeySource.maybe_expedite_refresh`). Do nothing if this id triggered a fetch within
        JWKS_MISSED_MS, or any id within JWKS_PAUSE_MS."""
        now_ms = self._mono_ms()
        if len(kid) > limits.JWKS_KID_CHARS or now_ms < max(self._retry_at.get(kid, 0), self._paused_until):
            return
        self._paused_until = now_ms + limits.JWKS_PAUSE_MS
        self._retry_at.pop(kid, None)
        while len(self._retry_at) >= limits.JWKS_MISSED_KIDS:
            self._retry_at.pop(next(iter(self._retry_at)))
        self._retry_at[kid] = now_ms + limits.JWKS_MISSED_MS
        self._begin()

    def _later(self) -> None:
        self._timers.schedule(self._mono_ms() + self._intervals.refresh_ms, self._scheduled)

    def _scheduled(self) -> None:
        self._later()
        self._begin()

    def _begin(self) -> None:
        now_ms = self._mono_ms()
        if self._gives_up_at is None or now_ms > self._gives_up_at + limits.JWKS_FETCH_MS:
            self._gives_up_at, self._tries = now_ms + self._intervals.backoff_max_ms, 0
            self._try()

    def _try(self) -> None:
        loop = asyncio.get_running_loop()
        self._tries += 1
        this = self._latest = object()

        def work() -> None:
            try:
                result: Sequence[SigningKey] | Exception = read_key_set(self._fetch())
            except (OSError, ValueError, HTTPException) as error:
                result = error
            with suppress(RuntimeError):  # the broker has stopped
                loop.call_soon_threadsafe(self._tried, this, result)

        threading.Thread(target=work, name="jwks", daemon=True).start()

    def _tried(self, which: object, result: Sequence[SigningKey] | Exception) -> None:
        if which is not self._latest:
            return
        assert self._gives_up_at is not None
        if isinstance(result, Exception):
            now_ms = self._mono_ms()
            wait_ms = min(self._intervals.backoff_ms * 2 ** (self._tries - 1), self._gives_up_at - now_ms)
            if wait_ms > 0:
                self._timers.schedule(now_ms + wait_ms, self._try)
                return
            logger.warning("Cannot fetch the keys of sasl.oauthbearer.jwks.endpoint.url; the previous keys stay in use: %s", result)
        else:
            self._keys = result
            for key in result:
                self._retry_at.pop(str(key.data.get("kid")), None)
        self._gives_up_at = None


class _SameScheme(HTTPRedirectHandler):
    """A redirect handler that follows no redirect from https to http, as in Java."""

    def redirect_request(self, request: Request, *args: Any) -> Request | None:
        made = super().redirect_request(request, *args)
        return made if made is None or made.type == request.type else None


def fetcher(url: str, options: Mapping[str, str], read: Callable[[str], bytes]) -> Fetch:
    """Return a function that fetches the http or https URL `url`. `options` are the options of the OAUTHBEARER login module. If they name a
    truststore (`ssl.truststore.…`), only its certificates are trusted; `read` returns a file's bytes. Raises ValueError for an invalid
    truststore, OSError if it cannot be read."""
    handlers: list[Any] = [ProxyHandler({}), _SameScheme()]
    if urlsplit(url).scheme.lower() == "https":
        handlers.append(HTTPSHandler(context=_context(options, read)))
    opener = build_opener(*handlers)

    def fetch() -> bytes:
        try:
            with opener.open(url, timeout=limits.JWKS_FETCH_MS / 1000) as answer:
                return _bounded(answer)
        except HTTPError as error:
            with error:  # the error is also the response, which must be closed
                raise OSError(f"HTTP status {error.code}") from None

    return fetch


def _context(options: Mapping[str, str], read: Callable[[str], bytes]) -> ssl.SSLContext:
    if others := sorted(name for name in options if name.startswith("ssl.") and name not in _TRUST):
        raise ValueError(f"unsupported options of the login module: {', '.join(others)}")
    given = {name: SECURITY_KEYS[name].parse(options[name]) for name in _TRUST if name in options}
    anchors = trust_anchors(ListenerSecurity(BrokerSettings(security=given), ""), read)
    context = ssl.create_default_context() if anchors is None else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if anchors is not None:
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        context.load_verify_locations(cadata=b"".join(anchors))
    return context


def _bounded(source: IO[bytes]) -> bytes:
    data = source.read(limits.JWKS_BYTES + 1)
    if len(data) > limits.JWKS_BYTES:
        raise ValueError(f"the JSON Web Key Set has more than {limits.JWKS_BYTES} bytes")
    return data
