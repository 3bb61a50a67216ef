"""Counts the requests of the program under test. From these counts, `ottla verify` knows which faults can affect the program, and after how
many requests a fault hits it in the middle of its work.

The observer runs on the event loops of all brokers and only counts; the main thread of `ottla verify` reads the counters.
"""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from ottla.broker.faults.engine import Exchange
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.uuids import encode_uuid

VERIFIER_CLIENT = "ottla-verify"
"""The client id of the requests that `ottla verify` sends itself, as opposed to the program under test."""


_JOINS: Final = frozenset(
    {
        ApiKey.JOIN_GROUP,
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        ApiKey.SHARE_GROUP_HEARTBEAT,
        ApiKey.OFFSET_COMMIT,
        ApiKey.TXN_OFFSET_COMMIT,
    }
)
ACKS_ALL: Final = -1
ACCEPT: Final = 1
"""The acknowledgement type by which a share group member accepts a record."""
ShareRecord = tuple[str, str, int, int]
"""A record of a share group: group, topic id, partition, offset."""


@dataclass(frozen=True, slots=True)
class Ended:
    """One EndTxn request of the program under test: its version, and whether it asked to commit. `error` is the result, None if the broker
    never handled the request. `faults` names the fault rules that hit the request."""

    version: int
    committed: bool
    error: ErrorCode | None
    faults: tuple[str, ...]


@dataclass(slots=True)
class RequestObserver:
    """Counts the requests of the program under test, and collects the groups, transactional ids and producer ids in them. `Faults.observe`
    registers this object with a broker or gateway."""

    calls: Counter[ApiKey] = field(default_factory=Counter)
    """The number of requests by API, until `work_is_done` is set. Fetch requests count only if the response has records."""
    work_is_done: bool = False
    """True when the program under test has read its input or has ended. Later requests, such as a last offset commit, are not counted in
    `calls`."""
    ends: list[Ended] = field(default_factory=list)
    transactional_ids: set[str] = field(default_factory=set)
    groups: set[str] = field(default_factory=set)
    joined: dict[str, ApiKey] = field(default_factory=dict)
    """Maps each group that the program joined, or for which it committed offsets, to the API of the program's first such request."""
    transaction_timeout_ms: int = 0
    session_timeout_ms: int = 0
    idempotent: bool = False
    acks: set[int] = field(default_factory=set)
    """The values of the field `acks` in the program's Produce requests (-1 is acks=all)."""
    refusals: Counter[ErrorCode] = field(default_factory=Counter)
    """For each error code: the number of Produce responses with that error."""
    producer_ids: defaultdict[str, set[int]] = field(default_factory=lambda: defaultdict(set))
    """The producer ids that the coordinator assigned, by transactional id."""
    accepted: set[ShareRecord] = field(default_factory=set, repr=False)
    """The records that a member of a share group has accepted, if the broker confirmed the acknowledgement."""
    delivered_again: set[ShareRecord] = field(default_factory=set)
    """The records in `accepted` that the broker delivered to the share group again after it had confirmed the acceptance: this must never
    happen."""
    deliveries: dict[ShareRecord, int] = field(default_factory=dict, repr=False)
    """The last delivery count that the broker reported for each record of a share group."""
    other_client_ids: frozenset[str] = frozenset({VERIFIER_CLIENT})
    """Client ids of `ottla verify` itself and of brokers. Requests with these ids are ignored."""
    _counting: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def __call__(self, exchange: Exchange) -> None:
        """Count one request with its response. Requests of clients in `other_client_ids`, and Fetch requests whose response has no records,
        are ignored."""
        subject = exchange.subject
        if subject.client_id in self.other_client_ids or (subject.api is ApiKey.FETCH and not _has_records(exchange.response)):
            return
        with self._counting:
            self._count(exchange)

    def _count(self, exchange: Exchange) -> None:
        subject, request = exchange.subject, exchange.request
        self.calls[subject.api] += not self.work_is_done
        self.groups |= subject.groups
        if subject.api in _JOINS:
            self.joined |= dict.fromkeys(subject.groups - self.joined.keys(), subject.api)
        self.transactional_ids |= subject.transactional_ids
        if subject.api is ApiKey.END_TXN:
            error = None if exchange.response is None else ErrorCode(exchange.response.error_code)
            self.ends.append(Ended(exchange.version, request.committed, error, exchange.faults))
            self._take_producer_id(request.transactional_id, exchange.response)
        elif subject.api is ApiKey.PRODUCE:
            self.acks.add(request.acks)
            self.refusals.update(_errors(exchange.response))
        elif subject.api is ApiKey.INIT_PRODUCER_ID:
            self.idempotent = True
            self.transaction_timeout_ms = max(self.transaction_timeout_ms, request.transaction_timeout_ms)
            self._take_producer_id(request.transactional_id, exchange.response)
        elif subject.api in {ApiKey.SHARE_FETCH, ApiKey.SHARE_ACKNOWLEDGE}:
            self.accepted.update(_accepted(request, exchange.response))
            if subject.api is ApiKey.SHARE_FETCH:
                acquired = dict(_acquired(request, exchange.response))
                self.delivered_again |= self.accepted.intersection(acquired)
                self.deliveries |= acquired
        elif subject.api is ApiKey.JOIN_GROUP:
            self.session_timeout_ms = max(self.session_timeout_ms, request.session_timeout_ms)

    def _take_producer_id(self, transactional_id: str | None, response: Any) -> None:
        if transactional_id is not None and response is not None and response.producer_id >= 0:
            self.producer_ids[transactional_id].add(response.producer_id)

    @property
    def end_version(self) -> int:
        """The highest version of EndTxn that the program under test has used; -1 if it used no transactions."""
        return max((each.version for each in self.ends), default=-1)

    @property
    def uses_acks_all(self) -> bool:
        """Whether all of the program's Produce requests have acks=all, so that an acknowledgement means that the whole ISR has the
        records."""
        return self.acks <= {ACKS_ALL}


