"""The fetch state of the partitions that a follower fetches from one leader over one connection: selects the partitions of the next Fetch
request and interprets each response.

Invariants:
* One request is in flight at a time.
* A partition that returned records, or is in back-off, moves to the end of the order, so that a larger partition starves no other.
* A failed partition is not fetched until `follow` is called for it again, in a newer leader epoch.
* The cost of a request is proportional to the number of partitions that changed. `_changed` holds the partitions whose fetch parameters may
  differ from the last request, `_pauses` the ends of back-offs, and `_lagging` the partitions that a replication throttle may hold back.
  Other partitions are not visited.

Source: KAFKA AbstractFetcherThread, RemoteLeaderEndPoint.buildFetch, PartitionStates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import heappop, heappush
from itertools import groupby
from typing import Final, NamedTuple

from ottla.broker.replication.brokers import Brokers
from ottla.broker.replication.follower import BACKOFF_MS, Action, FetchAction, Follower, FollowerLog, TruncateLog
from ottla.broker.replication.follower_session import FollowerSession, PartitionKey
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k01_fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
    ReplicaState,
)

_SESSION_LOST: Final = frozenset({ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH})


class FetchLimits(NamedTuple):
    """The settings replica.fetch.wait.max.ms, .min.bytes, .response.max.bytes, .max.bytes and .backoff.ms, with Kafka's defaults."""

    wait_max_ms: int = 500
    min_bytes: int = 1
    response_max_bytes: int = 10 << 20
    partition_max_bytes: int = 1 << 20
    backoff_ms: int = BACKOFF_MS


class FetchStep(NamedTuple):
    """One partition of a Fetch response, with the action that the follower has to take."""

    key: PartitionKey
    data: PartitionData
    action: Action


