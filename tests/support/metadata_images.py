"""Metadata images made of records."""

from __future__ import annotations

from ottla.broker.cluster.features import METADATA_VERSION
from ottla.broker.cluster.image import EMPTY, MetadataImage
from ottla.broker.cluster.image_delta import ImageDelta
from ottla.broker.cluster.metadata_records import FeatureLevelRecord, MetadataRecord


def made_of(*records: MetadataRecord, image: MetadataImage = EMPTY) -> MetadataImage:
    """Return the image after these records."""
    delta = ImageDelta(image)
    for record in records:
        delta.apply(record)
    return delta.finish()


def level(metadata_version: int) -> MetadataRecord:
    """Make the record that a log begins with."""
    return FeatureLevelRecord(METADATA_VERSION, metadata_version)
