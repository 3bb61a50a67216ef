"""When the loader publishes images; their content is tested in `tests/property/test_metadata_image.py`."""

from __future__ import annotations

import pytest

from ottla.broker.cluster.metadata_loader import MetadataBatch, MetadataLoader, Provenance
from ottla.broker.cluster.metadata_records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    MetadataRecord,
    NoOpRecord,
)
from ottla.broker.cluster.registrations import InconsistentRecord

X, Y, Z = (FeatureLevelRecord(name, 1) for name in "xyz")


def batch(base_offset: int, *records: MetadataRecord) -> MetadataBatch:
    return MetadataBatch(base_offset, base_offset + max(len(records), 1) - 1, 4, 1000 + base_offset, records)


def test_several_batches_are_one_image() -> None:
    loader = MetadataLoader()
    (published,) = loader.load([batch(0, X, Y), batch(2, Z)])
    assert sorted(published.image.features) == ["x", "y", "z"]
    assert published.provenance == Provenance(2, 4, 1002)
    assert published.changes.features == {"x": 1, "y": 1, "z": 1}
    assert loader.published is published
    assert loader.load([]) == []


def test_no_op_records_advance_the_offset() -> None:
    loader = MetadataLoader()
    loader.load([batch(0, X)])
    image = loader.published.image
    (published,) = loader.load([batch(1), batch(2, NoOpRecord())])
    assert published.image == image
    assert published.provenance.offset == 2


def test_records_before_a_transaction_are_published_at_its_begin() -> None:
    loader = MetadataLoader()
    (published,) = loader.load([batch(0, X, BeginTransactionRecord("t"), Y)])
    assert (list(published.image.features), published.provenance) == (["x"], Provenance(0, 4, 1000, batch_aligned=False))
    assert loader.in_transaction
    assert loader.load([batch(3, Z)]) == []
    (ended,) = loader.load([batch(4, EndTransactionRecord())])
    assert (sorted(ended.changes.features), ended.provenance.offset, ended.provenance.batch_aligned) == (["y", "z"], 4, True)


def test_a_transaction_at_a_batchs_start_publishes_the_previous_batches() -> None:
    loader = MetadataLoader()
    (published,) = loader.load([batch(0, X), batch(1, BeginTransactionRecord(), Y)])
    assert published.provenance == Provenance(0, 4, 1000, batch_aligned=True)


def test_an_aborted_transaction_has_no_effect() -> None:
    loader = MetadataLoader()
    loaded = loader.load([batch(0, X), batch(1, BeginTransactionRecord(), Y), batch(3, AbortTransactionRecord(), Z)])
    assert [sorted(published.image.features) for published in loaded] == [["x"], ["x", "z"]]
    assert loaded[-1].changes.features == {"z": 1}


def test_a_snapshot_discards_an_open_transaction() -> None:
    loader = MetadataLoader()
    loader.load([batch(0, X), batch(1, BeginTransactionRecord(), Y)])
    published = loader.load_snapshot([Z], 10, 5, 77)
    assert (published.changes.features, published.provenance) == ({"x": None, "z": 1}, Provenance(9, 5, 77))
    assert not loader.in_transaction
    assert list(loader.load([batch(10, X)])[0].changes.features) == ["x"]


@pytest.mark.parametrize(
    "records",
    [[EndTransactionRecord()], [AbortTransactionRecord()], [BeginTransactionRecord(), X, BeginTransactionRecord()]],
    ids=["end", "abort", "begin"],
)
def test_unbalanced_transaction_records_are_refused(records: list[MetadataRecord]) -> None:
    with pytest.raises(InconsistentRecord):
        MetadataLoader().load([batch(0, *records)])
