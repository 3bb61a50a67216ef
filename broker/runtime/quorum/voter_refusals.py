"""Rejects requests to add or remove voters, because the quorum always has one voter. Makes Kafka's checks in Kafka's order, then answers
UNSUPPORTED_VERSION.

Source: Kafka's KafkaRaftClient (handleAddVoterRequest, handleRemoveVoterRequest), AddVoterHandler, RemoveVoterHandler.
"""

from __future__ import annotations

from typing import NamedTuple

from ottla.broker.cluster.topic_ids import ZERO_ID
from ottla.broker.core.role_settings import MORE_VOTERS
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k80_add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from ottla.protocol.messages.k81_remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse


class VoterIds(NamedTuple):
    """The cluster id, node id and directory id of the quorum's only voter."""

    cluster_id: str
    node_id: int
    directory_id: bytes


def reject_add_raft_voter(me: VoterIds, request: AddRaftVoterRequest) -> AddRaftVoterResponse:
    """Return a response that rejects AddRaftVoter. The error is INCONSISTENT_CLUSTER_ID for another cluster id, INVALID_REQUEST if the
    request has no valid voter or no listener, and DUPLICATE_VOTER if it names this node's id; otherwise UNSUPPORTED_VERSION.
    """
    code, message = _of_another_cluster(me, request.cluster_id)
    if message is None and (request.voter_id < 0 or request.voter_directory_id == ZERO_ID):
        code, message = ErrorCode.INVALID_REQUEST, "Add voter request didn't include a valid voter"
    if message is None and not request.listeners:
        code, message = ErrorCode.INVALID_REQUEST, "Add voter request didn't include the endpoint for the default listener"
    if message is None and request.voter_id == me.node_id:
        code, message = ErrorCode.DUPLICATE_VOTER, f"The voter id {request.voter_id} is already part of the set of voters."
    if message is None:
        code, message = ErrorCode.UNSUPPORTED_VERSION, MORE_VOTERS
    return AddRaftVoterResponse(error_code=code, error_message=message)


def reject_remove_raft_voter(me: VoterIds, request: RemoveRaftVoterRequest) -> RemoveRaftVoterResponse:
    """Return a response that rejects RemoveRaftVoter. The error is INCONSISTENT_CLUSTER_ID for another cluster id, INVALID_REQUEST if the
    request has no valid voter, and VOTER_NOT_FOUND if it names another voter than this node; otherwise UNSUPPORTED_VERSION.
    """
    code, message = _of_another_cluster(me, request.cluster_id)
    if message is None and (request.voter_id < 0 or request.voter_directory_id == ZERO_ID):
        code, message = ErrorCode.INVALID_REQUEST, "Remove voter request didn't include a valid voter"
    if message is None and (request.voter_id, request.voter_directory_id) != (me.node_id, me.directory_id):
        code, message = ErrorCode.VOTER_NOT_FOUND, f"Cannot remove voter {request.voter_id}, which is not in the set of voters"
    if message is None:
        code, message = ErrorCode.UNSUPPORTED_VERSION, MORE_VOTERS
    return RemoveRaftVoterResponse(error_code=code, error_message=message)


def _of_another_cluster(me: VoterIds, cluster_id: str | None) -> tuple[ErrorCode, str | None]:
    if cluster_id in {None, me.cluster_id}:
        return ErrorCode.NONE, None
    return ErrorCode.INCONSISTENT_CLUSTER_ID, f'The given id "{cluster_id}" doesn\'t match the cluster id "{me.cluster_id}"'
