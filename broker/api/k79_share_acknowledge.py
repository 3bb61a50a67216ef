"""ShareAcknowledge (key 79), versions 1-2: acknowledges records that a share group's member has acquired (KIP-932).

Promises:
* The response is sent when the acknowledgements are persisted: an accepted record is not delivered again, not even after a crash.
* Each partition's acknowledgements are all applied or none. Version 2 may renew acquisition locks (KIP-1222), which persists nothing.
* The request belongs to the member's share session and advances its epoch. Epoch -1 ends the session and releases the records that the
  member still holds.
* The acknowledgement of a record that the member does not hold, or no longer holds, is INVALID_RECORD_STATE.
"""

from __future__ import annotations

from collections.abc import Awaitable

from ottla.broker.api.context import Context
from ottla.broker.api.declaration import Api
from ottla.broker.api.deferred import transform
from ottla.broker.api.services import ShareGroupServices
from ottla.broker.api.share_requests import Acknowledgements, acknowledge, check_member, endpoints, leader_of
from ottla.broker.core.rejected import Rejected
from ottla.broker.share.sessions import FINAL_EPOCH, INITIAL_EPOCH
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k79_share_acknowledge import (
    PartitionData,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
)

API = Api(ShareAcknowledgeRequest, array_limits={"topics.partitions": 10_000, "topics.partitions.acknowledgement_batches": 20_000})


@API.on_broker()
def handle(
    ctx: Context[ShareGroupServices], request: ShareAcknowledgeRequest
) -> ShareAcknowledgeResponse | Awaitable[ShareAcknowledgeResponse]:
    """Apply the acknowledgements of acquired records in the member's share session, and respond when they are persisted. Epoch 0 is
    INVALID_SHARE_SESSION_EPOCH, because this request cannot begin a session."""
    shares, epoch = ctx.services.share.partitions, request.share_session_epoch
    try:
        group_id, member_id = check_member(ctx, request)
        if epoch == INITIAL_EPOCH:
            raise Rejected(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
        session = shares.sessions.check(group_id, member_id, epoch)
    except Rejected as rejected:
        return ShareAcknowledgeResponse(error_code=rejected.code)
    if epoch != FINAL_EPOCH:
        session.next_epoch()

    def respond(results: Acknowledgements) -> ShareAcknowledgeResponse:
        if epoch == FINAL_EPOCH:
            shares.release(session)
        return _response(ctx, group_id, results)

    return transform(acknowledge(ctx, request), respond)


def _response(ctx: Context[ShareGroupServices], group_id: str, results: Acknowledgements) -> ShareAcknowledgeResponse:
    topics: dict[bytes, ShareAcknowledgeTopicResponse] = {}
    leaders: list[int] = []
    for key, result in results.items():
        data = PartitionData(key.partition, result.error, result.message)
        leader = leader_of(ctx, key, result.error)
        if leader is not None:
            data.current_leader = leader
            leaders.append(leader.leader_id)
        topics.setdefault(key.topic_id, ShareAcknowledgeTopicResponse(key.topic_id)).partitions.append(data)
    return ShareAcknowledgeResponse(
        acquisition_lock_timeout_ms=ctx.services.share.partitions.settings_of(group_id).record_lock_duration_ms,
        responses=list(topics.values()),
        node_endpoints=endpoints(ctx, leaders),
    )
