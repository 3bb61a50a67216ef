"""The cluster's image depends only on its records, however they are split into batches, and equals the image that its snapshot gives."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from ottla.broker.cluster.image import EMPTY
from ottla.broker.cluster.image_changes import difference
from ottla.broker.cluster.image_delta import ImageDelta
from ottla.broker.cluster.image_records import to_records
from ottla.broker.cluster.metadata_loader import MetadataBatch, MetadataLoader
from ottla.broker.cluster.metadata_records import AbortTransactionRecord, BeginTransactionRecord, EndTransactionRecord, MetadataRecord
from tests.support.metadata_images import made_of
from tests.support.metadata_logs import LogOfMetadata, cut

SEEDS = st.integers(0, 1 << 32)
LENGTHS = st.integers(0, 120)


def as_batches(pieces: list[list[MetadataRecord]]) -> list[MetadataBatch]:
    batches, offset = [], 0
    for piece in pieces:
        batches.append(MetadataBatch(offset, offset + len(piece) - 1, 1, 0, piece))
        offset += len(piece)
    return batches


@given(SEEDS, LENGTHS, SEEDS)
def test_image_does_not_depend_on_how_its_records_are_split_into_deltas(seed: int, length: int, cuts: int) -> None:
    records = LogOfMetadata(seed).records(length)
    one_by_one = piecewise = EMPTY
    for record in records:
        one_by_one = made_of(record, image=one_by_one)
    for piece in cut(records, cuts):
        piecewise = made_of(*piece, image=piecewise)
    assert one_by_one == piecewise == made_of(*records)


@given(SEEDS, LENGTHS, SEEDS)
def test_delta_keeps_the_previous_image_and_reports_the_exact_difference(seed: int, length: int, cuts: int) -> None:
    records = LogOfMetadata(seed).records(length)
    image, done = EMPTY, []
    for piece in cut(records, cuts):
        delta = ImageDelta(image)
        for record in piece:
            delta.apply(record)
        after = delta.finish()
        assert image == made_of(*done), "the image that the delta began with"
        changes, differing = delta.changes(), difference(image, after)
        assert changes.brokers_set >= differing.brokers_set, "and what was written as it was"
        assert changes._replace(brokers_set=differing.brokers_set) == differing
        image, done = after, done + piece


@given(SEEDS, LENGTHS)
def test_records_written_from_an_image_build_an_equal_image(seed: int, length: int) -> None:
    image = made_of(*LogOfMetadata(seed).records(length))
    records = list(to_records(image))
    assert made_of(*records) == image
    assert list(to_records(made_of(*records))) == records


@given(SEEDS, LENGTHS, SEEDS, st.sampled_from(["commit", "abort"]))
def test_metadata_transaction_is_published_completely_or_not_at_all(seed: int, length: int, cuts: int, end: str) -> None:
    records = LogOfMetadata(seed).records(length)
    source = random.Random(cuts)
    begin = source.randint(2, len(records))
    before, inside = records[:begin], records[begin:]
    last = EndTransactionRecord() if end == "commit" else AbortTransactionRecord("it was not to be")
    loader = MetadataLoader()
    batches = as_batches(cut([*before, BeginTransactionRecord(), *inside, last], cuts))
    published_images = []
    while batches:
        many = source.randint(1, 3)
        published_images += loader.load(batches[:many])
        batches = batches[many:]
    assert [published.image for published in published_images if published.provenance.offset == begin - 1][-1:] == [made_of(*before)]
    assert not any(begin <= published.provenance.offset < begin + len(inside) + 1 for published in published_images)
    assert loader.published.image == made_of(*(records if end == "commit" else before))
    assert loader.published.provenance.offset == len(records) + 1


@given(SEEDS, SEEDS, LENGTHS)
def test_snapshot_replaces_the_whole_previous_image(seed: int, other: int, length: int) -> None:
    loader = MetadataLoader()
    loader.load(as_batches([LogOfMetadata(seed).records(length)]))
    there = loader.published.image
    image = made_of(*LogOfMetadata(other).records(length))
    published = loader.load_snapshot(to_records(image), 1000, 3, 17)
    assert published.image == loader.published.image == image
    assert published.changes == difference(there, image)
    assert (published.provenance.offset, published.provenance.epoch) == (999, 3)
