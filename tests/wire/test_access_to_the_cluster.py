"""The cluster permissions that a standalone node requires for requests that a controller handles (KAFKA ControllerApis)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k34_alter_replica_log_dirs import AlterReplicaLogDir, AlterReplicaLogDirsRequest, AlterReplicaLogDirTopic
from ottla.protocol.messages.k43_elect_leaders import ElectLeadersRequest, TopicPartitions
from ottla.protocol.messages.k45_alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.protocol.messages.k46_list_partition_reassignments import ListPartitionReassignmentsRequest
from ottla.protocol.messages.k49_alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData, OpData
from ottla.protocol.messages.k55_describe_quorum import DescribeQuorumRequest
from ottla.protocol.messages.k57_update_features import FeatureUpdateKey, UpdateFeaturesRequest
from ottla.protocol.messages.k64_unregister_broker import UnregisterBrokerRequest
from ottla.protocol.messages.k80_add_raft_voter import AddRaftVoterRequest
from ottla.protocol.messages.k81_remove_raft_voter import RemoveRaftVoterRequest
from tests.support.access import GUARDED, ann, bob
from tests.support.running_broker import RunningBroker

DENIED = int(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


def codes(message: Any) -> set[int]:
    """Return all error codes in a response."""
    if isinstance(message, list):
        return {code for each in message for code in codes(each)}
    names = getattr(message, "__dataclass_fields__", {})
    own = {message.error_code} if "error_code" in names else set()
    return own | {code for name in names for code in codes(getattr(message, name))}


@pytest.mark.parametrize(
    "request_",
    [
        AlterReplicaLogDirsRequest([AlterReplicaLogDir("/x", [AlterReplicaLogDirTopic("t", [0])])]),
        ElectLeadersRequest(0, [TopicPartitions("t", [0])]),
        AlterPartitionReassignmentsRequest(1_000, topics=[ReassignableTopic("t", [ReassignablePartition(0, [1])])]),
        ListPartitionReassignmentsRequest(1_000, None),
        DescribeQuorumRequest([]),
        UpdateFeaturesRequest(1_000, [FeatureUpdateKey("group.version", 1)]),
        UnregisterBrokerRequest(9),
        AddRaftVoterRequest(None, 1_000, 2, b"d" * 16, []),
        RemoveRaftVoterRequest(None, 2, b"d" * 16),
    ],
    ids=lambda request_: type(request_).__name__,
)
def test_each_request_requires_its_permission_on_the_cluster(tmp_path: Path, request_: Any) -> None:
    with RunningBroker(tmp_path / "data", GUARDED) as broker:
        with ann(broker) as client:
            assert DENIED in codes(client.call(request_))
        with bob(broker) as client:
            assert DENIED not in codes(client.call(request_))


def test_a_denied_change_of_quotas_names_every_requested_entity(tmp_path: Path) -> None:
    entity = [EntityData("user", None), EntityData("user", "x"), EntityData("odd", None)]
    with RunningBroker(tmp_path / "data", GUARDED) as broker, ann(broker) as client:
        (entry,) = client.call(AlterClientQuotasRequest([EntryData(entity, [OpData("producer_byte_rate", 1.0)])])).entries
    assert entry.error_code == DENIED
    assert [(part.entity_type, part.entity_name) for part in entry.entity] == [("user", None), ("user", "x"), ("odd", None)]
