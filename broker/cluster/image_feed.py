"""From the bytes of the metadata log to what a broker is told of the cluster (Kafka's `MetadataLoader`, `KRaftControlRecordStateMachine`).

Rules that hold inside:
- Nothing comes out until the log was followed to where it is committed, and something was in it: a broker must not act on the past.
  Then the whole image comes out as one change, and after it each change.
- What cannot be read ends it: a record that is passed over is a state that differs from the controllers'.
"""

from __future__ import annotations

from dataclasses import dataclass

from ottla.broker.cluster.image import EMPTY
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
    """A batch of the metadata log that is damaged, or has something in it that nobody knows."""


@dataclass(frozen=True, slots=True)
class Quorum:
    """What the log says of the quorum: the level of `kraft.version`, and its members from level 1 on."""

    kraft_version: int = 0
    voters: VotersRecord | None = None


class ImageFeed:
    """`load` all that is committed, in the order of the log; `load_snapshot` where the log's beginning is not there.

    Each returns what is to be told. Both raise ProtocolError and `InconsistentRecord`; then it cannot go on.
    """

    def __init__(self) -> None:
        self.next_offset = 0
        """How far the log was loaded."""
        self.quorum = Quorum()
        self.bytes_since_snapshot = 0
        self._loader = MetadataLoader()
        self._seen_record = False
        self._caught_up = False

    @property
    def in_transaction(self) -> bool:
        """Whether the log, as far as it was loaded, is inside a transaction."""
        return self._loader.in_transaction

    def load(self, batches: Buffer, committed: int | None) -> list[Published]:
        """Whole batches from `next_offset` on. `committed`: how far the leader said that its log is, None before it has.

        Kafka looks at how far the copy of the log is, which lets out what was in the first fetch.
        """
        loaded = []
        for position, header in split_batches(batches):
            loaded.append(self._batch(memoryview(batches)[position : position + header.size_bytes], header))
            self.next_offset = header.next_offset
            self.bytes_since_snapshot += header.size_bytes
        return self._pass(self._loader.load(loaded), committed)

    def load_snapshot(self, snapshot_id: SnapshotId, snapshot: Snapshot, committed: int | None) -> list[Published]:
        """The image of a snapshot; what it does not name is gone. The one at offset 0 only names the quorum."""
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
                self._hear(record, header.base_offset)
            records = []
        else:
            self._seen_record = True
            records = [decode_record(record.value or b"")[0] for record in iter_records(data)]
        return MetadataBatch(header.base_offset, header.last_offset, header.partition_leader_epoch, header.max_timestamp, records)

    def _hear(self, record: Record, base_offset: int) -> None:
        value = record.value or b""
        match control_type(record.key):
            case ControlType.KRAFT_VERSION:
                self.quorum = Quorum(decode(KRaftVersionRecord, value, 0).kraft_version, self.quorum.voters)
            case ControlType.KRAFT_VOTERS:
                self.quorum = Quorum(self.quorum.kraft_version, decode(VotersRecord, value, 0))
            case ControlType.LEADER_CHANGE | ControlType.SNAPSHOT_HEADER | ControlType.SNAPSHOT_FOOTER:
                pass
            case _:
                raise UnreadableMetadata(f"the control batch at offset {base_offset} of the metadata log holds what is not known here")
