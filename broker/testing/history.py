"""Records what clients do: the batches that producers send, with their results, and the batches that consumers receive.

Rules:
- Only requests and their responses are recorded, in the order of the responses.
- Fetches of followers are not recorded: a follower may receive records that are lost with its leader.
- Of each record, the key and the value are stored. After `BYTES_MAX` bytes, no further records are stored, and `complete` is False, so that
  an incomplete history is not judged. Each batch counts with its size, or that of its keys and values if they are larger.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from ottla.broker.faults.engine import Exchange
from ottla.broker.faults.subject import TopicName
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.records.batch import BatchHeader, crc_ok, split_batches
from ottla.protocol.records.errors import RecordsError
from ottla.protocol.records.record import iter_records

BYTES_MAX: Final = 256 << 20
NO_REPLICA: Final = -1
"""The replica id in a consumer's Fetch request, as opposed to a follower's."""

KeyValue = tuple[bytes | None, bytes | None]


@dataclass(frozen=True, slots=True)
class Send:
    """One batch in one Produce request, with its result. `offset` is the base offset in the response, -1 after an error or without a
    response. `seen`: the client received the whole response. `faults` names the fault rules that hit the request."""

    at_ms: int
    connection: int
    client_id: str
    transactional_id: str | None
    topic: str
    partition: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    acks: int
    records: tuple[KeyValue, ...]
    error: ErrorCode
    offset: int
    seen: bool
    faults: tuple[str, ...]
    late: bool = False
    """Whether a fault rule was holding back the response, or an earlier one of the connection, when this object was recorded. Then it is
    unknown whether the client will receive the response, and `seen` is False."""
    number: int = 0
    """The number of the request in the order in which the broker handled requests. The list `History.sends` has another order, that of the
    responses."""

    @property
    def acked(self) -> bool:
        """Whether the client received a successful acknowledgement of this batch; False with acks=0."""
        return self.seen and self.error is ErrorCode.NONE and self.acks != 0


@dataclass(frozen=True, slots=True)
class Read:
    """The records of one partition in one Fetch response. `batches` has each batch's header and its records with their offsets, also
    records of aborted transactions if the broker returned them. `committed_only`: the consumer reads with read_committed."""

    at_ms: int
    connection: int
    client_id: str
    committed_only: bool
    topic: str
    partition: int
    batches: tuple[tuple[BatchHeader, tuple[tuple[int, KeyValue], ...]], ...]
    aborted: tuple[tuple[int, int], ...]
    """The aborted transactions that the response lists, each as (producer id, first offset)."""


@dataclass(frozen=True, slots=True)
class End:
    """One EndTxn request of a producer, with its result. `seen`: the client received the whole response. `faults` names the fault rules
    that hit the request."""

    at_ms: int
    connection: int
    client_id: str
    transactional_id: str
    producer_id: int
    producer_epoch: int
    commit: bool
    error: ErrorCode | None
    """The error code in the response; None if the broker never handled the request."""
    seen: bool
    faults: tuple[str, ...]


@dataclass(slots=True)
class History:
    """A record of what clients did: the batches sent (`sends`), the records read (`reads`) and the transactions ended (`ends`). `complete`
    is False after the limit on stored bytes was exceeded. Pass this object to `Faults.observe`, which then calls it for each request."""

    topic_name: TopicName
    sends: list[Send] = field(default_factory=list)
    reads: list[Read] = field(default_factory=list)
    ends: list[End] = field(default_factory=list)
    _held_bytes: int = 0

    def __call__(self, exchange: Exchange) -> None:
        """Record what one request did if it is a Produce, a Fetch of a consumer, or an EndTxn; ignore all other requests."""
        if exchange.subject.api is ApiKey.PRODUCE:
            self._take_sends(exchange)
        elif exchange.subject.api is ApiKey.FETCH and exchange.response is not None and exchange.seen and not _of_replica(exchange.request):
            self._take_reads(exchange)
        elif exchange.subject.api is ApiKey.END_TXN:
            self._take_end(exchange)

    @property
    def complete(self) -> bool:
        """Whether everything was recorded; False once keys and values took more than `BYTES_MAX` bytes."""
        return self._held_bytes <= BYTES_MAX

    def length(self) -> tuple[int, int, int, int]:
        """Return the numbers of sends, reads and transaction ends recorded so far, and the bytes that they count for. `cut` takes this
        value to return to this point."""
        return len(self.sends), len(self.reads), len(self.ends), self._held_bytes

    def cut(self, length: tuple[int, int, int, int]) -> None:
        """Remove everything that was recorded after the call of `length` that returned `length`."""
        sends, reads, ends, self._held_bytes = length
        del self.sends[sends:], self.reads[reads:], self.ends[ends:]

    def _take_sends(self, exchange: Exchange) -> None:
        answers = _answers(exchange.response, "responses", "partition_responses", self.topic_name)
        for topic in exchange.request.topic_data:
            name = topic.name or self.topic_name(topic.topic_id) or ""
            for data in topic.partition_data:
                answer = answers.get((name, data.index))
                for header, records in self._opened(data.records):
                    self.sends.append(
                        Send(
                            exchange.at_ms,
                            exchange.subject.connection,
                            exchange.subject.client_id,
                            exchange.request.transactional_id,
                            name,
                            data.index,
                            header.producer_id,
                            header.producer_epoch,
                            header.base_sequence,
                            exchange.request.acks,
                            tuple(record for _, record in records),
                            ErrorCode.NONE if answer is None else ErrorCode(answer.error_code),
                            -1 if answer is None else answer.base_offset,
                            exchange.seen,
                            exchange.faults,
                            exchange.late,
                            exchange.number,
                        )
                    )

    def _take_reads(self, exchange: Exchange) -> None:
        for (topic, partition), answer in _answers(exchange.response, "responses", "partitions", self.topic_name).items():
            batches = tuple(self._opened(answer.records))
            if batches:
                aborted = tuple((each.producer_id, each.first_offset) for each in answer.aborted_transactions or ())
                self.reads.append(
                    Read(
                        exchange.at_ms,
                        exchange.subject.connection,
                        exchange.subject.client_id,
                        exchange.request.isolation_level == 1,
                        topic,
                        partition,
                        batches,
                        aborted,
                    )
                )

    def _take_end(self, exchange: Exchange) -> None:
        request, response = exchange.request, exchange.response
        self.ends.append(
            End(
                exchange.at_ms,
                exchange.subject.connection,
                exchange.subject.client_id,
                request.transactional_id,
                request.producer_id,
                request.producer_epoch,
                request.committed,
                None if response is None else ErrorCode(response.error_code),
                exchange.seen,
                exchange.faults,
            )
        )

    def _opened(self, records: Any) -> Iterator[tuple[BatchHeader, tuple[tuple[int, KeyValue], ...]]]:
        """Decode `records`, the bytes of a Produce request or Fetch response. Yield the header of each complete batch, and its records with
        their offsets, up to the first batch that cannot be decoded. A control batch is yielded without records."""
        if not records or not self.complete:
            return
        data = bytes(records)
        try:
            for position, header in split_batches(data):
                batch = data[position : position + header.size_bytes]
                if not crc_ok(batch, header):
                    return
                opened = () if header.is_control else iter_records(batch)
                found = tuple((header.base_offset + each.offset_delta, (_copy(each.key), _copy(each.value))) for each in opened)
                opened_bytes = sum(len(key or b"") + len(value or b"") for _, (key, value) in found)
                self._held_bytes += max(len(batch), opened_bytes)  # a compressed batch may expand a thousandfold
                if self._held_bytes > BYTES_MAX:
                    return
                yield header, found
        except RecordsError:
            return


def _of_replica(request: Any) -> bool:
    asks: int = max(request.replica_id, request.replica_state.replica_id)
    return asks != NO_REPLICA  # depending on the version, one of the two is set


def _answers(response: Any, topics: str, partitions: str, topic_name: TopicName) -> dict[tuple[str, int], Any]:
    found: dict[tuple[str, int], Any] = {}
    for topic in () if response is None else getattr(response, topics):
        name = getattr(topic, "name", "") or getattr(topic, "topic", "") or topic_name(topic.topic_id) or ""
        for answer in getattr(topic, partitions):
            found[name, getattr(answer, "index", getattr(answer, "partition_index", -1))] = answer
    return found


def _copy(value: Any) -> bytes | None:
    return None if value is None else bytes(value)
