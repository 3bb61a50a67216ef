"""The requests view: what clients requested, how they were answered, and which faults were injected.

Rules inside:
- The newest `KEPT` requests are kept, without their records.
- Frequent requests without a result (an empty Fetch, a successful heartbeat, a follower's Fetch) are only counted, unless a fault was
  injected.
- A produce request counts as a recognised duplicate if an earlier request of the same producer with the same sequence was answered with the
  same base offset.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass, field
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field

from ottla.broker.app import Broker
from ottla.broker.faults.engine import Exchange, Faults
from ottla.broker.faults.exchange_text import PLACES_MAX, TEXT_CHARS, errors_in, joined, subject_text
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.records.batch import BatchHeader, split_batches
from ottla.protocol.records.errors import RecordsError

KEPT: Final = 1000
WRITES_REMEMBERED: Final = 20_000
"""The maximum number of batches whose base offsets are stored, to recognise a retry by its base offset."""
WRITERS_REMEMBERED: Final = 2_000
DUPLICATES_SHOWN: Final = 5
ROWS_MAX: Final = 500
_QUIET: Final = frozenset({ApiKey.FETCH, ApiKey.HEARTBEAT, ApiKey.CONSUMER_GROUP_HEARTBEAT})


class RequestRow(BaseModel):
    """One client request and its result, as the console's requests view shows them."""

    number: int = Field(description="counts requests in the order in which they were handled")
    at_ms: int = Field(description="the broker's time when it answered")
    api: str
    version: int
    client_id: str
    connection: int
    what: str
    error: str = Field(description="names of the errors in the response; empty if there is none")
    answered: bool = Field(description="whether there was a response to send")
    seen: bool = Field(description="whether the response was sent whole and at once")
    late: bool = Field(description="whether the response is held back")
    faults: list[str]
    absorbed: bool = Field(description="whether it was recognised as a duplicate of a batch that is already in the log")


class RequestRows(BaseModel):
    """The newest requests, newest first, and how many requests were only counted."""

    requests: list[RequestRow]
    quiet: int


class DuplicateView(BaseModel):
    """A retry that was recognised as a duplicate and answered with the offset of the first write."""

    at_ms: int
    client_id: str
    base_sequence: int
    offset: int


@dataclass(slots=True)
class Duplicates:
    """The retries of one producer in one partition that the broker recognised as duplicates: their number, and the newest of them."""

    count: int = 0
    newest: deque[DuplicateView] = field(default_factory=lambda: deque(maxlen=DUPLICATES_SHOWN))


