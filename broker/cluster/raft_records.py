"""Raft's control records in the metadata log and its snapshots, which describe the quorum (Kafka's `ControlRecordUtils`).

The first field of each record repeats the record's version. Kafka 4.4 writes version 0 of all of them.
"""

from __future__ import annotations

import struct as _struct
from collections.abc import Iterable
from typing import Final

from ottla.protocol.records.control import ControlType
from ottla.protocol.records.record import SimpleRecord, build_batch
from ottla.protocol.schema import Message, array, encode, int16, int32, int64, string, struct, uint16, uuid, wire_struct


@wire_struct
class ElectionVoter:
    """A voter that took part in a leader's election; an element of a LeaderChangeMessage."""

    voter_id: int = int32()


@wire_struct
class LeaderChangeMessage(Message, versions="0", flexible="0+"):
    """The first record of a leader's epoch in the metadata log."""

    version: int = int16()
    leader_id: int = int32()
    voters: list[ElectionVoter] = array(ElectionVoter)
    granting_voters: list[ElectionVoter] = array(ElectionVoter)


@wire_struct
class SnapshotHeaderRecord(Message, versions="0", flexible="0+"):
    """The first record of a metadata snapshot. It has the time (ms) at which the last record in the snapshot was appended to the log."""

    version: int = int16()
    last_contained_log_timestamp: int = int64()


@wire_struct
class SnapshotFooterRecord(Message, versions="0", flexible="0+"):
    """The last record of a metadata snapshot; a snapshot without it is truncated."""

    version: int = int16()


@wire_struct
class KRaftVersionRecord(Message, versions="0", flexible="0+"):
    """The level of `kraft.version`: 0, or 1 if voters can change (KIP-853)."""

    version: int = int16()
    kraft_version: int = int16()


@wire_struct
class VoterEndpoint:
    """The name and address of a listener of a voter."""

    name: str = string()
    host: str = string()
    port: int = uint16()


@wire_struct
class KRaftVersionFeature:
    """The levels of `kraft.version` that a voter supports."""

    min_supported_version: int = int16()
    max_supported_version: int = int16()


@wire_struct
class Voter:
    """A voter of the quorum. At `kraft.version` 0 its directory may be unknown: sixteen zero bytes."""

    voter_id: int = int32()
    voter_directory_id: bytes = uuid()
    endpoints: list[VoterEndpoint] = array(VoterEndpoint)
    kraft_version_feature: KRaftVersionFeature = struct(KRaftVersionFeature)


@wire_struct
class VotersRecord(Message, versions="0", flexible="0+"):
    """The complete list of the quorum's voters, in force from this record on."""

    version: int = int16()
    voters: list[Voter] = array(Voter)


CONTROL_TYPES: Final[dict[type[Message], ControlType]] = {
    LeaderChangeMessage: ControlType.LEADER_CHANGE,
    SnapshotHeaderRecord: ControlType.SNAPSHOT_HEADER,
    SnapshotFooterRecord: ControlType.SNAPSHOT_FOOTER,
    KRaftVersionRecord: ControlType.KRAFT_VERSION,
    VotersRecord: ControlType.KRAFT_VOTERS,
}
_KEY: Final = _struct.Struct(">hh")


def control_batch(messages: Iterable[Message], offset: int, epoch: int, now_ms: int) -> bytes:
    """Return one batch with the control records `messages`. The first record has the offset `offset`, the batch has the leader epoch
    `epoch`, and all timestamps are `now_ms`."""
    records = [SimpleRecord(_KEY.pack(0, CONTROL_TYPES[type(message)]), encode(message, 0), now_ms) for message in messages]
    return build_batch(records, base_offset=offset, leader_epoch=epoch, control=True)