class FetchPlan:
    """The partitions that broker `node` fetches from one leader, with their fetch states and the fetch session. Times are in ms of a
    monotonic clock.
    """

    def __init__(
        self, node: int, brokers: Brokers, limits: FetchLimits | None = None, throttled: Callable[[PartitionKey], bool] | None = None
    ) -> None:
        """Create a plan without partitions.

        `throttled` returns whether a partition is throttled now. A throttled partition that lags behind its leader is left out of the
        request.
        """
        self._throttled = throttled
        self._node = node
        self._brokers = brokers
        self._limits = limits or FetchLimits()
        self._session = FollowerSession()
        self._followers: dict[PartitionKey, Follower] = {}
        self.failed: set[PartitionKey] = set()
        self._changed: dict[PartitionKey, None] = {}
        """Partitions whose fetch parameters may have changed, in the order in which the next request lists them."""
        self._truncating: dict[PartitionKey, None] = {}
        """Partitions whose logs may have to be truncated before they can be fetched (`Follower.truncating`)."""
        self._lagging: dict[PartitionKey, None] = {}
        """Partitions that may lag behind their leader's high watermark. Always empty without a replication throttle."""
        self._pauses: list[tuple[int, PartitionKey]] = []
        """A heap of the times at which back-offs end. A partition whose back-off was renewed has a stale entry as well."""

    def __getitem__(self, key: PartitionKey) -> Follower:
        """Return the partition's fetch state. Raises KeyError for a partition that this plan does not fetch."""
        return self._followers[key]

    def __contains__(self, key: PartitionKey) -> bool:
        return key in self._followers

    # --- partitions to fetch -----------------------------------------------------------------------------------------------------

    def follow(self, key: PartitionKey, log: FollowerLog, leader_epoch: int) -> None:
        """Start to fetch this partition. A partition that is already fetched in this leader epoch keeps its fetch state (offset and
        back-off)."""
        self.failed.discard(key)
        present = self._followers.get(key)
        if present is None or present.leader_epoch != leader_epoch:
            follower = self._followers[key] = Follower(log, leader_epoch, self._limits.backoff_ms)
            self._fetch_state_changed(key, follower)
        self._move_to_end(key)

    def forget(self, key: PartitionKey) -> None:
        """Stop fetching the partition. If it was recorded as failed, remove that record."""
        self._drop(key)
        self.failed.discard(key)

    def fail(self, key: PartitionKey) -> None:
        """Stop fetching the partition until `follow` is called for it again."""
        if self._drop(key):
            self.failed.add(key)

    def log_start_changed(self, key: PartitionKey) -> None:
        """Record that the partition's log start offset has changed, so that the next request carries it."""
        if key in self._followers:
            self._changed[key] = None

    def _drop(self, key: PartitionKey) -> bool:
        self._truncating.pop(key, None)
        self._lagging.pop(key, None)
        if self._followers.pop(key, None) is None:
            return False
        self._changed[key] = None
        return True

    def _fetch_state_changed(self, key: PartitionKey, follower: Follower) -> None:
        """Update the sets of partitions that the next request is built from, after the partition's fetch state has changed."""
        self._changed[key] = None
        if follower.truncating:
            self._truncating[key] = None
        else:
            self._truncating.pop(key, None)
        if self._throttled is None or follower.lag == 0:
            self._lagging.pop(key, None)
        else:
            self._lagging[key] = None

    # --- the next request --------------------------------------------------------------------------------------------------------

    def truncations(self, now_ms: int) -> list[tuple[PartitionKey, TruncateLog]]:
        """Return the partitions whose logs must be truncated before they can be fetched: logs without any leader epoch, each with the
        truncation at its high watermark.

        The caller truncates each log and then calls `truncated`.
        """
        waiting = [(key, self._followers[key]) for key in self._truncating]
        return [(key, TruncateLog(f.fetch_offset)) for key, f in waiting if f.truncating and not f.is_delayed(now_ms)]

    def next_request(self, now_ms: int) -> FetchRequest | None:
        """Build the next Fetch request. Returns None if the session has no partitions to fetch or to forget."""
        limits, session = self._limits, self._session
        self._end_pauses(now_ms)
        candidates = self._followers if session.is_full else dict.fromkeys([*self._changed, *self._lagging])
        named, forgotten = session.next({key: self._request_entry(key, now_ms) for key in candidates})
        self._changed.clear()
        if not session.session_partitions and not forgotten:
            return None
        return FetchRequest(
            replica_state=ReplicaState(self._node, self._brokers.own_epoch),
            max_wait_ms=limits.wait_max_ms,
            min_bytes=limits.min_bytes,
            max_bytes=limits.response_max_bytes,
            session_id=session.session_id,
            session_epoch=session.epoch,
            topics=[FetchTopic("", topic, [named[key] for key in keys]) for topic, keys in _by_topic(named)],
            forgotten_topics_data=[ForgottenTopic("", topic, [index for _, index in keys]) for topic, keys in _by_topic(forgotten)],
        )

    def _request_entry(self, key: PartitionKey, now_ms: int) -> FetchPartition | None:
        """Return the partition's entry in the next request, or None if the partition must not be fetched now."""
        follower = self._followers.get(key)
        if follower is None or follower.delayed_until_ms > now_ms or follower.truncating:
            return None
        if key in self._lagging and self._is_throttled(key, follower):
            return None
        return follower.request(key[1], self._limits.partition_max_bytes)

    def _end_pauses(self, now_ms: int) -> None:
        pauses = self._pauses
        while pauses and pauses[0][0] <= now_ms:
            self._changed[heappop(pauses)[1]] = None

    def wakes_ms(self, now_ms: int) -> int | None:
        """Return the monotonic time (ms) at which the first back-off or throttle pause ends, or None if no partition pauses."""
        pauses, followers = self._pauses, self._followers
        while pauses and not (pauses[0][1] in followers and followers[pauses[0][1]].delayed_until_ms == pauses[0][0]):
            self._changed[heappop(pauses)[1]] = None
        ends = [pauses[0][0]] if pauses else []
        if any(self._is_throttled(key, followers[key]) for key in self._lagging):
            ends.append(now_ms + self._limits.backoff_ms)
        return min(ends, default=None)

    def _is_throttled(self, key: PartitionKey, follower: Follower) -> bool:
        """Return whether the replication throttle holds the partition back now (KAFKA RemoteLeaderEndPoint.shouldFollowerThrottle)."""
        return self._throttled is not None and follower.lag != 0 and self._throttled(key)

    # --- responses ---------------------------------------------------------------------------------------------------------------

    def handle_response(self, response: FetchResponse, now_ms: int) -> list[FetchStep]:
        """Return the steps that a Fetch response requires, at most one per partition. The caller carries out each step, then calls
        `appended`, `truncated` or `fail` for its partition.

        If the leader no longer has the fetch session, the next request starts a new one at once. Any other top-level error backs off all
        partitions.
        """
        answers = {(topic.topic_id, data.partition_index): data for topic in response.responses for data in topic.partitions}
        if not self._session.handle_response(response.error_code, response.session_id, answers):
            if response.error_code and response.error_code not in _SESSION_LOST:
                self._back_off_all(now_ms)
            return []
        steps = [FetchStep(key, data, self._answer(key, data, now_ms)) for key, data in answers.items()]
        return [step for step in steps if step.action is not FetchAction.NOTHING]

    def request_failed(self, now_ms: int) -> None:
        """Handle a request without a response: end the session and back off all partitions."""
        self._session.failed()
        self._back_off_all(now_ms)

    def handle_offsets(self, key: PartitionKey, sent: FetchPartition, leader_start: int, leader_end: int, now_ms: int) -> Action:
        """Return the action that the leader's log start and end offsets require, which the follower requested after OFFSET_OUT_OF_RANGE.

        `sent` is the partition's entry (`session_partition`) in the Fetch request that failed.
        """
        follower = self._followers.get(key)
        if follower is None:
            return FetchAction.NOTHING
        self._move_to_end(key)
        action = follower.handle_offsets(sent, leader_start, leader_end, now_ms)
        self._fetch_state_changed(key, follower)
        return action

    def handle_offsets_error(self, key: PartitionKey, sent: FetchPartition, error: int, now_ms: int) -> FetchAction:
        """Return the action that the error code `error` requires, with which the leader rejected the request for its log start and end
        offsets. `sent` is the partition's entry in the Fetch request that had failed with OFFSET_OUT_OF_RANGE."""
        follower = self._followers.get(key)
        action = FetchAction.NOTHING if follower is None else follower.refused(error, sent, now_ms)
        self._settle(key, action, now_ms)
        return action

    def session_partition(self, key: PartitionKey) -> FetchPartition:
        """Return the partition's entry in the fetch session as last sent. Raises KeyError if the session does not contain the partition."""
        return self._session.session_partitions[key]

    def appended(self, key: PartitionKey, last_epoch: int | None, leader_high_watermark: int) -> None:
        """Update the partition's fetch state after the caller has appended fetched records (the action `AppendFetched`). `last_epoch` is
        the leader epoch of the last appended batch, None if nothing was appended. `leader_high_watermark` is the one in the response."""
        follower = self._followers[key]
        if follower.appended(last_epoch, leader_high_watermark):
            self._move_to_end(key)
        self._fetch_state_changed(key, follower)

    def truncated(self, key: PartitionKey) -> None:
        """Update the partition's fetch state after the caller has truncated or emptied the log (the actions `TruncateLog` and
        `RestartLog`)."""
        follower = self._followers[key]
        follower.truncated()
        self._fetch_state_changed(key, follower)

    def back_off(self, key: PartitionKey, now_ms: int) -> None:
        """Fetch the partition again after a back-off, because the records in the response are unusable (for instance corrupt)."""
        self._pause(key, now_ms)
        self._move_to_end(key)

    def _answer(self, key: PartitionKey, data: PartitionData, now_ms: int) -> Action:
        follower = self._followers.get(key)
        action = FetchAction.NOTHING if follower is None else follower.handle_response(self._session.session_partitions[key], data, now_ms)
        self._settle(key, action, now_ms)
        return action

    def _settle(self, key: PartitionKey, action: Action, now_ms: int) -> None:
        if action is FetchAction.FAIL:
            self.fail(key)
        elif action is FetchAction.BACK_OFF:
            self._pause(key, now_ms)
            self._move_to_end(key)

    def _pause(self, key: PartitionKey, now_ms: int) -> None:
        """Start a back-off of the partition unless one is running, and schedule the end of the back-off."""
        follower = self._followers[key]
        follower.back_off(now_ms)
        heappush(self._pauses, (follower.delayed_until_ms, key))
        self._changed[key] = None

    def _back_off_all(self, now_ms: int) -> None:
        for key in self._followers:
            self._pause(key, now_ms)

    def _move_to_end(self, key: PartitionKey) -> None:
        """Move the partition to the end of the fetch order, in full requests as well as in incremental ones."""
        self._followers[key] = self._followers.pop(key)
        self._changed.pop(key, None)
        self._changed[key] = None


def _by_topic(keys: Iterable[PartitionKey]) -> list[tuple[bytes, list[PartitionKey]]]:
    return [(topic, list(those)) for topic, those in groupby(keys, key=lambda key: key[0])]
