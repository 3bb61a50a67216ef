"""Validates a batch of a Produce request, and rewrites it if the topic's settings require that (Kafka's LogValidator,
UnifiedLog.analyzeAndValidateRecords).

Invariants:

* Pure code: the batch, the topic's configuration and the time go in; a `Checked` is returned or `Rejected` is raised.
* Every record is validated, compressed or not, within a memory limit; one invalid record rejects the whole batch.
* The bytes of the records are copied only if they must change: another codec, or offset deltas that are not 0, 1, 2, … A batch with other
  attributes or another maximum timestamp only gets a new 61-byte header.

The request handler (`api/k00_produce`) checks before this that there is exactly one batch, of magic 2. The log checks sequences, epochs
and offsets afterwards.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ottla.broker.core import limits
from ottla.broker.core.log_config import LogConfig
from ottla.broker.core.rejected import Rejected
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.records import walk
from ottla.protocol.records.batch import (
    CODEC_MASK,
    CONTROL,
    CRC_START,
    HEADER_BYTES,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    MAGIC_V2,
    NO_TIMESTAMP,
    STAMPED_BYTES,
    TRANSACTIONAL,
    BatchHeader,
    pack_header,
    read_header,
)
from ottla.protocol.records.compression import Codec, compress, decompress
from ottla.protocol.records.crc32c import crc32c
from ottla.protocol.records.errors import BatchTooLarge, CorruptBatch, UnknownCodec
from ottla.protocol.wire import Buffer, read_uvarint

_TARGETS: Final = {"uncompressed": Codec.NONE, "gzip": Codec.GZIP, "snappy": Codec.SNAPPY, "lz4": Codec.LZ4, "zstd": Codec.ZSTD}
_AS_PRODUCED: Final = "producer"

_RECORD_ERRORS_SHOWN: Final = 3


@dataclass(slots=True)
class Checked:
    """A validated batch as it will be written to the log: the log changes nothing but its base offset and leader epoch.

    `header` still has the client's base offset, 0. `bytes_from_magic` are the batch's bytes from the magic byte on, in one or more buffers.
    """

    header: BatchHeader
    bytes_from_magic: tuple[Buffer, ...]


class TooLongForEventLoop(Exception):
    """Raised when checking a batch would block the event loop for too long. Nothing has changed: the caller repeats the check on another
    thread."""


def check_produce_batch(data: Buffer, *, config: LogConfig, now_ms: int, at_once: bool = False) -> Checked:
    """Validate the single batch in `data`, which a client sent, and return it as it is to be written. The checks are made in Kafka's order,
    which decides the error.

    Raises `Rejected` with Kafka's error code if the batch is invalid. With `at_once` (on the event loop) it raises `TooLongForEventLoop`
    for a batch whose check would take more than a few ms. The result has views of `data`, which must not change before the result is
    written.
    """
    view = data if type(data) is memoryview else memoryview(data)
    header = _check_envelope(view, config, at_once=at_once)
    _check_header(header)
    has_many_records = header.record_count > limits.CHECKED_AT_ONCE_RECORDS
    if has_many_records and at_once:
        raise TooLongForEventLoop
    records: Buffer = view[HEADER_BYTES:]
    if header.attributes & CODEC_MASK:
        records = _decompress(_codec(header), records, config, at_once=at_once)
    if has_many_records:
        _check_count(header.record_count, len(records), config)
    scan = walk.scan(records, header.record_count, header.base_timestamp)
    if scan.first_bad_index >= 0:
        raise Rejected(ErrorCode.INVALID_RECORD, f"record {scan.first_bad_index} of the batch: {scan.reason}")
    if header.attributes & CODEC_MASK and len(records) > config.max_decompressed_message_bytes:
        _check_sizes(records, header, config.max_decompressed_message_bytes)
    _check_records(records, header, scan, config, now_ms)
    return _rewrite(view, header, records, scan, config=config, now_ms=now_ms, at_once=at_once)


def _check_envelope(data: memoryview, config: LogConfig, *, at_once: bool) -> BatchHeader:
    """Return the header of the single batch in `data`. Raises `Rejected` for a wrong magic or base offset (INVALID_RECORD), for more than
    max.message.bytes (MESSAGE_TOO_LARGE), or for a wrong size or checksum (CORRUPT_MESSAGE); with `at_once` `TooLongForEventLoop` for a
    batch of more than CHECKED_AT_ONCE_BYTES. Source: Kafka's analyzeAndValidateRecords."""
    try:
        header = read_header(data)
    except CorruptBatch as e:
        raise Rejected(ErrorCode.CORRUPT_MESSAGE, str(e)) from e
    if header.magic != MAGIC_V2:
        raise Rejected(ErrorCode.INVALID_RECORD, f"record batches of magic {header.magic} are not accepted, only magic {MAGIC_V2}")
    if header.base_offset != 0:
        raise Rejected(ErrorCode.INVALID_RECORD, f"the base offset of a produced batch is 0, not {header.base_offset}")
    size = header.batch_length + LOG_OVERHEAD
    check_size(size, config)
    if size != len(data):
        raise Rejected(ErrorCode.CORRUPT_MESSAGE, f"a batch of {size} bytes in {len(data)}")
    if at_once and size > HEADER_BYTES + limits.CHECKED_AT_ONCE_BYTES:
        raise TooLongForEventLoop
    if crc32c(data[CRC_START:]) != header.crc:
        raise Rejected(ErrorCode.CORRUPT_MESSAGE, "the batch's CRC does not match its bytes")
    return header


