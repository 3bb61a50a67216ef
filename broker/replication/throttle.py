"""How many bytes a second the replication of some partitions may take, so that a reassignment leaves room for clients.

Only who is out of sync is held back: what clients wait for never is. The limit is soft: what goes over it is made up for by a pause.

Source: KAFKA ReplicationQuotaManager, SimpleRate, TopicConfigHandler.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from typing import Final, NamedTuple

NO_LIMIT: Final = 2**63 - 1


class _Sample:
    """What was replicated in one window."""

    __slots__ = ("began_ms", "last_ms", "size")

    def __init__(self, began_ms: int) -> None:
        self.began_ms = self.last_ms = began_ms
        self.size = 0


class Throttle:
    """Of one side, leading or following. Times are in ms of a clock that never goes back.

    The rate is measured over `windows` of `window_ms`: replication.quota.window.num and .size.seconds.
    """

    def __init__(self, windows: int, window_ms: int) -> None:
        self.rate = NO_LIMIT
        """Bytes a second."""
        self._covered: dict[str, frozenset[int] | None] = {}
        self._samples: deque[_Sample] = deque(maxlen=windows + 1)
        self._window_ms = window_ms
        self._span_ms = windows * window_ms

    def cover(self, topic: str, replicas: Collection[str], node: int) -> None:
        """Of the topic these replicas from now on, each `partition:broker`; `*` is all of them. Those of other brokers do not matter."""
        if not replicas:
            self._covered.pop(topic, None)
        elif "*" in replicas:
            self._covered[topic] = None
        else:
            places = (replica.split(":") for replica in replicas)
            self._covered[topic] = frozenset(int(index) for index, broker in places if int(broker) == node)

    def covers(self, topic: str, index: int) -> bool:
        """Whether it counts for this partition."""
        if topic not in self._covered:
            return False
        indexes = self._covered[topic]
        return indexes is None or index in indexes

    def record(self, size: int, now_ms: int) -> None:
        """So many bytes of covered partitions were replicated."""
        if not self._samples or now_ms - self._samples[-1].began_ms >= self._window_ms:
            self._samples.append(_Sample(now_ms))
        self._samples[-1].size += size
        self._samples[-1].last_ms = now_ms

    def is_exceeded(self, now_ms: int) -> bool:
        """Whether there were more than the rate allows, on average over the windows."""
        samples = self._samples
        while samples and now_ms - samples[0].last_ms >= self._span_ms:
            samples.popleft()
        if not samples:
            return False
        elapsed_ms = max(now_ms - samples[0].began_ms, self._window_ms)
        return sum(sample.size for sample in samples) * 1_000 > self.rate * elapsed_ms


class Throttles(NamedTuple):
    """What this broker sends as a leader, and what it fetches as a follower."""

    leader: Throttle
    follower: Throttle
