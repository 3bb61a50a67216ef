"""Limits on the rate of new connections: of the whole broker, of each listener, and from each address.

Rules:
* If the broker's rate or the listener's rate is exceeded, the listener delays its next connection, and later ones wait behind it. A
  connection that would wait longer than ACCEPT_WAIT_MS is closed and not counted, so that no later connection waits for it. The broker's
  rate does not apply to the inter-broker listener.
* If the rate of an address is exceeded, its connection is closed after a delay, so that the client does not reconnect at once. The
  connection is not counted.
* A rate delays a connection by at most one window, besides the wait for the connections before it.
* Different notations of an address count as the same address.

Source: KAFKA ConnectionQuotas (KIP-612).
"""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_address
from typing import Final, NamedTuple

from ottla.broker.cluster.image import QuotaTarget
from ottla.broker.core import limits
from ottla.broker.quotas.lru_cache import LruCache
from ottla.broker.quotas.rates import INT32_MAX, Rate, Windows

KEY: Final = "connection_creation_rate"


class ConnectionDecision(NamedTuple):
    """The decision on a new connection: after `wait_ms` milliseconds the broker serves it or, if `refused`, closes it."""

    wait_ms: int
    refused: bool


class ConnectionQuota:
    """The limits on the rate of new connections of one broker, and the measured rates."""

    def __init__(self, windows: Windows) -> None:
        self._windows = windows
        self._broker = Rate(windows)
        self._listeners: dict[str, Rate] = {}
        self._addresses: LruCache[str, Rate] = LruCache(lambda: Rate(windows), len)
        self._limits: Mapping[str | None, float] = {}
        self._free_ms: dict[str, int] = {}
        """The earliest time (ms) at which each listener accepts its next connection, by listener name."""

    def __bool__(self) -> bool:
        """Return whether any quota on the connection rate of IP addresses is configured."""
        return bool(self._limits)

    @property
    def measured(self) -> int:
        """The number of addresses whose connections are counted."""
        return len(self._addresses)

    def change(self, quotas: Mapping[QuotaTarget, Mapping[str, float]]) -> None:
        """Replace all quotas on the connection rates of IP addresses."""
        of_addresses = {target: values[KEY] for target, values in quotas.items() if KEY in values}
        parts = [(name, limit) for target, limit in of_addresses.items() for kind, name in target if kind == "ip"]
        self._limits = {None if name is None else _same(name): limit for name, limit in parts}

    def accept(
        self, listener: str, host: str, broker_rate: int, now_ms: int, *, for_brokers: bool = False, listener_rate: int = INT32_MAX
    ) -> ConnectionDecision:
        """Record a new connection and return the decision on it.

        `broker_rate` and `listener_rate` are max.connection.creation.rate of the broker and of the listener, in connections per second.
        `for_brokers` is true for the inter-broker listener.
        """
        limited = []
        if not for_brokers and broker_rate < INT32_MAX:
            limited.append((self._broker, broker_rate))
        if listener_rate < INT32_MAX:
            limited.append((self._listeners.setdefault(listener, Rate(self._windows)), listener_rate))
        begin_ms = now_ms
        if limited:
            begin_ms = max(now_ms, self._free_ms.get(listener, now_ms))
            if begin_ms - now_ms > limits.ACCEPT_WAIT_MS:
                return ConnectionDecision(self._windows.ms, True)
            for rate, _ in limited:
                rate.record(1, begin_ms)
            begin_ms += max(self._bounded(rate.wait_ms(limit, begin_ms)) for rate, limit in limited)
            self._free_ms[listener] = begin_ms
        wait_ms = self._of_address(host, begin_ms)
        if wait_ms:
            for rate, _ in limited:
                rate.record(-1, begin_ms)
        return ConnectionDecision(begin_ms - now_ms + wait_ms, wait_ms > 0)

    def _of_address(self, host: str, now_ms: int) -> int:
        if not self._limits:
            return 0
        address = _same(host)
        limit = self._limits.get(address, self._limits.get(None))
        if limit is None:
            return 0
        rate = self._addresses.of(address, now_ms)
        rate.record(1, now_ms)
        wait_ms = self._bounded(rate.wait_ms(limit, now_ms))
        if wait_ms:
            rate.record(-1, now_ms)
        return wait_ms

    def _bounded(self, wait_ms: int) -> int:
        return min(wait_ms, self._windows.ms)


def _same(address: str) -> str:
    """Return `address` in the notation that Java uses, so that different notations of an address are equal; return a host
    name unchanged.
    """
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    return str(getattr(found, "ipv4_mapped", None) or found)
