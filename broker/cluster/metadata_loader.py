"""From the metadata log to images: committed batches go in, what they change comes out (Kafka's `MetadataBatchLoader`).

Rules that hold inside:
- Between a BeginTransactionRecord and its end nothing comes out; what came before it comes out first. An abort leaves the image as it was,
  and moves the offset (KIP-868).
- What comes out is the whole image and how it differs from the one that came out before it.
- After an error the log cannot be followed any further: `published` stands, the loader is thrown away.
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
    """Up to where an image contains the log. -1 for each: it contains nothing.

    `batch_aligned`: the offset is a batch's last one. Only there may a snapshot be made.
    """

    offset: int = -1
    epoch: int = -1
    append_time_ms: int = -1
    batch_aligned: bool = True


class MetadataBatch(NamedTuple):
    """A committed batch. One of control records, which say nothing about the cluster, has no `records`."""

    base_offset: int
    last_offset: int
    epoch: int
    append_time_ms: int
    records: Sequence[MetadataRecord] = ()


class Published(NamedTuple):
    """An image, where it stands, and what it has that the one before it had not."""

    image: MetadataImage
    provenance: Provenance
    changes: ImageChanges


class MetadataLoader:
    """`load` batches in the order of the log, `load_snapshot` at any time. `published` is what came out last."""

    def __init__(self) -> None:
        self.published = Published(EMPTY, Provenance(), ImageChanges())
        self.in_transaction = False
        """Whether the log, as far as it was loaded, is inside a transaction."""
        self._delta = ImageDelta(EMPTY)
        self._at = Provenance()

    def load(self, batches: Iterable[MetadataBatch]) -> list[Published]:
        """What these batches make of the image: mostly one, none inside a transaction. Raises `InconsistentRecord`."""
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
        """The image of a snapshot, which ends before `end_offset`; what it does not name is gone. Raises `InconsistentRecord`."""
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
