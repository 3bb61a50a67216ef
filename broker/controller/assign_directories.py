"""Decides AssignReplicasToDirs: a broker reports in which of its directories replicas lie (Kafka's `handleAssignReplicasToDirs`; KIP-858).

A replica that is reported in an offline directory leaves the ISR and the leadership. Its partition then has two records: the first one
assigns the directory, the second one changes ISR and leader.
"""

from __future__ import annotations

from ottla.broker.cluster.metadata_records import MetadataRecord
from ottla.broker.cluster.record_versions import DIRECTORIES
from ottla.broker.controller.leader_changes import replicas_lost
from ottla.broker.controller.partition_change import ElectionKind, PartitionTarget
from ottla.broker.controller.state import ControllerState
from ottla.broker.controller.topic_rules import TopicRules
from ottla.broker.core.effects import Effects
from ottla.broker.core.rejected import Rejected
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k73_assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    DirectoryResult,
    PartitionResult,
    TopicData,
    TopicResult,
)


def assign_directories(
    state: ControllerState, request: AssignReplicasToDirsRequest
) -> Effects[MetadataRecord, AssignReplicasToDirsResponse]:
    """Decide an AssignReplicasToDirs request: return the metadata records to write, and the response. Raises Rejected with
    UNSUPPORTED_VERSION if metadata.version is below 17, and with STALE_BROKER_EPOCH if the request does not have the broker's current
    epoch."""
    if state.metadata_level < DIRECTORIES:
        raise Rejected(ErrorCode.UNSUPPORTED_VERSION, "Directory assignment is not supported yet.")
    broker = state.broker(request.broker_id, request.broker_epoch)
    records: list[MetadataRecord] = []
    lost: set[tuple[bytes, int]] = set()
    results = []
    for directory in request.directories:
        topics = [_assigned(state, request.broker_id, directory.id, topic_data, records) for topic_data in directory.topics]
        if not broker.has_online(directory.id):
            found = ((topic.topic_id, each) for topic in topics for each in topic.partitions)
            lost.update((topic_id, each.partition_index) for topic_id, each in found if each.error_code == ErrorCode.NONE)
        results.append(DirectoryResult(directory.id, topics))
    records += replicas_lost(state, request.broker_id, lost)
    return Effects(records, AssignReplicasToDirsResponse(directories=results))


def _assigned(
    state: ControllerState, broker_id: int, directory: bytes, topic_data: TopicData, records: list[MetadataRecord]
) -> TopicResult:
    topic = state.image.topics.get(topic_data.topic_id)
    if topic is None:
        return TopicResult(
            topic_data.topic_id, [PartitionResult(each.partition_index, ErrorCode.UNKNOWN_TOPIC_ID) for each in topic_data.partitions]
        )
    rules = TopicRules(state, topic)
    results = []
    for index in (each.partition_index for each in topic_data.partitions):
        partition = topic.partitions.get(index)
        if partition is None:
            error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        elif broker_id not in partition.replicas:
            error = ErrorCode.NOT_LEADER_OR_FOLLOWER
        else:
            error = ErrorCode.NONE
            record = rules.change(index, PartitionTarget(directories={broker_id: directory}), ElectionKind.ONLINE)
            records.extend(() if record is None else (record,))
        results.append(PartitionResult(index, error))
    return TopicResult(topic_data.topic_id, results)
