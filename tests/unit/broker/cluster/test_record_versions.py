from __future__ import annotations

import pytest

from ottla.broker.cluster.metadata_records import (
    BeginTransactionRecord,
    BrokerRegistrationChangeRecord,
    ClearElrRecord,
    DelegationTokenRecord,
    MetadataRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    TopicRecord,
    UserScramCredentialRecord,
)
from ottla.broker.cluster.record_versions import NotWritable, version_of

LEVELS = range(7, 31)
ID = bytes(range(16))


def rises(record: MetadataRecord) -> dict[int, int]:
    """Return {metadata level: record version} of each level at which the record's version changes; levels that cannot write it are left
    out."""
    found: dict[int, int] = {}
    for level in LEVELS:
        try:
            version = version_of(record, level)
        except NotWritable:
            continue
        if version not in found.values():
            found[level] = version
    return found


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        (RegisterBrokerRecord(), {7: 1, 8: 2, 17: 3, 30: 4}),
        (PartitionRecord(), {7: 0, 17: 1, 23: 2}),
        (PartitionChangeRecord(), {7: 0, 17: 1, 23: 2}),
        (RegisterControllerRecord(), {15: 0}),
        (ClearElrRecord(), {23: 0}),
        (BeginTransactionRecord(), {13: 0}),
        (DelegationTokenRecord(), {14: 0}),
        (UserScramCredentialRecord(), {11: 0}),
        (TopicRecord(), {7: 0}),
        (BrokerRegistrationChangeRecord(fenced=-1), {7: 0}),
        (BrokerRegistrationChangeRecord(in_controlled_shutdown=1), {7: 1}),
        (BrokerRegistrationChangeRecord(log_dirs=[ID]), {17: 2}),
        (BrokerRegistrationChangeRecord(log_dirs=[]), {17: 2}),
        (BrokerRegistrationChangeRecord(cordoned_log_dirs=[]), {30: 3}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_record_is_written_in_the_version_of_the_metadata_version(record: MetadataRecord, expected: dict[int, int]) -> None:
    assert rises(record) == expected


def test_a_record_newer_than_the_metadata_version_is_not_written() -> None:
    with pytest.raises(NotWritable, match=r"RegisterControllerRecord cannot be written at metadata\.version 14"):
        version_of(RegisterControllerRecord(), 14)
