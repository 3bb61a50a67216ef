"""Allocates blocks of producer ids: no id is used twice in the life of a cluster (Kafka's `ProducerIdControlManager`).

The ids of a block that a broker has not used when it stops are lost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ottla.broker.cluster.catalog import Catalog
from ottla.broker.cluster.metadata_records import MetadataRecord, ProducerIdsRecord
from ottla.broker.core.config_keys import INT64_MAX
from ottla.broker.core.effects import Effects
from ottla.broker.core.rejected import Rejected
from ottla.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from ottla.broker.controller.state import ControllerState

BLOCK_SIZE: Final = 1000


def allocate_block(catalog: Catalog, node_id: int, broker_epoch: int = -1) -> Effects[MetadataRecord, range]:
    """Return the record that allocates the next block of producer ids to broker `node_id`, and the block. Raises Rejected
    (UNKNOWN_SERVER_ERROR) if all 2^63 ids are used up."""
    start = catalog.next_producer_id
    if start > INT64_MAX - BLOCK_SIZE:
        raise Rejected(ErrorCode.UNKNOWN_SERVER_ERROR, "Exhausted all producer ids.")
    record = ProducerIdsRecord(broker_id=node_id, broker_epoch=broker_epoch, next_producer_id=start + BLOCK_SIZE)
    return Effects([record], range(start, start + BLOCK_SIZE))


def allocate_block_to(state: ControllerState, broker_id: int, broker_epoch: int) -> Effects[MetadataRecord, range]:
    """Return the record that allocates the next block of producer ids to a cluster broker, and the block. Raises Rejected with
    STALE_BROKER_EPOCH if `broker_epoch` is not current, and with UNKNOWN_SERVER_ERROR if all 2^63 ids are used up."""
    state.broker(broker_id, broker_epoch)
    return allocate_block(state.catalog, broker_id, broker_epoch)
