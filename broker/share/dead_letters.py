"""Dead letters: the records that a broker writes to a share group's dead letter queue, a topic, for records that were rejected or delivered
too often (KIP-1191). No I/O.

Rules, as in Kafka 4.4.0's ShareGroupDLQStateManager and ShareGroupDLQRecordFetcher:
* Each rejected or undeliverable offset becomes one dead letter. Its headers say where it comes from and what the cause is; the record's own
  headers are not copied.
* With errors.deadletterqueue.copy.record.enable, a dead letter has the key and the value of its record, if the log still has it. Records
  larger than the queue topic's max.message.bytes are not copied, nor are those of a compressed batch that is larger when decompressed.
* A batch of several dead letters is at most as large as the queue topic's max.message.bytes. A single one may exceed it; the append to the
  queue topic then rejects it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from ottla.protocol.records.batch import HEADER_BYTES, split_batches
from ottla.protocol.records.compression import Codec
from ottla.protocol.records.errors import BatchTooLarge, RecordsError
from ottla.protocol.records.record import DECOMPRESSED_MAX_BYTES, Header, SimpleRecord, build_batch, encode_record, iter_records

REJECTED: Final = "Offset rejected by client."
DELIVERED_TOO_OFTEN: Final = "Offset delivery count exceeded the threshold."

Content = tuple[bytes | None, bytes | None]
"""The key and the value of a record."""


class DeadLetters(NamedTuple):
    """A range of offsets of a share partition for which dead letters are to be written, because their records were rejected or delivered
    too often. All have the same cause and the same delivery count."""

    first_offset: int
    last_offset: int
    delivery_count: int
    cause: str


class RecordSource(NamedTuple):
    """The origin of dead letters: the share group and the topic partition whose records were rejected or delivered too often."""

    group_id: str
    topic: str
    partition: int


class CopiedRecords(NamedTuple):
    """Keys and values of records in the log, by offset, for dead letters up to `last_offset`. A dead letter whose offset is missing here
    gets no key and no value."""

    contents: Mapping[int, Content]
    last_offset: int


def copied_records(records: bytes, first_offset: int, last_offset: int, max_bytes: int) -> CopiedRecords:
    """Return keys and values of the records from `first_offset` to `last_offset` for their dead letters, at most `max_bytes` bytes of
    encoded records.

    `records` has the log's batches from `first_offset` on. If it has none of these records, or a batch cannot be decoded, the remaining
    dead letters up to `last_offset` have no key and no value.
    """
    contents: dict[int, Content] = {}
    resolved, size = first_offset - 1, 0
    try:
        for position, header in split_batches(records):
            batch = records[position : position + header.size_bytes]
            plain = header.codec is Codec.NONE
            try:
                for record in iter_records(batch, DECOMPRESSED_MAX_BYTES if plain else max_bytes, from_offset=first_offset):
                    if record.offset > last_offset:
                        return CopiedRecords(contents, last_offset)
                    length = len(encode_record(record.offset_delta, record.timestamp_delta, record.key, record.value, record.headers))
                    if not (plain and length > max_bytes):
                        if size + length > max_bytes:
                            return CopiedRecords(contents, resolved)
                        contents[record.offset] = record.key, record.value
                        size += length
                    resolved = record.offset
            except BatchTooLarge:
                resolved = min(header.last_offset, last_offset)
    except RecordsError:
        return CopiedRecords(contents, last_offset)
    return CopiedRecords(contents, last_offset if resolved < first_offset else resolved)


def dead_letter_batch(
    origin: RecordSource, letters: DeadLetters, copies: CopiedRecords, first_offset: int, *, max_bytes: int, now_ms: int
) -> tuple[bytes, int]:
    """Return a batch of dead letters for the offsets from `first_offset` on, and the first offset that is not in the batch.

    The batch has at most `max_bytes` bytes, except if it has a single dead letter that is larger.
    """
    records: list[SimpleRecord] = []
    size, offset = HEADER_BYTES, first_offset
    while offset <= max(first_offset, min(copies.last_offset, letters.last_offset)):
        key, value = copies.contents.get(offset, (None, None))
        record = SimpleRecord(key, value, now_ms, _headers(origin, letters, offset))
        size += len(encode_record(len(records), 0, key, value, record.headers))
        if size > max_bytes and records:
            break
        records.append(record)
        offset += 1
    return build_batch(records), offset


def _headers(origin: RecordSource, letters: DeadLetters, offset: int) -> list[Header]:
    texts = {
        "topic": origin.topic,
        "partition": str(origin.partition),
        "offset": str(offset),
        "group": origin.group_id,
        "delivery.count": str(letters.delivery_count),
        "message": letters.cause,
    }
    return [(f"__dlq.errors.{name}", text.encode()) for name, text in texts.items()]
