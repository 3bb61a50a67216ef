from __future__ import annotations

from ottla.broker.api.error_response import error_response
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k01_fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.k30_create_acls import AclCreation, CreateAclsRequest
from ottla.protocol.messages.k42_delete_groups import DeleteGroupsRequest
from ottla.protocol.messages.k80_add_raft_voter import AddRaftVoterRequest
from ottla.protocol.messages.k88_streams_group_heartbeat import StreamsGroupHeartbeatRequest

ERROR = ErrorCode.ILLEGAL_SASL_STATE


def test_a_rejected_streams_heartbeat_has_neither_text_nor_tasks() -> None:
    response = error_response(ApiKey.STREAMS_GROUP_HEARTBEAT, 0, StreamsGroupHeartbeatRequest(), ERROR, "why")
    assert (response.error_code, response.error_message, response.status) == (ERROR, None, [])
    assert {response.active_tasks, response.standby_tasks, response.warmup_tasks, response.partitions_by_user_endpoint} == {None}


def test_a_rejected_fetch_names_partitions_only_before_topic_ids() -> None:
    request = FetchRequest(session_id=7, topics=[FetchTopic("t", partitions=[FetchPartition(3)])])
    old, new = (error_response(ApiKey.FETCH, version, request, ERROR) for version in (12, 13))
    assert [(each.partition_index, each.error_code, each.high_watermark) for each in old.responses[0].partitions] == [(3, ERROR, -1)]
    assert (new.error_code, new.session_id, new.responses) == (ERROR, 7, [])


def test_the_text_is_that_of_the_exception_or_of_the_code() -> None:
    acls = error_response(ApiKey.CREATE_ACLS, 3, CreateAclsRequest([AclCreation(2, "t", 3, "User:a", "*", 3, 3)] * 2), ERROR, "why")
    assert [(each.error_code, each.error_message) for each in acls.results] == [(ERROR, "why")] * 2
    voter = error_response(ApiKey.ADD_RAFT_VOTER, 0, AddRaftVoterRequest(), ERROR, "why")
    assert voter.error_message == "Request is not valid given the current SASL state."


def test_elements_without_a_rule_of_their_own_have_the_error() -> None:
    response = error_response(ApiKey.DELETE_GROUPS, 2, DeleteGroupsRequest(["g", "h"]), ERROR)
    assert [(each.group_id, each.error_code) for each in response.results] == [("g", ERROR), ("h", ERROR)]
