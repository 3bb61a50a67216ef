"""The control records of Raft that stand in snapshots: what a quorum says about itself (Kafka's `ControlRecordUtils`).

Each carries its version a second time as its first field. Kafka 4.3 writes version 0 of all of them.
"""

from __future__ import annotations

from ottla.protocol.schema import Message, array, int16, int32, int64, string, struct, uint16, uuid, wire_struct


@wire_struct
class SnapshotHeaderRecord(Message, versions="0", flexible="0+"):
    """Opens a snapshot."""

    version: int = int16()
    last_contained_log_timestamp: int = int64()


@wire_struct
class SnapshotFooterRecord(Message, versions="0", flexible="0+"):
    """Ends a snapshot: without it the snapshot is cut short."""

    version: int = int16()


@wire_struct
class KRaftVersionRecord(Message, versions="0", flexible="0+"):
    """The level of `kraft.version`: 0, or 1 where voters can change (KIP-853)."""

    version: int = int16()
    kraft_version: int = int16()


@wire_struct
class VoterEndpoint:
    """One listener of a voter."""

    name: str = string()
    host: str = string()
    port: int = uint16()


@wire_struct
class KRaftVersionFeature:
    """The levels of `kraft.version` that a voter knows."""

    min_supported_version: int = int16()
    max_supported_version: int = int16()


@wire_struct
class Voter:
    """One member of the quorum; at `kraft.version` 0 its directory may be unknown, sixteen zero bytes."""

    voter_id: int = int32()
    voter_directory_id: bytes = uuid()
    endpoints: list[VoterEndpoint] = array(VoterEndpoint)
    kraft_version_feature: KRaftVersionFeature = struct(KRaftVersionFeature)


@wire_struct
class VotersRecord(Message, versions="0", flexible="0+"):
    """All members of the quorum from here on."""

    version: int = int16()
    voters: list[Voter] = array(Voter)
