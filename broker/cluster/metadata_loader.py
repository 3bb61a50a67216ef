"""Turns committed batches of the metadata log into images and their differences (Kafka's `MetadataBatchLoader`).

Invariants:
- Inside a metadata transaction (KIP-868) no image is published; the records before it are published first. An abort leaves the image
  unchanged and moves its offset.
- Each `Published` has the whole image and its difference to the last published one.
- After an error the loader must be discarded; `published` stays valid.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ottla.broker.cluster.image import EMPTY, MetadataImage
from ottla.broker.cluster.image_changes import ImageChanges, difference
from ottla.broker.cluster.image_delta import ImageDelta
from ottla.broker.cluster.metadata_records import AbortTransactionRecord, BeginTransactionRecord, EndTransactionRecord, MetadataRecord
from ottla.broker.cluster.registrations import InconsistentRecord


class Provenance(NamedTuple):
    """The position in the metadata log of the last record that an image contains: its offset, epoch and append time. All are -1 for an
    empty image.

    `batch_aligned` is true if the record is the last one of its batch. Only then may a snapshot of the image be taken.
    """

    offset: int = -1
    epoch: int = -1
    append_time_ms: int = -1
    batch_aligned: bool = True


class MetadataBatch(NamedTuple):
    """A committed batch of the metadata log. A control batch, which changes nothing in the image, has no `records`."""

    base_offset: int
    last_offset: int
    epoch: int
    append_time_ms: int
    records: Sequence[MetadataRecord] = ()


class Published(NamedTuple):
    """A metadata image, the position in the log up to which it contains all records, and its difference to the image published before."""

    image: MetadataImage
    provenance: Provenance
    changes: ImageChanges


class MetadataLoader:
    """Loads batches of the metadata log, in log order, and snapshots, which may come at any time. `published` is the image that was
    returned last.
    """

    def __init__(self) -> None:
        self.published = Published(EMPTY, Provenance(), ImageChanges())
        self.in_transaction = False
        """Whether the loaded part of the metadata log ends inside a metadata transaction (KIP-868)."""
        self._delta = ImageDelta(EMPTY)
        self._at = Provenance()

    def load(self, batches: Iterable[MetadataBatch]) -> list[Published]:
        """Return the images that these batches complete: usually one, none inside a metadata transaction. Raises `InconsistentRecord` if a
        record contradicts earlier ones."""
        published = []
        for batch in batches:
            for index, record in enumerate(batch.records):
                if isinstance(record, BeginTransactionRecord) and not self.in_transaction and self._at != self.published.provenance:
                    published.append(self._publish())
                self._replay(record)
                self._at = Provenance(batch.base_offset + index, batch.epoch, batch.append_time_ms, batch_aligned=False)
            self._at = Provenance(batch.last_offset, batch.epoch, batch.append_time_ms)
        if not self.in_transaction and self._at != self.published.provenance:
            published.append(self._publish())
        return published

    def load_snapshot(self, records: Iterable[MetadataRecord], end_offset: int, epoch: int, append_time_ms: int) -> Published:
        """Return the image of a snapshot that ends before `end_offset`; it replaces the whole image. Raises `InconsistentRecord` if a
        record contradicts earlier ones."""
        delta = ImageDelta(EMPTY)
        for record in records:
            delta.apply(record)
        image = delta.finish()
        self.in_transaction = False
        self._at = Provenance(end_offset - 1, epoch, append_time_ms)
        return self._put_out(image, difference(self.published.image, image))

    def _replay(self, record: MetadataRecord) -> None:
        match record:
            case BeginTransactionRecord():
                if self.in_transaction:
                    raise InconsistentRecord("a transaction begins inside a transaction")
                self.in_transaction = True
            case EndTransactionRecord() | AbortTransactionRecord():
                if not self.in_transaction:
                    raise InconsistentRecord("a transaction ends that did not begin")
                self.in_transaction = False
                if isinstance(record, AbortTransactionRecord):
                    self._delta = ImageDelta(self.published.image)
            case _:
                self._delta.apply(record)

    def _publish(self) -> Published:
        return self._put_out(self._delta.finish(), self._delta.changes())

    def _put_out(self, image: MetadataImage, changes: ImageChanges) -> Published:
        self.published = Published(image, self._at, changes)
        self._delta = ImageDelta(image)
        return self.published
