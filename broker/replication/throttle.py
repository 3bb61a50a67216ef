"""Replication quotas in bytes per second, so that a reassignment leaves bandwidth for clients.

Only replicas outside the ISR are throttled, because clients wait for in-sync replicas. The limit is soft: a burst above the rate is
compensated by a pause.

Source: KAFKA ReplicationQuotaManager, SimpleRate, TopicConfigHandler.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Collection
from typing import Final, NamedTuple

NO_LIMIT: Final = 2**63 - 1
_REPLICA: Final = re.compile("0*([0-9]{1,10}):0*([0-9]{1,10})")
"""A throttled replica. The setting's validator accepts any number of digits, as in Kafka; Python converts at most 4,300."""


class _Sample:
    """The bytes of throttled partitions that were replicated in one window of the quota."""

    __slots__ = ("began_ms", "last_ms", "size")

    def __init__(self, began_ms: int) -> None:
        self.began_ms = self.last_ms = began_ms
        self.size = 0


class Throttle:
    """The replication quota of one side, leader or follower. Times are in ms of a monotonic clock.

    The rate is averaged over `windows` windows of `window_ms` (replication.quota.window.num and .size.seconds).
    """

    def __init__(self, windows: int, window_ms: int) -> None:
        self.rate = NO_LIMIT
        """The quota in bytes per second; NO_LIMIT if none is set."""
        self._throttled_partitions: dict[str, frozenset[int] | None] = {}
        self._samples: deque[_Sample] = deque(maxlen=windows + 1)
        self._window_ms = window_ms
        self._span_ms = windows * window_ms

    def cover(self, topic: str, replicas: Collection[str], node: int) -> None:
        """Replace the set of the topic's replicas that the quota throttles (leader.replication.throttled.replicas or follower...).

        Each replica is `partition:broker`, or `*` for all. Replicas of other brokers than `node` are ignored, and numbers that are no ids;
        an empty list removes all.
        """
        if not replicas:
            self._throttled_partitions.pop(topic, None)
        elif "*" in replicas:
            self._throttled_partitions[topic] = None
        else:
            places = filter(None, map(_REPLICA.fullmatch, replicas))
            self._throttled_partitions[topic] = frozenset(int(place[1]) for place in places if int(place[2]) == node)

    def covers(self, topic: str, index: int) -> bool:
        """Return whether the replication quota applies to this partition, on this broker."""
        if topic not in self._throttled_partitions:
            return False
        indexes = self._throttled_partitions[topic]
        return indexes is None or index in indexes

    def record(self, size: int, now_ms: int) -> None:
        """Count `size` bytes of throttled partitions, which were replicated at `now_ms`."""
        if not self._samples or now_ms - self._samples[-1].began_ms >= self._window_ms:
            self._samples.append(_Sample(now_ms))
        self._samples[-1].size += size
        self._samples[-1].last_ms = now_ms

    def is_exceeded(self, now_ms: int) -> bool:
        """Return whether the average rate over the quota's windows is above its limit."""
        samples = self._samples
        while samples and now_ms - samples[0].last_ms >= self._span_ms:
            samples.popleft()
        if not samples:
            return False
        elapsed_ms = max(now_ms - samples[0].began_ms, self._window_ms)
        return sum(sample.size for sample in samples) * 1_000 > self.rate * elapsed_ms


class Throttles(NamedTuple):
    """This broker's replication quotas: for data sent as leader, and for data fetched as follower."""

    leader: Throttle
    follower: Throttle
