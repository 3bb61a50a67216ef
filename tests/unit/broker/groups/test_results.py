from __future__ import annotations

from ottla.broker.groups.results import JoinGroupResult, SyncGroupResult
from ottla.protocol.error_codes import ErrorCode


def test_an_error_response_has_no_generation_protocol_or_assignment() -> None:
    refused = JoinGroupResult(error=ErrorCode.UNKNOWN_MEMBER_ID, member_id="m")
    assert (refused.generation, refused.protocol_type, refused.protocol_name, refused.leader, refused.members) == (-1, None, None, "", ())
    assert not refused.skip_assignment
    assert SyncGroupResult(error=ErrorCode.ILLEGAL_GENERATION).assignment == b""