def _has_records(response: Any) -> bool:
    return response is not None and any(part.records for topic in response.responses for part in topic.partitions)


def _accepted(request: Any, response: Any) -> Iterator[ShareRecord]:
    """Yield the records that the member of a share group accepted in `request` (ShareFetch or ShareAcknowledge), if the broker confirmed
    this in `response`."""
    if response is None or response.error_code:
        return
    errors = {
        (topic.topic_id, part.partition_index): getattr(part, "acknowledge_error_code", part.error_code)
        for topic in response.responses
        for part in topic.partitions
    }
    for topic in request.topics:
        for part in topic.partitions:
            if errors.get((topic.topic_id, part.partition_index), 0):
                continue
            for batch in part.acknowledgement_batches:
                types = batch.acknowledge_types
                for offset in range(batch.first_offset, batch.last_offset + 1):
                    if types[offset - batch.first_offset if len(types) > 1 else 0] == ACCEPT:
                        yield request.group_id, encode_uuid(topic.topic_id), part.partition_index, offset


def _acquired(request: Any, response: Any) -> Iterator[tuple[ShareRecord, int]]:
    """Yield the records that `response`, the response to a ShareFetch request, delivers to a member, with their delivery counts."""
    for topic in () if response is None else response.responses:
        for part in topic.partitions:
            for batch in part.acquired_records:
                for offset in range(batch.first_offset, batch.last_offset + 1):
                    yield (request.group_id, encode_uuid(topic.topic_id), part.partition_index, offset), batch.delivery_count


def _errors(response: Any) -> set[ErrorCode]:
    """Return the errors in a Produce response; none with acks=0, which has no response."""
    parts = () if response is None else (part for topic in response.responses for part in topic.partition_responses)
    return {ErrorCode.of(part.error_code) for part in parts if part.error_code}
