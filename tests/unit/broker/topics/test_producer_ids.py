from __future__ import annotations

from collections.abc import Sequence

import pytest

from broker.core.rejected import Rejected
from broker.topics.catalog import Catalog
from broker.topics.catalog_records import MetadataRecord, ProducerIdsRecord
from broker.topics.producer_ids import BLOCK_SIZE, ProducerIds


class Disk:
    """Applies what is written, as the topic service does, and remembers it for a restart."""

    def __init__(self, written: Sequence[MetadataRecord] = ()) -> None:
        self.written = list(written)
        self.catalog = Catalog()
        for record in self.written:
            self.catalog.apply(record)

    def write(self, records: Sequence[MetadataRecord]) -> None:
        self.written.extend(records)
        for record in records:
            self.catalog.apply(record)


def test_ids_are_consecutive_and_a_block_costs_one_write() -> None:
    disk = Disk()
    ids = ProducerIds(disk.catalog, 1, disk.write)
    assert [ids.next() for _ in range(BLOCK_SIZE + 1)] == list(range(BLOCK_SIZE + 1))
    assert disk.written == [ProducerIdsRecord(1, -1, 1000), ProducerIdsRecord(1, -1, 2000)]


def test_a_block_is_written_before_its_first_id_is_given() -> None:
    catalog = Catalog()

    def broken(records: Sequence[MetadataRecord]) -> None:
        raise OSError("disk full")

    ids = ProducerIds(catalog, 1, broken)
    with pytest.raises(OSError, match="disk full"):
        ids.next()
    working = Disk()
    assert ProducerIds(working.catalog, 1, working.write).next() == 0


def test_after_a_crash_no_id_is_given_again() -> None:
    disk = Disk()
    before = [ProducerIds(disk.catalog, 1, disk.write).next() for _ in range(3)]
    again = Disk(disk.written)
    after = [ProducerIds(again.catalog, 1, again.write).next() for _ in range(3)]
    assert not set(before) & set(after)
    assert min(after) > max(before)


def test_the_end_of_all_ids_is_refused_and_nothing_is_written() -> None:
    disk = Disk([ProducerIdsRecord(1, -1, 2**63 - 10)])
    with pytest.raises(Rejected):
        ProducerIds(disk.catalog, 1, disk.write).next()
    assert len(disk.written) == 1
