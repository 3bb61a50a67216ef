from __future__ import annotations

import pytest

from ottla.broker.cluster.catalog import Catalog
from ottla.broker.cluster.metadata_records import ProducerIdsRecord
from ottla.broker.controller.producer_ids import BLOCK_SIZE, allocate_block, allocate_block_to
from ottla.broker.core.rejected import Rejected
from ottla.protocol.error_codes import ErrorCode
from tests.support.controllers import LiveController


def test_blocks_are_consecutive_and_never_repeated() -> None:
    catalog = Catalog()
    for index in range(3):
        effects = allocate_block(catalog, 7)
        assert effects.response == range(index * BLOCK_SIZE, (index + 1) * BLOCK_SIZE)
        assert effects.records == [ProducerIdsRecord(7, -1, (index + 1) * BLOCK_SIZE)]
        catalog.apply(effects.records)


def test_a_decision_that_is_not_applied_takes_no_block() -> None:
    catalog = Catalog()
    assert allocate_block(catalog, 7).response == allocate_block(catalog, 7).response


def test_an_exhausted_producer_id_range_is_refused() -> None:
    catalog = Catalog()
    catalog.apply([ProducerIdsRecord(1, -1, 2**63 - 10)])
    with pytest.raises(Rejected):
        allocate_block(catalog, 1)


def test_a_block_needs_the_current_broker_epoch() -> None:
    controller = LiveController()
    epoch = controller.add_broker(1).epoch
    assert controller.run(allocate_block_to(controller.state, 1, epoch)) == range(BLOCK_SIZE)
    assert controller.log[-1] == ProducerIdsRecord(1, epoch, BLOCK_SIZE)
    assert controller.run(allocate_block_to(controller.state, 1, epoch)) == range(BLOCK_SIZE, 2 * BLOCK_SIZE)
    with pytest.raises(Rejected) as refused:
        allocate_block_to(controller.state, 1, epoch + 1)
    assert refused.value.code is ErrorCode.STALE_BROKER_EPOCH