class RequestLog:
    """Records every request and its result, for the requests view; pass this object to `Faults.observe`."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.rows: deque[RequestRow] = deque(maxlen=KEPT)
        self.quiet = 0
        self._answered: OrderedDict[tuple[str, int, int, int, int], int] = OrderedDict()
        self._duplicates: OrderedDict[tuple[str, int, int], Duplicates] = OrderedDict()

    def duplicates_of(self, topic: str, partition: int, producer_id: int) -> Duplicates:
        """Return the retries of this producer in this partition that were recognised as duplicates since the console was turned on."""
        return self._duplicates.get((topic, partition, producer_id)) or Duplicates()

    def __call__(self, exchange: Exchange) -> None:
        """Record a request and its result as a row; requests of frequent APIs without a result, such as an empty Fetch, are only
        counted."""
        errors = list(dict.fromkeys(errors_in(exchange.response)))
        if exchange.subject.api in _QUIET and not errors and not exchange.faults and exchange.seen and not _gives_records(exchange):
            self.quiet += 1
            return
        what, absorbed = self._of_produce(exchange) if exchange.subject.api is ApiKey.PRODUCE else (subject_text(exchange), False)
        self.rows.append(
            RequestRow(
                number=exchange.number,
                at_ms=exchange.at_ms,
                api=exchange.subject.api.camel_case,
                version=exchange.version,
                client_id=exchange.subject.client_id[:TEXT_CHARS],
                connection=exchange.subject.connection,
                what=what,
                error=", ".join(errors[:PLACES_MAX]),
                answered=exchange.response is not None,
                seen=exchange.seen,
                late=exchange.late,
                faults=list(exchange.faults),
                absorbed=absorbed,
            )
        )

    def _of_produce(self, exchange: Exchange) -> tuple[str, bool]:
        answers = _produce_answers(exchange.response)
        texts, absorbed = [], False
        for position, topic in enumerate(exchange.request.topic_data):
            name = topic.name or self._name(topic.topic_id)
            for place, data in enumerate(topic.partition_data):
                header, answer = _first_batch(data.records), answers.get((position, place))
                again = header is not None and answer is not None and self._is_retry(exchange, name, data.index, header, answer)
                absorbed = absorbed or again
                texts.append(_described(f"{name}-{data.index}", header, answer, again=again))
        return joined(texts, exchange.request.transactional_id), absorbed

    def _is_retry(self, exchange: Exchange, topic: str, partition: int, header: BatchHeader, answer: Any) -> bool:
        if header.producer_id < 0 or answer.error_code != ErrorCode.NONE or answer.base_offset < 0:
            return False
        key = (topic, partition, header.producer_id, header.producer_epoch, header.base_sequence)
        known = self._answered.get(key)
        _remember(self._answered, key, answer.base_offset, WRITES_REMEMBERED)
        if known != answer.base_offset:
            return False
        writer = (topic, partition, header.producer_id)
        duplicates = self._duplicates.get(writer) or Duplicates()
        _remember(self._duplicates, writer, duplicates, WRITERS_REMEMBERED)
        duplicates.count += 1
        client_id = exchange.subject.client_id[:TEXT_CHARS]
        duplicates.newest.appendleft(
            DuplicateView(at_ms=exchange.at_ms, client_id=client_id, base_sequence=header.base_sequence, offset=answer.base_offset)
        )
        return True

    def _name(self, topic_id: bytes) -> str:
        found = self._broker.services.partitions.by_topic_id(topic_id)
        return topic_id.hex() if found is None else found.name


def requests_router(log: RequestLog) -> APIRouter:
    """Return the HTTP routes of the console's requests view of one broker."""
    router = APIRouter()

    @router.get("/requests")
    async def requests(limit: Annotated[int, Query(ge=1, le=ROWS_MAX)] = 100) -> RequestRows:
        """Requests and their results since the console was turned on."""
        return RequestRows(requests=list(log.rows)[: -limit - 1 : -1], quiet=log.quiet)

    return router


def watch(broker: Broker, faults: Faults) -> RequestLog:
    """Start a request log that records every request from now on."""
    log = RequestLog(broker)
    faults.observe(log)
    return log


def _remember(table: OrderedDict[Any, Any], key: Any, value: Any, max_entries: int) -> None:
    table[key] = value
    table.move_to_end(key)
    if len(table) > max_entries:
        table.popitem(last=False)


def _first_batch(records: Any) -> BatchHeader | None:
    try:
        return next((header for _, header in split_batches(records)), None) if records else None
    except RecordsError:
        return None


def _produce_answers(response: Any) -> dict[tuple[int, int], Any]:
    """Return the results of the partitions in a Produce response, by (index of the topic, index of the partition) in the request. The
    response has the same order as the request."""
    topics = () if response is None else response.responses
    return {(position, place): answer for position, topic in enumerate(topics) for place, answer in enumerate(topic.partition_responses)}


def _described(place: str, header: BatchHeader | None, answer: Any, *, again: bool) -> str:
    if header is None:
        return place
    count = header.record_count
    text = f"{place}: {count} record{'' if count == 1 else 's'}"
    if header.producer_id >= 0:
        text += f" of producer {header.producer_id} epoch {header.producer_epoch} sequence {header.base_sequence}"
    if answer is not None and answer.error_code == ErrorCode.NONE and answer.base_offset >= 0:
        text += f" at offset {answer.base_offset}{' already' if again else ''}"
    return text


def _gives_records(exchange: Exchange) -> bool:
    if exchange.subject.api is not ApiKey.FETCH or max(exchange.request.replica_id, exchange.request.replica_state.replica_id) >= 0:
        return False
    return any(part.records for topic in exchange.response.responses for part in topic.partitions)
