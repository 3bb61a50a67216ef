"""The usage of each client under one kind of quota, and the throttle time of a client that exceeds it.

Rules:
* All connections that share a quota share one rate. If no quota of a kind is configured, nothing is measured. The measurements of idle
  clients are removed (`LruCache`).
* A changed quota applies immediately, also to usage that was measured before the change.

Source: KAFKA ClientQuotaManager, ClientRequestQuotaManager, ControllerMutationQuotaManager.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Generic, TypeVar

from ottla.broker.cluster.image import QuotaTarget
from ottla.broker.core.rejected import Rejected
from ottla.broker.quotas.limits_of_clients import NO_LIMIT, Limits, Sharers
from ottla.broker.quotas.lru_cache import LruCache
from ottla.broker.quotas.rates import INT32_MAX, Rate, TokenBucket, Windows
from ottla.protocol.error_codes import ErrorCode

NANOS_TO_PERCENT: Final = 100.0 / 1_000_000_000
MeterT = TypeVar("MeterT", Rate, TokenBucket)


class Meters(Generic[MeterT]):
    """The measured usage under the kind of quota that `key` names, such as `producer_byte_rate`. Connections that share a quota share a
    meter (a `Rate` or a `TokenBucket`), which `make` creates."""

    def __init__(self, key: str, make: Callable[[], MeterT]) -> None:
        self.key = key
        self.limits = Limits({}, key)
        self.throttled = 0
        """The number of requests that were throttled."""
        self.waited_ms = 0
        """The sum of the throttle times of all throttled requests, in ms."""
        self._meters: LruCache[Sharers, MeterT] = LruCache(make, _name_bytes)

    def __bool__(self) -> bool:
        """Return whether any quota of this kind is configured."""
        return bool(self.limits)

    @property
    def measured(self) -> int:
        """The number of meters in use; there is one for each set of connections that share a quota."""
        return len(self._meters)

    def change(self, quotas: Mapping[QuotaTarget, Mapping[str, float]]) -> None:
        """Replace all quotas of this kind by those in `quotas`, which has quotas of every kind by entity. Measured usage is kept."""
        self.limits = Limits(quotas, self.key)

    def of(self, user: str, client_id: str, now_ms: int) -> tuple[MeterT, float]:
        """Return the meter that measures a client's usage, and the client's limit (NO_LIMIT without a quota)."""
        sharers = self.limits.sharers(user, client_id)
        return self._meters.of(sharers, now_ms), self.limits.limit(sharers)

    def count_throttled(self, wait_ms: int) -> int:
        """Count a throttled request in the statistics if its throttle time `wait_ms` is positive; return `wait_ms`."""
        if wait_ms > 0:
            self.throttled += 1
            self.waited_ms += wait_ms
        return wait_ms


def _name_bytes(sharers: Sharers) -> int:
    user, client_id = sharers
    return len(user) + len(client_id)


class UsageQuota(Meters[Rate]):
    """A quota on bytes per second or on request time (in percent of the event loop's time). A throttle time is at most `wait_ms_max`."""

    def __init__(self, key: str, windows: Windows, wait_ms_max: int = INT32_MAX) -> None:
        super().__init__(key, lambda: Rate(windows))
        self._windows = windows
        self._wait_ms_max = wait_ms_max

    def record(self, user: str, client_id: str, amount: float, now_ms: int) -> int:
        """Record `amount` of usage (bytes, or request time) and return the client's throttle time in milliseconds; 0 if it is not
        throttled."""
        if not self.limits:
            return 0
        rate, limit = self.of(user, client_id, now_ms)
        rate.record(amount, now_ms)
        return min(rate.wait_ms(limit, now_ms), self._wait_ms_max)

    def unrecord(self, user: str, client_id: str, amount: float, now_ms: int) -> None:
        """Subtract usage that was recorded with `record` and did not take place."""
        if self.limits:
            self.of(user, client_id, now_ms)[0].record(-amount, now_ms)

    def max_unthrottled_usage(self, user: str, client_id: str, now_ms: int) -> float:
        """Return the largest amount of a single use for which a client that was idle before is not throttled; NO_LIMIT without a quota."""
        if not self.limits:
            return NO_LIMIT
        limit = self.of(user, client_id, now_ms)[1]
        return NO_LIMIT if limit == NO_LIMIT else limit * (self._windows.number - 1) * (self._windows.ms // 1000)


class MutationQuota(Meters[TokenBucket]):
    """The quota on partition creations and deletions (KIP-599). The node that performs them applies it: a standalone node or the
    controller.
    """

    def __init__(self, windows: Windows) -> None:
        super().__init__("controller_mutation_rate", lambda: TokenBucket(windows))

    def of_request(self, user: str, client_id: str, *, strict: bool, mono_ms: Callable[[], int]) -> Mutations:
        """Return the `Mutations` object that charges the partition creations and deletions of one request. `strict` requests are rejected
        above the quota, others are throttled. `mono_ms` returns the monotonic time in ms."""
        bucket, limit = self.of(user, client_id, mono_ms())
        return Mutations(self, bucket, limit, strict=strict, mono_ms=mono_ms)


class Mutations:
    """Charges the partition creations and deletions of one request to a client's token bucket.

    A `strict` request has a version in which clients know THROTTLING_QUOTA_EXCEEDED; it is rejected while the bucket is negative. Any other
    request is performed, and the client is throttled afterwards.
    """

    def __init__(self, quota: MutationQuota, bucket: TokenBucket, limit: float, *, strict: bool, mono_ms: Callable[[], int]) -> None:
        self._quota, self._bucket, self._limit, self._strict, self._mono_ms = quota, bucket, limit, strict, mono_ms
        self._wait_ms = 0
        self._since_ms = 0

    def charge(self, partitions: float) -> None:
        """Take tokens for this number of partitions from the client's bucket. If the request is strict and the bucket is negative, take
        none and raise Rejected(THROTTLING_QUOTA_EXCEEDED).
        """
        now_ms = self._mono_ms()
        if self._strict and (wait_ms := self._bucket.wait_ms(self._limit, now_ms)):
            self._wait_ms, self._since_ms = wait_ms, now_ms
            raise Rejected(ErrorCode.THROTTLING_QUOTA_EXCEEDED)  # without a message, as in Kafka
        self._bucket.take(partitions, self._limit, now_ms)
        if not self._strict and (wait_ms := self._bucket.wait_ms(self._limit, now_ms)):
            self._wait_ms, self._since_ms = wait_ms, now_ms

    def wait_ms(self) -> int:
        """Return the client's remaining throttle time in milliseconds (0: none), and count it in the statistics."""
        return self._quota.count_throttled(max(0, self._wait_ms - (self._mono_ms() - self._since_ms))) if self._wait_ms else 0
