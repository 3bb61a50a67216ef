"""Compare Ottla with Apache Kafka by requests about leaders, replicas, the quorum, features and brokers, sent to a single-node cluster."""

from __future__ import annotations

from client_compat.differential.probe import Probe
from client_compat.differential.scenarios.common import create
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.k34_alter_replica_log_dirs import AlterReplicaLogDir, AlterReplicaLogDirsRequest, AlterReplicaLogDirTopic
from ottla.protocol.messages.k35_describe_log_dirs import DescribeLogDirsRequest
from ottla.protocol.messages.k43_elect_leaders import ElectLeadersRequest, TopicPartitions
from ottla.protocol.messages.k45_alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.protocol.messages.k46_list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from ottla.protocol.messages.k55_describe_quorum import DescribeQuorumRequest, PartitionData, TopicData
from ottla.protocol.messages.k57_update_features import FeatureUpdateKey, UpdateFeaturesRequest
from ottla.protocol.messages.k64_unregister_broker import UnregisterBrokerRequest
from ottla.protocol.messages.k80_add_raft_voter import AddRaftVoterRequest
from ottla.protocol.messages.k81_remove_raft_voter import RemoveRaftVoterRequest
from ottla.protocol.messages.quorum import Listener

ME, NOBODY = 1, 99
SOME_ID = b"\x05" * 16


def elections(probe: Probe) -> None:
    create(probe, "elected", 2)
    variants = {
        "every partition": None,
        "none": [],
        "one": [TopicPartitions("elected", [0])],
        "no such": [TopicPartitions("elected", [0, 9]), TopicPartitions("nowhere", [0])],
    }
    for version in probe.range(ApiKey.ELECT_LEADERS):
        for kind in (0, 1, 7) if version >= 1 else (0,):
            for label, partitions in variants.items():
                probe.ask(f"{label}, of kind {kind}", ElectLeadersRequest(kind, partitions, 5_000), version)


def reassignments(probe: Probe) -> None:
    create(probe, "moved", 2)
    replicas = {"here": [ME], "nowhere": [], "elsewhere": [NOBODY], "twice": [ME, ME], "both": [ME, NOBODY], "negative": [-1], "back": None}
    for version in probe.range(ApiKey.ALTER_PARTITION_REASSIGNMENTS):
        for may_resize in (True, False) if version >= 1 else (True,):
            for label, wanted in replicas.items():
                for topic, index in (("moved", 0), ("moved", 9), ("no-such", 0)):
                    moves = [ReassignableTopic(topic, [ReassignablePartition(index, wanted)])]
                    request = AlterPartitionReassignmentsRequest(5_000, may_resize, moves)
                    probe.ask(f"{topic}-{index} {label}{'' if may_resize else ', as many'}", request, version)
        probe.ask("nothing", AlterPartitionReassignmentsRequest(5_000), version)
    for version in probe.range(ApiKey.LIST_PARTITION_REASSIGNMENTS):
        for label, topics in {"all": None, "none": [], "one": [ListPartitionReassignmentsTopics("moved", [0, 9])]}.items():
            probe.ask(label, ListPartitionReassignmentsRequest(5_000, topics), version)


def directories(probe: Probe) -> None:
    create(probe, "lying", 1)
    own = probe.ask_unrecorded(DescribeLogDirsRequest(None), 4).results[0].log_dir
    for version in probe.range(ApiKey.ALTER_REPLICA_LOG_DIRS):
        for label, path in {"its own": own, "another": "/no/such/directory", "none": ""}.items():
            topics = [AlterReplicaLogDirTopic("lying", [0, 9]), AlterReplicaLogDirTopic("nowhere", [0])]
            probe.ask(label, AlterReplicaLogDirsRequest([AlterReplicaLogDir(path, topics)]), version)
        long = [AlterReplicaLogDirTopic("x" * 249, [0])]
        probe.ask("a long name", AlterReplicaLogDirsRequest([AlterReplicaLogDir(own, long)]), version)
        probe.ask("nothing", AlterReplicaLogDirsRequest([]), version)


def quorum(probe: Probe) -> None:
    metadata, other = TopicData("__cluster_metadata", [PartitionData(0)]), TopicData("other", [PartitionData(0)])
    for version in probe.range(ApiKey.DESCRIBE_QUORUM):
        for label, topics in {"the metadata": [metadata], "another": [other], "both": [metadata, other], "none": []}.items():
            probe.ask(label, DescribeQuorumRequest(topics), version)
    at = [Listener("CONTROLLER", "localhost", 1)]
    for version in probe.range(ApiKey.ADD_RAFT_VOTER):
        probe.ask("of another cluster", AddRaftVoterRequest("nothing", 1_000, NOBODY, SOME_ID, at), version)
        probe.ask("nobody", AddRaftVoterRequest(None, 1_000, -1, SOME_ID, at), version)
        probe.ask("without directory", AddRaftVoterRequest(None, 1_000, NOBODY, bytes(16), at), version)
        probe.ask("without listener", AddRaftVoterRequest(None, 1_000, NOBODY, SOME_ID, []), version)
        probe.ask("who votes", AddRaftVoterRequest(None, 1_000, ME, SOME_ID, at), version)
    for version in probe.range(ApiKey.REMOVE_RAFT_VOTER):
        probe.ask("of another cluster", RemoveRaftVoterRequest("nothing", ME, SOME_ID), version)
        probe.ask("nobody", RemoveRaftVoterRequest(None, -1, SOME_ID), version)
        probe.ask("without directory", RemoveRaftVoterRequest(None, ME, bytes(16)), version)
        probe.ask("who does not vote", RemoveRaftVoterRequest(None, NOBODY, SOME_ID), version)
        probe.ask("who votes, of another directory", RemoveRaftVoterRequest(None, ME, SOME_ID), version)


def features(probe: Probe) -> None:
    """Send UpdateFeatures requests that change nothing permanently, and UnregisterBroker requests about brokers that do not exist."""
    for version in probe.range(ApiKey.UPDATE_FEATURES):
        for dry in (True, False) if version >= 1 else (False,):
            for label, name, level in (
                ("as it is", "group.version", 1),
                ("too high", "group.version", 9),
                ("below nothing", "group.version", -1),
                ("unknown", "no.such", 1),
                ("older metadata", "metadata.version", 20),
                ("newer metadata", "metadata.version", 99),
            ):
                for kind in (1, 2, 3, 0) if version >= 1 else (1,):
                    update = FeatureUpdateKey(name, level, upgrade_type=kind)
                    request = UpdateFeaturesRequest(5_000, [update], validate_only=dry)
                    probe.ask(f"{label}, of type {kind}{', tried' * dry}", request, version)
        probe.ask("nothing", UpdateFeaturesRequest(5_000), version)
    for version in probe.range(ApiKey.UNREGISTER_BROKER):
        probe.ask("unknown", UnregisterBrokerRequest(NOBODY), version)
        probe.ask("below nothing", UnregisterBrokerRequest(-1), version)
