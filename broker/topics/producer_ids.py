"""Producer ids, taken from blocks that are on disk before the first id of each is given out (Kafka's `ProducerIdControlManager`).

Rules that hold inside:
- An id is given once in the life of a data directory: what is left of a block when the broker stops is lost.
- A block costs one durable write for 1000 ids, so `next` blocks once in a thousand calls for as long as one sync takes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from broker.core.config_keys import INT64_MAX
from broker.core.rejected import Rejected
from broker.topics.catalog import Catalog
from broker.topics.catalog_records import MetadataRecord, ProducerIdsRecord
from protocol.error_codes import ErrorCode

BLOCK_SIZE: Final = 1000


class ProducerIds:
    """`write(records)` must append and apply the records, and return only when they survive a crash."""

    def __init__(self, catalog: Catalog, node_id: int, write: Callable[[Sequence[MetadataRecord]], None]) -> None:
        self._catalog = catalog
        self._node_id = node_id
        self._write = write
        self._next = 0
        self._end = 0

    def next(self) -> int:
        """An id never given before. Raises Rejected when all 2^63 are used up, and what `write` raises."""
        if self._next == self._end:
            self._take_block()
        given = self._next
        self._next += 1
        return given

    def _take_block(self) -> None:
        start = self._catalog.next_producer_id
        if start > INT64_MAX - BLOCK_SIZE:
            raise Rejected(ErrorCode.UNKNOWN_SERVER_ERROR, "Exhausted all producer ids.")
        self._write([ProducerIdsRecord(broker_id=self._node_id, next_producer_id=start + BLOCK_SIZE)])
        assert self._catalog.next_producer_id == start + BLOCK_SIZE
        self._next, self._end = start, start + BLOCK_SIZE
