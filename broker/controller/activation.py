"""Decides the records that a controller writes when it becomes active: the first records of an empty metadata log, and the abort of a
metadata transaction that another controller left open.

Invariants:
- The first records are one metadata transaction (KIP-868), so that readers see all or none of them. Below the metadata.version that has
  transactions, they are one batch.
- With eligible leader replicas (KIP-966) the log has a cluster-wide `min.insync.replicas` from the start.

Source: Kafka's ActivationRecordsGenerator, BootstrapMetadata.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ottla.broker.cluster.features import METADATA_LEVEL, METADATA_VERSION
from ottla.broker.cluster.image import ELR_VERSION, ResourceType
from ottla.broker.cluster.metadata_records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    ConfigRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    MetadataRecord,
)
from ottla.broker.cluster.record_versions import TRANSACTIONS
from ottla.broker.configs.broker_changes import CLUSTER_DEFAULT
from ottla.broker.controller.state import MIN_ISR, ControllerState
from ottla.broker.core.effects import Effects

DEFAULT_BOOTSTRAP: Final[Sequence[MetadataRecord]] = (FeatureLevelRecord(METADATA_VERSION, METADATA_LEVEL),)
"""The first records of an empty metadata log, if formatting the data directory has stored none."""


def activate(
    state: ControllerState, bootstrap: Sequence[MetadataRecord] = DEFAULT_BOOTSTRAP, *, in_transaction: bool = False
) -> Effects[MetadataRecord, None]:
    """Return the records with which a controller becomes active. `bootstrap` are the first records of an empty log, for example those that
    `kafka-storage format` has stored. If `in_transaction` is true, the log ends inside a transaction of another controller, which is
    aborted.
    """
    abort = [AbortTransactionRecord("Controller failover")] if in_transaction else []
    if METADATA_VERSION in state.image.features:
        return Effects(abort, None)
    levels = {record.name: record.feature_level for record in bootstrap if isinstance(record, FeatureLevelRecord)}
    records = list(bootstrap)
    if levels.get(ELR_VERSION, 0) > 0:
        records.append(ConfigRecord(ResourceType.BROKER, CLUSTER_DEFAULT, MIN_ISR, str(state.settings.value(MIN_ISR))))
    if levels[METADATA_VERSION] >= TRANSACTIONS:
        records = [BeginTransactionRecord("Bootstrap records"), *records, EndTransactionRecord()]
    return Effects([*abort, *records], None)
