"""What a program asked of the broker, counted: by it the verification knows what to break, and where the middle of its work is.

Rule: it runs on the loops of all brokers and only counts; the verification's thread reads.
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
    """One EndTxn: its version, what it asked for and what came of it; `error` None where it was never handled."""

    version: int
    committed: bool
    error: ErrorCode | None
    faults: tuple[str, ...]


@dataclass(slots=True)
class RequestObserver:
    """Give it to `Faults.observe`."""

    calls: Counter[ApiKey] = field(default_factory=Counter)
    """Requests by API while there was work to do; Fetches only where they brought records."""
    work_is_done: bool = False
    """Set by the stage: what comes now (a last commit of offsets, say) is no part of the work, and not counted."""
    ends: list[Ended] = field(default_factory=list)
    transactional_ids: set[str] = field(default_factory=set)
    groups: set[str] = field(default_factory=set)
    transaction_timeout_ms: int = 0
    session_timeout_ms: int = 0
    idempotent: bool = False
    acks: set[int] = field(default_factory=set)
    """What it asked for in Produce requests."""
    refusals: Counter[ErrorCode] = field(default_factory=Counter)
    """Produce requests by the errors that they were answered."""
    producer_ids: defaultdict[str, set[int]] = field(default_factory=lambda: defaultdict(set))
    """The producer ids that each transactional id was given."""
    others: frozenset[str] = frozenset({VERIFIER_CLIENT})
    """The client ids of those who are not the program."""
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
        """The highest version of EndTxn that was used, -1 without transactions."""
        return max((each.version for each in self.ends), default=-1)

    @property
    def waits_for_all(self) -> bool:
        """Whether an acknowledgement tells it that all in-sync replicas have what it wrote: acks=all."""
        return self.acks <= {ACKS_ALL}


def _brought_records(response: Any) -> bool:
    return response is not None and any(part.records for topic in response.responses for part in topic.partitions)


def _errors(response: Any) -> set[ErrorCode]:
    """The errors of a Produce response, which acks=0 has not."""
    parts = () if response is None else (part for topic in response.responses for part in topic.partition_responses)
    return {ErrorCode.of(part.error_code) for part in parts if part.error_code}
