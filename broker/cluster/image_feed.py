"""Turns the bytes of the metadata log into images for a broker (Kafka's `MetadataLoader`, `KRaftControlRecordStateMachine`).

Invariants:
- No image is published before the log was read to the leader's high watermark and had a record, because a broker must not act on old
  metadata. The first published image has all its contents as changes; each later one has the changes since the one before.
- An undecodable record is an error: skipping it would make the state differ from the controllers'.
"""

from __future__ import annotations

from dataclasses import dataclass

from ottla.broker.cluster.image import EMPTY, MetadataImage
from ottla.broker.cluster.image_changes import difference
from ottla.broker.cluster.metadata_loader import MetadataBatch, MetadataLoader, Published
from ottla.broker.cluster.raft_records import KRaftVersionRecord, VotersRecord
from ottla.broker.cluster.record_frames import decode_record
from ottla.broker.cluster.snapshots import Snapshot, SnapshotId
from ottla.protocol.errors import ProtocolError
from ottla.protocol.records.batch import BatchHeader, crc_ok, split_batches
from ottla.protocol.records.control import ControlType, control_type
from ottla.protocol.records.record import Record, iter_records
from ottla.protocol.schema import Buffer, decode


class UnreadableMetadata(ProtocolError):
    """A batch of the metadata log that is corrupt, or has an unknown record in it."""


@dataclass(frozen=True, slots=True)
class Quorum:
    """The metadata quorum according to the log's control records: the level of `kraft.version` and, from level 1 on, the voters."""

    kraft_version: int = 0
    voters: VotersRecord | None = None


class ImageFeed:
    """Decodes the metadata log into images. The caller passes every committed batch to `load`, in log order, and a snapshot to
    `load_snapshot` if the beginning of the log is missing.

    Both methods return the images to publish. They raise ProtocolError for data that cannot be decoded, and `InconsistentRecord` for a
    record that contradicts earlier ones. After an error the feed is unusable.
    """

    def __init__(self) -> None:
        self.next_offset = 0
        """The log offset at which the batches that the next call of `load` gets must start."""
        self.quorum = Quorum()
        self.bytes_since_snapshot = 0
        self._loader = MetadataLoader()
        self._seen_record = False
        self._caught_up = False

    @property
    def image(self) -> MetadataImage:
        """The image of all loaded records, published or not, without those of an open metadata transaction."""
        return self._loader.published.image

    @property
    def in_transaction(self) -> bool:
        """Whether the loaded part of the log ends inside a metadata transaction (KIP-868)."""
        return self._loader.in_transaction

    def load(self, batches: Buffer, committed: int | None) -> list[Published]:
        """Load whole batches of the metadata log from `next_offset` on, and return the images to publish. `committed` is the leader's high
        watermark, None before the leader's first response. The first image is published when the log was read up to this offset. Kafka
        waits for the local copy's high watermark instead, and so may publish outdated metadata after the first fetch."""
        loaded = []
        for position, header in split_batches(batches):
            loaded.append(self._batch(memoryview(batches)[position : position + header.size_bytes], header))
            self.next_offset = header.next_offset
            self.bytes_since_snapshot += header.size_bytes
        return self._pass(self._loader.load(loaded), committed)

    def load_snapshot(self, snapshot_id: SnapshotId, snapshot: Snapshot, committed: int | None) -> list[Published]:
        """Load a metadata snapshot, which replaces the whole image, and return the images to publish. The snapshot at offset 0 only
        describes the quorum. `committed` is the leader's high watermark.
        """
        self.quorum = Quorum(snapshot.kraft_version, snapshot.voters)
        self.next_offset = snapshot_id.end_offset
        self.bytes_since_snapshot = 0
        if snapshot_id.end_offset == 0:
            return []
        self._seen_record = True
        end_offset, epoch = snapshot_id.end_offset, snapshot_id.epoch
        return self._pass([self._loader.load_snapshot(snapshot.records, end_offset, epoch, snapshot.last_append_time_ms)], committed)

    def _pass(self, published: list[Published], committed: int | None) -> list[Published]:
        if self._caught_up:
            return published
        last = self._loader.published
        if committed is None or last.provenance.offset < committed - 1 or not self._seen_record:
            return []
        self._caught_up = True
        return [Published(last.image, last.provenance, difference(EMPTY, last.image))]

    def _batch(self, data: memoryview, header: BatchHeader) -> MetadataBatch:
        if not crc_ok(data, header):
            raise UnreadableMetadata(f"the batch at offset {header.base_offset} of the metadata log has a wrong checksum")
        if header.is_control:
            for record in iter_records(data):
                self._control_record(record, header.base_offset)
            records = []
        else:
            self._seen_record = True
            records = [decode_record(record.value or b"")[0] for record in iter_records(data)]
        return MetadataBatch(header.base_offset, header.last_offset, header.partition_leader_epoch, header.max_timestamp, records)

    def _control_record(self, record: Record, base_offset: int) -> None:
        value = record.value or b""
        match control_type(record.key):
            case ControlType.KRAFT_VERSION:
                self.quorum = Quorum(decode(KRaftVersionRecord, value, 0).kraft_version, self.quorum.voters)
            case ControlType.KRAFT_VOTERS:
                self.quorum = Quorum(self.quorum.kraft_version, decode(VotersRecord, value, 0))
            case ControlType.LEADER_CHANGE | ControlType.SNAPSHOT_HEADER | ControlType.SNAPSHOT_FOOTER:
                pass
            case _:
                raise UnreadableMetadata(f"the control batch at offset {base_offset} of the metadata log has an unknown control record")
