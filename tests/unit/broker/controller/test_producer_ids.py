from __future__ import annotations

import pytest

from ottla.broker.cluster.catalog import Catalog
from ottla.broker.cluster.metadata_records import ProducerIdsRecord
from ottla.broker.controller.producer_ids import BLOCK_SIZE, allocate_block
from ottla.broker.core.rejected import Rejected


def test_blocks_follow_each_other_and_none_is_given_twice() -> None:
    catalog = Catalog()
    for index in range(3):
        effects = allocate_block(catalog, 7)
        assert effects.response == range(index * BLOCK_SIZE, (index + 1) * BLOCK_SIZE)
        assert effects.records == [ProducerIdsRecord(7, -1, (index + 1) * BLOCK_SIZE)]
        catalog.apply(effects.records)


def test_a_decision_alone_takes_no_block() -> None:
    catalog = Catalog()
    assert allocate_block(catalog, 7).response == allocate_block(catalog, 7).response


def test_the_end_of_all_ids_is_refused() -> None:
    catalog = Catalog()
    catalog.apply([ProducerIdsRecord(1, -1, 2**63 - 10)])
    with pytest.raises(Rejected):
        allocate_block(catalog, 1)
