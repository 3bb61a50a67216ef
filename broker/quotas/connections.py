"""How fast connections may come: of the whole broker, and from each address.

Rules:
- Beyond the broker's rate a listener accepts the next one later; those behind it wait for that. A listener for brokers only is not held up.
- Beyond its address' rate a connection is closed, after a wait so that it does not come again at once, and does not count.
- No wait is longer than a window.

Source: KAFKA ConnectionQuotas (KIP-612).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from ottla.broker.cluster.image import QuotaTarget
from ottla.broker.quotas.rates import INT32_MAX, Rate, Windows

KEY: Final = "connection_creation_rate"
_IDLE_MS: Final = 3_600_000


class Acceptance(NamedTuple):
    """`wait_ms` until a connection begins, or where it is refused until it is closed."""

    wait_ms: int
    refused: bool


class ConnectionQuota:
    """Of one broker."""

    def __init__(self, windows: Windows) -> None:
        self._windows = windows
        self._broker = Rate(windows)
        self._addresses: dict[str, tuple[Rate, int]] = {}
        self._limits: Mapping[str | None, float] = {}
        self._free_ms: dict[str, int] = {}
        """By listener, when it accepts again."""

    def __bool__(self) -> bool:
        """Whether there are quotas of addresses."""
        return bool(self._limits)

    @property
    def measured(self) -> int:
        """Addresses whose connections are counted."""
        return len(self._addresses)

    def change(self, quotas: Mapping[QuotaTarget, Mapping[str, float]]) -> None:
        """From now on these hold."""
        of_addresses = {target: values[KEY] for target, values in quotas.items() if KEY in values}
        self._limits = {name: limit for target, limit in of_addresses.items() for kind, name in target if kind == "ip"}

    def accept(self, listener: str, host: str, broker_rate: int, now_ms: int, *, for_brokers: bool = False) -> Acceptance:
        """A connection has come. `broker_rate` is max.connection.creation.rate."""
        begin_ms = now_ms
        if not for_brokers and broker_rate < INT32_MAX:
            begin_ms = max(now_ms, self._free_ms.get(listener, now_ms))
            self._broker.record(1, begin_ms)
            begin_ms += self._bounded(self._broker.wait_ms(broker_rate, begin_ms))
            self._free_ms[listener] = begin_ms
        wait_ms = self._of_address(host, begin_ms)
        if wait_ms and not for_brokers and broker_rate < INT32_MAX:
            self._broker.record(-1, begin_ms)
        return Acceptance(begin_ms - now_ms + wait_ms, wait_ms > 0)

    def _of_address(self, host: str, now_ms: int) -> int:
        limit = self._limits.get(host, self._limits.get(None))
        if limit is None:
            return 0
        rate = self._rate_of(host, now_ms)
        rate.record(1, now_ms)
        wait_ms = self._bounded(rate.wait_ms(limit, now_ms))
        if wait_ms:
            rate.record(-1, now_ms)
        return wait_ms

    def _rate_of(self, host: str, now_ms: int) -> Rate:
        known = self._addresses.pop(host, None)
        while known is None and self._addresses:
            idle, (_, used_ms) = next(iter(self._addresses.items()))
            if now_ms - used_ms < _IDLE_MS:
                break
            del self._addresses[idle]
        rate = Rate(self._windows) if known is None else known[0]
        self._addresses[host] = rate, now_ms
        return rate

    def _bounded(self, wait_ms: int) -> int:
        return min(wait_ms, self._windows.ms)
