"""What one fetcher asks of one leader: which partitions go into the next request, and what each of its answers means.

Rules:
* one request is under way at a time;
* a partition that gave records, or pauses, goes to the end of the order, so that none starves behind a bigger one;
* a failed partition is not asked for until it is followed again, in a newer epoch;
* a request costs what has moved: a partition from which nothing came, and that does not pause, is not looked at. What may be asked
  otherwise than before is in `_moved`; pauses end by `_pauses`, and those that a throttle may hold back are in `_behind`.

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

_SESSION_IS_GONE: Final = frozenset({ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH})


class FetchLimits(NamedTuple):
    """replica.fetch.wait.max.ms, .min.bytes, .response.max.bytes, .max.bytes, .backoff.ms, with Kafka's defaults."""

    wait_max_ms: int = 500
    min_bytes: int = 1
    response_max_bytes: int = 10 << 20
    partition_max_bytes: int = 1 << 20
    backoff_ms: int = BACKOFF_MS


class FetchStep(NamedTuple):
    """One partition's answer, and what is to be done with it."""

    key: PartitionKey
    data: PartitionData
    action: Action


class FetchPlan:
    """The partitions that broker `node` follows one leader in. Times are in ms of a clock that never goes back."""

    def __init__(
        self, node: int, brokers: Brokers, limits: FetchLimits | None = None, held_back: Callable[[PartitionKey], bool] | None = None
    ) -> None:
        """`held_back` says whether a partition is throttled now: unless it has all that is committed, it is left out of the request."""
        self._held_back = held_back
        self._node = node
        self._brokers = brokers
        self._limits = limits or FetchLimits()
        self._session = FollowerSession()
        self._followers: dict[PartitionKey, Follower] = {}
        self.failed: set[PartitionKey] = set()
        self._moved: dict[PartitionKey, None] = {}
        """In the order in which the next request names them."""
        self._uncut: dict[PartitionKey, None] = {}
        """Those that may be `truncating`."""
        self._behind: dict[PartitionKey, None] = {}
        """Those that may lack something that is committed; nothing with no throttle."""
        self._pauses: list[tuple[int, PartitionKey]] = []
        """A heap of the times at which pauses end; one that was begun anew in between is there twice."""

    def __getitem__(self, key: PartitionKey) -> Follower:
        """Raises KeyError for a partition that is not fetched here."""
        return self._followers[key]

    def __contains__(self, key: PartitionKey) -> bool:
        return key in self._followers

    # --- which partitions --------------------------------------------------------------------------------------------------------

    def follow(self, key: PartitionKey, log: FollowerLog, leader_epoch: int) -> None:
        """Fetch this partition from now on; one that is fetched in this epoch already goes on as it was."""
        self.failed.discard(key)
        present = self._followers.get(key)
        if present is None or present.leader_epoch != leader_epoch:
            follower = self._followers[key] = Follower(log, leader_epoch, self._limits.backoff_ms)
            self._looked_at(key, follower)
        self._move_to_end(key)

    def forget(self, key: PartitionKey) -> None:
        """Fetch it no more, and forget that it had failed."""
        self._drop(key)
        self.failed.discard(key)

    def fail(self, key: PartitionKey) -> None:
        """Fetch it no more until it is followed again."""
        if self._drop(key):
            self.failed.add(key)

    def moved(self, key: PartitionKey) -> None:
        """The partition's log begins elsewhere now: the next request says so."""
        if key in self._followers:
            self._moved[key] = None

    def _drop(self, key: PartitionKey) -> bool:
        self._uncut.pop(key, None)
        self._behind.pop(key, None)
        if self._followers.pop(key, None) is None:
            return False
        self._moved[key] = None
        return True

    def _looked_at(self, key: PartitionKey, follower: Follower) -> None:
        """Something has happened to it: note what has to be looked at from now on."""
        self._moved[key] = None
        if follower.truncating:
            self._uncut[key] = None
        else:
            self._uncut.pop(key, None)
        if self._held_back is None or follower.lag == 0:
            self._behind.pop(key, None)
        else:
            self._behind[key] = None

    # --- the next request --------------------------------------------------------------------------------------------------------

    def truncations(self, now_ms: int) -> list[tuple[PartitionKey, TruncateLog]]:
        """Logs to be cut before they are fetched for: those without any epoch, at their high watermark. Then call `truncated`."""
        waiting = [(key, self._followers[key]) for key in self._uncut]
        return [(key, TruncateLog(f.fetch_offset)) for key, f in waiting if f.truncating and not f.is_delayed(now_ms)]

    def next_request(self, now_ms: int) -> FetchRequest | None:
        """The next request, or None while there is nothing to ask."""
        limits, session = self._limits, self._session
        self._end_pauses(now_ms)
        looked_at = self._followers if session.names_all else dict.fromkeys([*self._moved, *self._behind])
        named, forgotten = session.next({key: self._asks(key, now_ms) for key in looked_at})
        self._moved.clear()
        if not session.asked and not forgotten:
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

    def _asks(self, key: PartitionKey, now_ms: int) -> FetchPartition | None:
        """What the next request says of the partition; None where it is not to be fetched now."""
        follower = self._followers.get(key)
        if follower is None or follower.delayed_until_ms > now_ms or follower.truncating:
            return None
        if key in self._behind and self._waits(key, follower):
            return None
        return follower.request(key[1], self._limits.partition_max_bytes)

    def _end_pauses(self, now_ms: int) -> None:
        pauses = self._pauses
        while pauses and pauses[0][0] <= now_ms:
            self._moved[heappop(pauses)[1]] = None

    def wakes_ms(self, now_ms: int) -> int | None:
        """When the first pause ends; None where nothing pauses."""
        pauses, followers = self._pauses, self._followers
        while pauses and not (pauses[0][1] in followers and followers[pauses[0][1]].delayed_until_ms == pauses[0][0]):
            self._moved[heappop(pauses)[1]] = None
        ends = [pauses[0][0]] if pauses else []
        if any(self._waits(key, followers[key]) for key in self._behind):
            ends.append(now_ms + self._limits.backoff_ms)
        return min(ends, default=None)

    def _waits(self, key: PartitionKey, follower: Follower) -> bool:
        """KAFKA RemoteLeaderEndPoint.shouldFollowerThrottle."""
        return self._held_back is not None and follower.lag != 0 and self._held_back(key)

    # --- its answer --------------------------------------------------------------------------------------------------------------

    def answered(self, response: FetchResponse, now_ms: int) -> list[FetchStep]:
        """What is to be done, partition by partition; afterwards `appended`, `truncated` or `fail` is to be called for it.

        A session that is gone is begun again at once, any other error of the whole request after a pause.
        """
        answers = {(topic.topic_id, data.partition_index): data for topic in response.responses for data in topic.partitions}
        if not self._session.answered(response.error_code, response.session_id, answers):
            if response.error_code and response.error_code not in _SESSION_IS_GONE:
                self._back_off_all(now_ms)
            return []
        steps = [FetchStep(key, data, self._answer(key, data, now_ms)) for key, data in answers.items()]
        return [step for step in steps if step.action is not FetchAction.NOTHING]

    def request_failed(self, now_ms: int) -> None:
        """There was no answer."""
        self._session.failed()
        self._back_off_all(now_ms)

    def offsets_answered(self, key: PartitionKey, sent: FetchPartition, leader_start: int, leader_end: int, now_ms: int) -> Action:
        """The leader has told where its log begins and ends. `sent` is what was asked when that became necessary (`asked`)."""
        follower = self._followers.get(key)
        if follower is None:
            return FetchAction.NOTHING
        self._move_to_end(key)
        action = follower.offsets_answered(sent, leader_start, leader_end, now_ms)
        self._looked_at(key, follower)
        return action

    def offsets_refused(self, key: PartitionKey, sent: FetchPartition, error: int, now_ms: int) -> FetchAction:
        """The leader would not tell where its log begins and ends."""
        follower = self._followers.get(key)
        action = FetchAction.NOTHING if follower is None else follower.refused(error, sent, now_ms)
        self._settle(key, action, now_ms)
        return action

    def asked(self, key: PartitionKey) -> FetchPartition:
        """What the last request asked of the partition. Raises KeyError if that was nothing."""
        return self._session.asked[key]

    def appended(self, key: PartitionKey, last_epoch: int | None, leader_high_watermark: int) -> None:
        """An `AppendFetched` was carried out; `last_epoch` as in `Follower.appended`."""
        follower = self._followers[key]
        if follower.appended(last_epoch, leader_high_watermark):
            self._move_to_end(key)
        self._looked_at(key, follower)

    def truncated(self, key: PartitionKey) -> None:
        """A `TruncateLog` or `RestartLog` was carried out."""
        follower = self._followers[key]
        follower.truncated()
        self._looked_at(key, follower)

    def back_off(self, key: PartitionKey, now_ms: int) -> None:
        """What the leader sent cannot be used now (a corrupt record): ask again after a pause."""
        self._pause(key, now_ms)
        self._move_to_end(key)

    def _answer(self, key: PartitionKey, data: PartitionData, now_ms: int) -> Action:
        follower = self._followers.get(key)
        action = FetchAction.NOTHING if follower is None else follower.answered(self._session.asked[key], data, now_ms)
        self._settle(key, action, now_ms)
        return action

    def _settle(self, key: PartitionKey, action: Action, now_ms: int) -> None:
        if action is FetchAction.FAIL:
            self.fail(key)
        elif action is FetchAction.BACK_OFF:
            self._pause(key, now_ms)
            self._move_to_end(key)

    def _pause(self, key: PartitionKey, now_ms: int) -> None:
        """Pause, unless it does so already, and note when that ends."""
        follower = self._followers[key]
        follower.back_off(now_ms)
        heappush(self._pauses, (follower.delayed_until_ms, key))
        self._moved[key] = None

    def _back_off_all(self, now_ms: int) -> None:
        for key in self._followers:
            self._pause(key, now_ms)

    def _move_to_end(self, key: PartitionKey) -> None:
        """In whole requests, and among those that the next request names."""
        self._followers[key] = self._followers.pop(key)
        self._moved.pop(key, None)
        self._moved[key] = None


def _by_topic(keys: Iterable[PartitionKey]) -> list[tuple[bytes, list[PartitionKey]]]:
    return [(topic, list(those)) for topic, those in groupby(keys, key=lambda key: key[0])]
