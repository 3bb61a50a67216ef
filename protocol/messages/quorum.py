"""The structs that the requests of the metadata quorum have in common (keys 52 to 55, 59, 80 and 82).

Kafka's schemas call a `Listener` LeaderEndpoint in BeginQuorumEpoch and EndQuorumEpoch.
"""

from __future__ import annotations

from ottla.protocol.schema import array, int16, int32, string, uint16, wire_struct


@wire_struct
class Listener:
    name: str = string()
    host: str = string()
    port: int = uint16()


@wire_struct
class NodeEndpoint:
    """The address of the quorum's leader."""

    node_id: int = int32()
    host: str = string()
    port: int = uint16()


@wire_struct
class EpochPartition:
    """The result for a partition in BeginQuorumEpoch and EndQuorumEpoch."""

    partition_index: int = int32()
    error_code: int = int16()
    leader_id: int = int32()
    leader_epoch: int = int32()


@wire_struct
class EpochTopic:
    topic_name: str = string()
    partitions: list[EpochPartition] = array(EpochPartition)
