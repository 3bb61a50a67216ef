"""Counts a program's requests, so that the verification knows which faults apply and where the middle of the work is.

It runs on the loops of all brokers and only counts; the verification's thread reads the counters.
"""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any, Final

from ottla.broker.faults.engine import Exchange
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.error_codes import ErrorCode

VERIFIER_CLIENT = "ottla-verify"
"""The client id of the verification's own requests."""


ACKS_ALL: Final = -1


@dataclass(frozen=True, slots=True)
class Ended:
    """One EndTxn: its version, decision and result; `error` is None if it was never handled."""

    version: int
    committed: bool
    error: ErrorCode | None
    faults: tuple[str, ...]


@dataclass(slots=True)
class RequestObserver:
    """An observer for `Faults.observe`, which counts the program's requests."""

    calls: Counter[ApiKey] = field(default_factory=Counter)
    """Requests by API while there was work to do; Fetch only if it returned records."""
    work_is_done: bool = False
    """Set by the run: later requests (a last offset commit, for instance) are not counted as work."""
    ends: list[Ended] = field(default_factory=list)
    transactional_ids: set[str] = field(default_factory=set)
    groups: set[str] = field(default_factory=set)
    transaction_timeout_ms: int = 0
    session_timeout_ms: int = 0
    idempotent: bool = False
    acks: set[int] = field(default_factory=set)
    """Values of acks in Produce requests."""
    refusals: Counter[ErrorCode] = field(default_factory=Counter)
    """Produce requests by the errors in their responses."""
    producer_ids: defaultdict[str, set[int]] = field(default_factory=lambda: defaultdict(set))
    """The producer ids that each transactional id was assigned."""
    others: frozenset[str] = frozenset({VERIFIER_CLIENT})
    """Client ids other than the program's, which are ignored."""
    _counting: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def __call__(self, exchange: Exchange) -> None:
        """Count one exchange."""
        subject = exchange.subject
        if subject.client_id in self.others or (subject.api is ApiKey.FETCH and not _brought_records(exchange.response)):
            return
        with self._counting:
            self._count(exchange)

    def _count(self, exchange: Exchange) -> None:
        subject, request = exchange.subject, exchange.request
        self.calls[subject.api] += not self.work_is_done
        self.groups |= subject.groups
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
        elif subject.api is ApiKey.JOIN_GROUP:
            self.session_timeout_ms = max(self.session_timeout_ms, request.session_timeout_ms)

    def _take_producer_id(self, transactional_id: str | None, response: Any) -> None:
        if transactional_id is not None and response is not None and response.producer_id >= 0:
            self.producer_ids[transactional_id].add(response.producer_id)

    @property
    def end_version(self) -> int:
        """The highest version of EndTxn that the program used; -1 without transactions."""
        return max((each.version for each in self.ends), default=-1)

    @property
    def waits_for_all(self) -> bool:
        """Whether the program uses acks=all, so that an acknowledgement means that the whole ISR has the records."""
        return self.acks <= {ACKS_ALL}


def _brought_records(response: Any) -> bool:
    return response is not None and any(part.records for topic in response.responses for part in topic.partitions)


def _errors(response: Any) -> set[ErrorCode]:
    """Return the errors in a Produce response; none with acks=0, which has no response."""
    parts = () if response is None else (part for topic in response.responses for part in topic.partition_responses)
    return {ErrorCode.of(part.error_code) for part in parts if part.error_code}
