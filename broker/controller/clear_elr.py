"""Clears eligible leader replicas when `min.insync.replicas` changes, because eligibility depends on it (KIP-966).

Source: Kafka's ConfigurationControlManager.createClearElrRecordsAsNeeded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from ottla.broker.cluster.image import ResourceType
from ottla.broker.cluster.metadata_records import ClearElrRecord, ConfigRecord, MetadataRecord

MIN_ISR: Final = "min.insync.replicas"


def cleared_elr(records: Iterable[MetadataRecord]) -> Iterator[ClearElrRecord]:
    """Yield a ClearElrRecord for each of `records` that changes `min.insync.replicas` of a topic or of the cluster. The caller writes them
    after `records`. Call this only in a cluster with eligible leader replicas."""
    for record in records:
        if isinstance(record, ConfigRecord) and record.name == MIN_ISR:
            yield ClearElrRecord(record.resource_name if record.resource_type == ResourceType.TOPIC else "")
