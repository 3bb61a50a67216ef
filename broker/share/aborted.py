"""Finds the batches of aborted transactions among the batches that were fetched for a share group (Kafka's
SharePartition.fetchAbortedTransactionRecordBatches). No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ottla.broker.share.acquisition import Fetched
from ottla.protocol.records.batch import BatchHeader
from ottla.protocol.records.control import ControlType, parse_marker
from ottla.protocol.wire import Buffer


def aborted_batches(records: Buffer, batches: Iterable[tuple[int, BatchHeader]], transactions: Sequence[tuple[int, int]]) -> list[Fetched]:
    """Return the base and last offsets of the data batches that belong to aborted transactions.

    `batches` are pairs of a byte position in `records` and the header of the batch at this position, in the order of the log.
    `transactions` are pairs (producer id, first offset) of aborted transactions; those that begin after the last batch are ignored.
    """
    ahead = sorted(transactions, key=lambda transaction: transaction[1], reverse=True)
    aborting: set[int] = set()
    found: list[Fetched] = []
    for position, header in batches:
        if not header.has_producer_id:
            continue
        while ahead and ahead[-1][1] <= header.last_offset:
            aborting.add(ahead.pop()[0])
        if header.is_control:
            if header.record_count and _is_abort(records, position, header):
                aborting.discard(header.producer_id)
        elif header.is_transactional and header.producer_id in aborting:
            found.append(Fetched(header.base_offset, header.last_offset))
    return found


def _is_abort(records: Buffer, position: int, header: BatchHeader) -> bool:
    return parse_marker(bytes(records[position : position + header.size_bytes])).type is ControlType.ABORT
