"""What one fetcher asks of one leader: which partitions go into the next request, and what each of its answers means.

Rules:
* one request is under way at a time;
* a partition that gave records, or pauses, goes to the end of the order, so that none starves behind a bigger one;
* a failed partition is not asked for until it is followed again, in a newer epoch.

Source: KAFKA AbstractFetcherThread, RemoteLeaderEndPoint.buildFetch, PartitionStates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
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
            self._followers[key] = Follower(log, leader_epoch, self._limits.backoff_ms)
        self._move_to_end(key)

    def forget(self, key: PartitionKey) -> None:
        """Fetch it no more, and forget that it had failed."""
        self._followers.pop(key, None)
        self.failed.discard(key)

    def fail(self, key: PartitionKey) -> None:
        """Fetch it no more until it is followed again."""
        if self._followers.pop(key, None) is not None:
            self.failed.add(key)

    # --- the next request --------------------------------------------------------------------------------------------------------

    def truncations(self, now_ms: int) -> list[tuple[PartitionKey, TruncateLog]]:
        """Logs to be cut before they are fetched for: those without any epoch, at their high watermark. Then call `truncated`."""
        waiting = self._followers.items()
        return [(key, TruncateLog(f.fetch_offset)) for key, f in waiting if f.truncating and not f.is_delayed(now_ms)]

    def next_request(self, now_ms: int) -> FetchRequest | None:
        """The next request, or None while there is nothing to ask."""
        limits, session = self._limits, self._session
        ready = {
            key: follower.request(key[1], limits.partition_max_bytes)
            for key, follower in self._followers.items()
            if follower.delayed_until_ms <= now_ms and not follower.truncating and not (self._held_back and self._waits(key, follower))
        }
        named, forgotten = session.next(ready)
        if not ready and not forgotten:
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

    def wakes_ms(self, now_ms: int) -> int | None:
        """When the first pause ends; None where nothing pauses."""
        ends = [f.delayed_until_ms for f in self._followers.values() if f.delayed_until_ms > now_ms]
        if any(self._waits(key, follower) for key, follower in self._followers.items()):
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
        return follower.offsets_answered(sent, leader_start, leader_end, now_ms)

    def offsets_refused(self, key: PartitionKey, sent: FetchPartition, error: int, now_ms: int) -> FetchAction:
        """The leader would not tell where its log begins and ends."""
        follower = self._followers.get(key)
        action = FetchAction.NOTHING if follower is None else follower.refused(error, sent, now_ms)
        self._settle(key, action)
        return action

    def asked(self, key: PartitionKey) -> FetchPartition:
        """What the last request asked of the partition. Raises KeyError if that was nothing."""
        return self._session.asked[key]

    def appended(self, key: PartitionKey, last_epoch: int | None, leader_high_watermark: int) -> None:
        """An `AppendFetched` was carried out; `last_epoch` as in `Follower.appended`."""
        if self._followers[key].appended(last_epoch, leader_high_watermark):
            self._move_to_end(key)

    def truncated(self, key: PartitionKey) -> None:
        """A `TruncateLog` or `RestartLog` was carried out."""
        self._followers[key].truncated()

    def back_off(self, key: PartitionKey, now_ms: int) -> None:
        """What the leader sent cannot be used now (a corrupt record): ask again after a pause."""
        self._followers[key].back_off(now_ms)
        self._move_to_end(key)

    def _answer(self, key: PartitionKey, data: PartitionData, now_ms: int) -> Action:
        follower = self._followers.get(key)
        action = FetchAction.NOTHING if follower is None else follower.answered(self._session.asked[key], data, now_ms)
        self._settle(key, action)
        return action

    def _settle(self, key: PartitionKey, action: Action) -> None:
        if action is FetchAction.FAIL:
            self.fail(key)
        elif action is FetchAction.BACK_OFF:
            self._move_to_end(key)

    def _back_off_all(self, now_ms: int) -> None:
        for follower in self._followers.values():
            follower.back_off(now_ms)

    def _move_to_end(self, key: PartitionKey) -> None:
        self._followers[key] = self._followers.pop(key)


def _by_topic(keys: Iterable[PartitionKey]) -> list[tuple[bytes, list[PartitionKey]]]:
    return [(topic, list(those)) for topic, those in groupby(keys, key=lambda key: key[0])]
