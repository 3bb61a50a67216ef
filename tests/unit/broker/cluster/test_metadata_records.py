"""The record types; the comparison with Kafka's schemas is in `tests/golden/test_metadata_records.py`."""

from __future__ import annotations

import pytest

from ottla.broker.cluster.metadata_records import KINDS, BeginTransactionRecord, PartitionChangeRecord, RegisterBrokerRecord
from ottla.protocol.schema import encode


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.__name__)
def test_every_version_of_every_kind_is_flexible_from_0_on(kind: type) -> None:
    assert (kind.MIN_VERSION, kind.FLEXIBLE_SINCE) == (0, 0)  # type: ignore[attr-defined]  # a message's class attributes


def test_a_tagged_field_with_its_default_is_not_written() -> None:
    assert len(encode(PartitionChangeRecord(), 2)) == 4 + 16 + 1
    assert encode(BeginTransactionRecord(), 0) == b"\0"
    assert len(encode(RegisterBrokerRecord(cordoned_log_dirs=[]), 4)) == len(encode(RegisterBrokerRecord(), 4)) + 3
