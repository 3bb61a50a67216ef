from __future__ import annotations

import pytest

from ottla.broker.cluster.catalog import Catalog
from ottla.broker.cluster.metadata_records import ProducerIdsRecord
from ottla.broker.controller.producer_ids import BLOCK_SIZE, allocate_block, allocate_block_to
from ottla.broker.core.rejected import Rejected
from ottla.protocol.error_codes import ErrorCode
from tests.support.controllers import LiveController


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


def test_a_broker_of_a_cluster_is_given_a_block_while_its_epoch_is_the_present_one() -> None:
    controller = LiveController()
    epoch = controller.add_broker(1).epoch
    assert controller.run(allocate_block_to(controller.state, 1, epoch)) == range(BLOCK_SIZE)
    assert controller.log[-1] == ProducerIdsRecord(1, epoch, BLOCK_SIZE)
    assert controller.run(allocate_block_to(controller.state, 1, epoch)) == range(BLOCK_SIZE, 2 * BLOCK_SIZE)
    with pytest.raises(Rejected) as refused:
        allocate_block_to(controller.state, 1, epoch + 1)
    assert refused.value.code is ErrorCode.STALE_BROKER_EPOCH