def check_size(size: int, config: LogConfig) -> None:
    """Raise Rejected(MESSAGE_TOO_LARGE) if a batch of `size` bytes exceeds `max.message.bytes`."""
    if size > config.max_message_bytes:
        raise Rejected(ErrorCode.MESSAGE_TOO_LARGE, f"the batch has {size} bytes, max.message.bytes is {config.max_message_bytes}")


def _check_header(header: BatchHeader) -> None:
    """Raise Rejected(INVALID_RECORD) if the header's record count or base sequence is wrong, or if the batch is a control batch
    (LogValidator.validateBatch)."""
    count = header.record_count
    if count <= 0:
        raise Rejected(ErrorCode.INVALID_RECORD, f"the record count is {count}")
    if count != header.last_offset_delta + 1:
        raise Rejected(ErrorCode.INVALID_RECORD, f"{count} records in a batch whose last offset delta is {header.last_offset_delta}")
    if header.attributes & CONTROL:
        raise Rejected(ErrorCode.INVALID_RECORD, "clients may not write control records")
    if header.producer_id >= 0 and header.base_sequence < 0:
        raise Rejected(ErrorCode.INVALID_RECORD, f"producer {header.producer_id} sent base sequence {header.base_sequence}")


def _check_count(count: int, size: int, config: LogConfig) -> None:
    """Reject a batch whose record count is above the limit, before its records are read; `size` is the records' uncompressed size in bytes.

    Raises Rejected(MESSAGE_TOO_LARGE), because a Java producer then splits the batch and sends the parts. If `size` bytes cannot contain
    that many records, raises Rejected(INVALID_RECORD).
    """
    maximum = max(limits.BATCH_RECORDS_MAX, config.max_message_bytes // walk.MIN_RECORD_BYTES)
    if count <= maximum:
        return
    if count > size // walk.MIN_RECORD_BYTES:
        raise Rejected(ErrorCode.INVALID_RECORD, f"fewer records than the batch's record count: {count} in {size} bytes")
    raise Rejected(ErrorCode.MESSAGE_TOO_LARGE, f"the batch has {count} records; a batch of this topic may have {maximum}")


def _codec(header: BatchHeader) -> Codec:
    try:
        return header.codec
    except UnknownCodec as e:
        # Kafka fails on these ids with a Java exception that becomes this error.
        raise Rejected(ErrorCode.UNKNOWN_SERVER_ERROR, str(e)) from e


def _decompress(codec: Codec, tail: Buffer, config: LogConfig, *, at_once: bool) -> Buffer:
    maximum = max(limits.DECOMPRESSED_BATCH_BYTES, 2 * config.max_message_bytes)
    try:
        return decompress(codec, tail, limits.CHECKED_AT_ONCE_BYTES if at_once else maximum)
    except BatchTooLarge as e:
        if at_once:
            raise TooLongForEventLoop from e
        raise Rejected(ErrorCode.MESSAGE_TOO_LARGE, str(e)) from e
    except CorruptBatch as e:
        raise Rejected(ErrorCode.CORRUPT_MESSAGE, str(e)) from e


def _check_sizes(records: Buffer, header: BatchHeader, maximum: int) -> None:
    """Raise Rejected(INVALID_RECORD) if a record of a compressed batch has more than `maximum` bytes, not counting its length field
    (DefaultRecord.readFrom). `records` are the batch's decompressed records."""
    starts = walk.columns(records, header.record_count, 0, header.base_timestamp).record_starts
    for index, start in enumerate(starts):
        body = read_uvarint(records, start)[0] >> 1  # zigzag, and not negative after the scan
        if body > maximum:
            text = f"record {index} of the batch: Invalid record size: {body} exceeds the configured maximum record size of {maximum}."
            raise Rejected(ErrorCode.INVALID_RECORD, text)


def _check_records(records: Buffer, header: BatchHeader, scan: walk.Scan, config: LogConfig, now_ms: int) -> None:
    """Raise `Rejected` if a record has a timestamp out of range, or no key in a compacted topic. `scan` has the extreme timestamps and the
    first record without a key; only if these are invalid, the records are read again one by one, to report each error."""
    oldest_ms = now_ms - config.message_timestamp_before_max_ms
    newest_ms = now_ms + config.message_timestamp_after_max_ms
    if header.attributes & LOG_APPEND_TIME:
        appended = header.max_timestamp
        refused = config.log_append_time or not config.accepts_append_time
        bad_time = refused or appended == NO_TIMESTAMP or not oldest_ms <= appended <= newest_ms
    elif config.log_append_time:
        bad_time = False
    else:
        bad_time = scan.max_timestamp > newest_ms or (scan.min_timestamp < oldest_ms and scan.min_timestamp != NO_TIMESTAMP)
    if bad_time or (scan.first_null_key >= 0 and config.compacts):
        _reject_records(records, header, config, oldest_ms, newest_ms)


def _in_window(timestamp: int, oldest_ms: int, newest_ms: int) -> bool:
    return timestamp == NO_TIMESTAMP or oldest_ms <= timestamp <= newest_ms


def _reject_records(records: Buffer, header: BatchHeader, config: LogConfig, oldest_ms: int, newest_ms: int) -> None:
    """Raise `Rejected` with the index and the first error of each invalid record, for at most RECORD_ERRORS_MAX records.

    The batch's error code is INVALID_TIMESTAMP if any of these records has an invalid timestamp, otherwise INVALID_RECORD.
    """
    columns = walk.columns(records, header.record_count, 0, header.base_timestamp)
    errors: list[tuple[int, str]] = []
    code = ErrorCode.INVALID_RECORD
    appended = header.is_log_append_time
    for index, timestamp in enumerate(columns.timestamps):
        effective = header.max_timestamp if appended else timestamp
        if config.compacts and columns.key_lengths[index] < 0:
            errors.append((index, "Compacted topic cannot accept message without key"))
        elif appended and (config.log_append_time or not config.accepts_append_time or effective == NO_TIMESTAMP):
            code = ErrorCode.INVALID_TIMESTAMP
            errors.append((index, "a produced batch may not have the timestamp type LogAppendTime"))
        elif not config.log_append_time and not _in_window(effective, oldest_ms, newest_ms):
            code = ErrorCode.INVALID_TIMESTAMP
            window = f"The timestamp should be within [{oldest_ms}, {newest_ms}]"
            errors.append((index, f"Timestamp {effective} of message with offset {index} is out of range. {window}"))
        if len(errors) == limits.RECORD_ERRORS_MAX:
            break
    if code is ErrorCode.INVALID_TIMESTAMP:
        raise Rejected(code, "One or more records have been rejected due to invalid timestamp", errors)
    shown = "; ".join(f"record {index}: {message}" for index, message in errors[:_RECORD_ERRORS_SHOWN])
    raise Rejected(code, f"One or more records have been rejected due to {len(errors)} record errors in total: {shown}", errors)


def _rewrite(
    data: memoryview, header: BatchHeader, records: Buffer, scan: walk.Scan, *, config: LogConfig, now_ms: int, at_once: bool
) -> Checked:
    """Return the batch unchanged, with another header, or with recompressed or renumbered records, as the topic's configuration requires
    (LogValidator.validateMessagesAndAssignOffsets…). `scan` is the result of the first pass over `records`. Raises Rejected(INVALID_RECORD
    or MESSAGE_TOO_LARGE) and, with `at_once`, `TooLongForEventLoop`."""
    attributes, max_timestamp = header.attributes, scan.max_timestamp
    if config.log_append_time:
        attributes |= LOG_APPEND_TIME
        max_timestamp = now_ms
    elif attributes & LOG_APPEND_TIME:
        attributes ^= LOG_APPEND_TIME
        max_timestamp = header.max_timestamp
    source = attributes & CODEC_MASK
    target = source if config.compression_type == _AS_PRODUCED else _TARGETS[config.compression_type]
    rebuild = source != target or not scan.sequential
    if not rebuild and attributes == header.attributes and max_timestamp == header.max_timestamp:
        return Checked(header, (data[STAMPED_BYTES:],))
    tail: Buffer = data[HEADER_BYTES:]
    if rebuild:
        if source == target == Codec.NONE:
            raise Rejected(ErrorCode.INVALID_RECORD, "the offset deltas of the batch's records are not 0, 1, 2, …")
        if at_once and len(records) > limits.RECOMPRESSED_AT_ONCE_BYTES:
            raise TooLongForEventLoop
        tail = _recompress(records if scan.sequential else walk.renumber(records, header.record_count), Codec(target), config)
        check_size(HEADER_BYTES + len(tail), config)
        attributes = attributes & (LOG_APPEND_TIME | TRANSACTIONAL) | target  # Kafka builds a new batch without the other attributes
    head = pack_header(header._replace(attributes=attributes, max_timestamp=max_timestamp), tail)
    return Checked(read_header(head), (memoryview(head)[STAMPED_BYTES:], tail))


def _recompress(records: Buffer, codec: Codec, config: LogConfig) -> bytes:
    levels = {Codec.GZIP: config.compression_gzip_level, Codec.LZ4: config.compression_lz4_level, Codec.ZSTD: config.compression_zstd_level}
    return compress(codec, records, levels.get(codec))
