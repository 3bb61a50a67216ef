"""How much each client uses of one thing that there are quotas for, and how long one has to wait who uses too much.

Rules:
- Those who share a quota share one rate. Where there are no quotas of a kind nothing is measured. `Recent` says how long it is kept.
- A quota that changes holds at once, for what was used before, too.

Source: KAFKA ClientQuotaManager, ClientRequestQuotaManager, ControllerMutationQuotaManager.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Generic, TypeVar

from ottla.broker.cluster.image import QuotaTarget
from ottla.broker.core.rejected import Rejected
from ottla.broker.quotas.limits_of_clients import NO_LIMIT, Limits, Sharers
from ottla.broker.quotas.rates import INT32_MAX, Rate, TokenBucket, Windows
from ottla.broker.quotas.recent import Recent
from ottla.protocol.error_codes import ErrorCode

NANOS_TO_PERCENT: Final = 100.0 / 1_000_000_000
MeterT = TypeVar("MeterT", Rate, TokenBucket)


class Meters(Generic[MeterT]):
    """What each of those that share a quota use."""

    def __init__(self, key: str, make: Callable[[], MeterT]) -> None:
        self.key = key
        self.limits = Limits({}, key)
        self.throttled = 0
        """How often somebody had to wait."""
        self.waited_ms = 0
        """How long, in all."""
        self._meters: Recent[Sharers, MeterT] = Recent(make, _name_bytes)

    def __bool__(self) -> bool:
        """Whether there are quotas of this kind."""
        return bool(self.limits)

    @property
    def measured(self) -> int:
        """Those whose use is known."""
        return len(self._meters)

    def change(self, quotas: Mapping[QuotaTarget, Mapping[str, float]]) -> None:
        """From now on these hold."""
        self.limits = Limits(quotas, self.key)

    def of(self, user: str, client_id: str, now_ms: int) -> tuple[MeterT, float]:
        """What a client is measured by, and its limit."""
        sharers = self.limits.sharers(user, client_id)
        return self._meters.of(sharers, now_ms), self.limits.limit(sharers)

    def waits(self, wait_ms: int) -> int:
        """Counts it, if there is anything to wait."""
        if wait_ms > 0:
            self.throttled += 1
            self.waited_ms += wait_ms
        return wait_ms


def _name_bytes(sharers: Sharers) -> int:
    user, client_id = sharers
    return len(user) + len(client_id)


class UseQuota(Meters[Rate]):
    """Bytes, or parts of a second, by the second. A wait is never longer than `wait_ms_max`."""

    def __init__(self, key: str, windows: Windows, wait_ms_max: int = INT32_MAX) -> None:
        super().__init__(key, lambda: Rate(windows))
        self._windows = windows
        self._wait_ms_max = wait_ms_max

    def use(self, user: str, client_id: str, amount: float, now_ms: int) -> int:
        """How long the client has to wait, now that it has used this, too; 0: it may go on."""
        if not self.limits:
            return 0
        rate, limit = self.of(user, client_id, now_ms)
        rate.record(amount, now_ms)
        return min(rate.wait_ms(limit, now_ms), self._wait_ms_max)

    def take_back(self, user: str, client_id: str, amount: float, now_ms: int) -> None:
        """It was not used after all."""
        if self.limits:
            self.of(user, client_id, now_ms)[0].record(-amount, now_ms)

    def most_at_once(self, user: str, client_id: str, now_ms: int) -> float:
        """What a client that used nothing lately can use without having to wait."""
        if not self.limits:
            return NO_LIMIT
        limit = self.of(user, client_id, now_ms)[1]
        return NO_LIMIT if limit == NO_LIMIT else limit * (self._windows.number - 1) * (self._windows.ms // 1000)


class MutationQuota(Meters[TokenBucket]):
    """Partitions made and deleted (KIP-599), on one node by the broker, in a cluster by the controller."""

    def __init__(self, windows: Windows) -> None:
        super().__init__("controller_mutation_rate", lambda: TokenBucket(windows))

    def of_request(self, user: str, client_id: str, *, strict: bool, mono_ms: Callable[[], int]) -> Mutations:
        """What one request is charged."""
        bucket, limit = self.of(user, client_id, mono_ms())
        return Mutations(self, bucket, limit, strict=strict, mono_ms=mono_ms)


class Mutations:
    """What one request is charged. A strict one is refused what cannot be paid, from versions on whose clients know that error; others
    only have to wait afterwards."""

    def __init__(self, quota: MutationQuota, bucket: TokenBucket, limit: float, *, strict: bool, mono_ms: Callable[[], int]) -> None:
        self._quota, self._bucket, self._limit, self._strict, self._mono_ms = quota, bucket, limit, strict, mono_ms
        self._wait_ms = 0
        self._since_ms = 0

    def charge(self, partitions: float) -> None:
        """Raises Rejected(THROTTLING_QUOTA_EXCEEDED)."""
        now_ms = self._mono_ms()
        if self._strict and (wait_ms := self._bucket.wait_ms(self._limit, now_ms)):
            self._wait_ms, self._since_ms = wait_ms, now_ms
            raise Rejected(ErrorCode.THROTTLING_QUOTA_EXCEEDED)  # with no text of its own, as Kafka
        self._bucket.take(partitions, self._limit, now_ms)
        if not self._strict and (wait_ms := self._bucket.wait_ms(self._limit, now_ms)):
            self._wait_ms, self._since_ms = wait_ms, now_ms

    def wait_ms(self) -> int:
        """How long the client has to wait from now on."""
        return self._quota.waits(max(0, self._wait_ms - (self._mono_ms() - self._since_ms))) if self._wait_ms else 0
