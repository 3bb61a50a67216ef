"""Metadata images made of records."""

from __future__ import annotations

from ottla.broker.cluster.features import METADATA_VERSION
from ottla.broker.cluster.image import EMPTY, MetadataImage
from ottla.broker.cluster.image_delta import ImageDelta
from ottla.broker.cluster.metadata_records import FeatureLevelRecord, MetadataRecord


def made_of(*records: MetadataRecord, image: MetadataImage = EMPTY) -> MetadataImage:
    """Return `image` with these records applied; by default they are applied to an empty image."""
    delta = ImageDelta(image)
    for record in records:
        delta.apply(record)
    return delta.finish()


def level(metadata_version: int) -> MetadataRecord:
    """Return the record that sets metadata.version, with which every log begins."""
    return FeatureLevelRecord(METADATA_VERSION, metadata_version)
